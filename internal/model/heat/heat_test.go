package heat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/prove"
)

func readModel(t *testing.T, file string) *model.Model {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parseModel(t, string(text))
}

func parseModel(t *testing.T, text string) *model.Model {
	t.Helper()
	m, err := model.Parse("test.model.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func run(t *testing.T, m *model.Model, times float64, during time.Duration) *Forecast {
	t.Helper()
	f, err := Run(m, Options{Rate: prove.Rate{Times: times}, For: during, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// find returns the units of a table or an index.
func (f *Forecast) find(t *testing.T, table, index, units string) *Resource {
	t.Helper()
	for _, x := range f.Resources {
		if x.Table == table && x.Index == index && x.Units == units {
			return x
		}
	}
	t.Fatalf("no %s units of %s %s are used", units, table, index)
	return nil
}

// Ten hot keys with 90 % of the writes are throttled at 1,000 units on a partition; with
// write sharding of ten suffixes they are not.
func TestTenHotKeys(t *testing.T) {
	x := run(t, readModel(t, "../../../examples/models/hot-keys.model.yaml"), 1, 5*time.Minute).find(t, "ledger", "", "write")
	if x.Throttled == 0 || len(x.Reasons) != 1 || x.Reasons[0].Reason != "TableWriteKeyRangeThroughputExceeded" || x.Busiest.OfWhole {
		t.Errorf("the hot keys: %+v", x)
	}
	// Until the partition is split it serves 1,000 units/s, and is asked for more.
	if at := x.Busiest.Served[6]; at < 990 || at > 1010 || x.Busiest.Asked[6] < 1050 {
		t.Errorf("the busiest partition serves %v units/s of %v after half a minute", at, x.Busiest.Asked[6])
	}
	hot := 0.0
	for _, k := range x.Keys {
		hot += k.Asked
	}
	if len(x.Keys) != 10 || math.Abs(hot/x.Asked-0.9) > 0.01 {
		t.Errorf("ten keys are asked for %v of %v units/s", hot, x.Asked)
	}
	if len(x.Splits) == 0 || x.Splits[0].Second < 170 || x.Splits[0].Second > 260 {
		t.Errorf("the hot partition is split at %v", x.Splits)
	}
	if !slices.ContainsFunc(x.Advice, func(a Advice) bool {
		return a.Change == AddShards && strings.HasPrefix(a.Text, "shard the key ACCOUNT#{accountId} by ")
	}) {
		t.Errorf("the advice is %+v", x.Advice)
	}

	f := run(t, readModel(t, "../../../examples/models/hot-keys-sharded.model.yaml"), 1, 5*time.Minute)
	if f.Throttled > 0 {
		t.Errorf("with write sharding %v requests are throttled: %+v", f.Throttled, f.Resources[0])
	}
	if y := f.find(t, "ledger", "", "write"); math.Abs(y.Asked/x.Asked-1) > 0.02 {
		t.Errorf("the sharded ledger is asked for %v units/s, the other for %v", y.Asked, x.Asked)
	}
}

const smallTable = `model: 1
tables:
  orders:
    key: {partition: PK, sort: SK}
    indexes: {byState: {partition: state, sort: SK%s}}
    %s
entities:
  order:
    keys: {PK: "C#{customer}", SK: "O#{order}"}
    attributes: {customer: {size: 8, distinct: 5000%s}, order: {format: uuid}, state: {size: 6, distinct: 1000}, text: {size: %s}}
    count: 100_000
patterns:
  - {name: put, put: order, replaces: true, rate: %s}
  - {name: get, get: order, given: [customer, order], consistent: true, rate: %s}
`

// Each kind of limit is reported with its reason, its time and what to change.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name       string
		index      string // units of the index
		billing    string
		skew       string
		size       string
		puts, gets string
		throttled  string // table, index and units
		reason     string
		advice     string
	}{
		{name: "nothing", puts: "50/s", gets: "50/s", size: "10"},
		{name: "provisioned writes, after the burst", billing: "billing: provisioned\n    read: {units: 100}\n    write: {units: 100}", index: ", write: {units: 1000}", puts: "120/s", gets: "10/s", size: "10",
			throttled: "orders  write", reason: "TableWriteProvisionedThroughputExceeded", advice: "give table orders "},
		{name: "an index with too few units", billing: "billing: provisioned\n    read: {units: 100}\n    write: {units: 500}", index: ", write: {units: 100}", puts: "60/s", gets: "10/s", size: "10",
			throttled: "orders byState write", reason: "IndexWriteProvisionedThroughputExceeded", advice: "index byState rejects the writes of its table"},
		{name: "a hot key of reads", skew: ", hottest: 0.9", puts: "1/s", gets: "4000/s", size: "10",
			throttled: "orders  read", reason: "TableReadKeyRangeThroughputExceeded", advice: "partitions do not help"},
		{name: "the level of on-demand", puts: "1100/s", gets: "1/s", size: "4000",
			throttled: "orders byState write", reason: "IndexWriteKeyRangeThroughputExceeded", advice: "give index byState a warm throughput of "},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parseModel(t, fmt.Sprintf(smallTable, c.index, c.billing, c.skew, c.size, c.puts, c.gets))
			f := run(t, m, 1, 2*time.Minute)
			if c.throttled == "" {
				if f.Throttled > 0 {
					t.Errorf("throttled: %+v", f.Resources[0])
				}
				return
			}
			at := strings.SplitN(c.throttled, " ", 3)
			x := f.find(t, at[0], at[1], at[2])
			if x.Throttled == 0 || x.Reasons[0].Reason != c.reason {
				t.Fatalf("throttled %v, %v", x.Throttled, x.Reasons)
			}
			if !slices.ContainsFunc(x.Advice, func(a Advice) bool { return strings.HasPrefix(a.Text, c.advice) }) {
				t.Errorf("the advice is %+v", x.Advice)
			}
		})
	}
}

// What is advised helps: with it nothing is throttled.
func TestAdviceHelps(t *testing.T) {
	advised := func(x *Resource, change Change) float64 {
		t.Helper()
		for _, a := range x.Advice {
			if a.Change == change {
				return a.To
			}
		}
		t.Fatalf("no %s is advised: %v", change, x.Advice)
		return 0
	}
	plain := readModel(t, "../../../examples/models/hot-keys.model.yaml")
	shards := advised(run(t, plain, 1, time.Minute).find(t, "ledger", "", "write"), AddShards)
	text, err := os.ReadFile("../../../examples/models/hot-keys-sharded.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sharded := parseModel(t, strings.Replace(string(text), "shards: 10", fmt.Sprintf("shards: %v", shards), 1))
	if f := run(t, sharded, 1, time.Minute); f.Throttled > 0 {
		t.Errorf("with %v shards %v requests are throttled", shards, f.Throttled)
	}

	billing := "billing: provisioned\n    read: {units: 100}\n    write: {units: 50}"
	m := parseModel(t, fmt.Sprintf(smallTable, "", billing, "", "10", "120/s", "1/s"))
	units := 0.0
	for range 3 { // the units of the index, then those of its table
		f := run(t, m, 1, 2*time.Minute)
		if f.Throttled == 0 {
			return
		}
		units = max(units, advised(f.Resources[0], RaiseUnits))
		m.SetProvisioned(100, int(units))
	}
	t.Errorf("with %v units it is still throttled", units)
}

// A table with burst begins with the units of one second, and saves what is unused: a load
// below its units is never throttled, and one that is above all the time is.
func TestDemandDecides(t *testing.T) {
	billing := "billing: provisioned\n    read: {units: 100}\n    write: {units: 100}"
	for _, c := range []struct {
		puts      string
		throttled bool
	}{{"45/s", false}, {"200/s", true}} { // a put that moves its entry costs 2 units of the index
		m := parseModel(t, fmt.Sprintf(smallTable, "", billing, "", "10", c.puts, "1/s"))
		if f := run(t, m, 1, 10*time.Minute); (f.Throttled > 0) != c.throttled {
			t.Errorf("%s: %v requests are throttled: %+v", c.puts, f.Throttled, f.Resources[0])
		}
	}
}

// A load that is too large to be simulated one by one gives the same rates.
func TestWeight(t *testing.T) {
	m := parseModel(t, fmt.Sprintf(smallTable, "", "", "", "10", "2000/s", "100/s"))
	o := Options{Rate: prove.Rate{Times: 1}, For: time.Minute, Seed: 1}
	var asked []float64
	for _, most := range []int{maxSimulated, 20_000} {
		o.Most = most
		f, err := Run(m, o)
		if err != nil {
			t.Fatal(err)
		}
		if (f.Weight > 1) != (most < maxSimulated) {
			t.Errorf("at most %d: the weight is %v", most, f.Weight)
		}
		asked = append(asked, f.find(t, "orders", "", "write").Asked)
	}
	if math.Abs(asked[0]/asked[1]-1) > 0.05 {
		t.Errorf("%v units/s are asked for, and %v with fewer arrivals", asked[0], asked[1])
	}
}

// The same seed gives the same forecast.
func TestForecastRepeats(t *testing.T) {
	m := readModel(t, "../../../apps/taskqueue/taskqueue.model.yaml")
	a, b := run(t, m, 1, time.Minute), run(t, m, 1, time.Minute)
	for i := range a.Resources {
		if x, y := a.Resources[i], b.Resources[i]; x.Asked != y.Asked || x.Served != y.Served || x.Throttled != y.Throttled {
			t.Errorf("%s %s: %v %v %v, then %v %v %v", x.Table, x.Index, x.Asked, x.Served, x.Throttled, y.Asked, y.Served, y.Throttled)
		}
	}
}

// The units that are asked for are those that the cost of the model says, at its peaks.
func TestAskedIsCost(t *testing.T) {
	for _, file := range []string{"taskqueue", "goals"} {
		m := readModel(t, "../../../apps/"+file+"/"+file+".model.yaml")
		f := run(t, m, 1, 2*time.Minute)
		read, write := 0.0, 0.0
		for _, p := range m.Check(model.DefaultPrices()).Patterns {
			for _, of := range m.Patterns {
				if of.Name == p.Name {
					read += p.Read * of.PeakRate().PerSecond
					write += p.Write * of.PeakRate().PerSecond
				}
			}
		}
		asked := map[string]float64{}
		for _, x := range f.Resources {
			asked[x.Units] += x.Asked
		}
		if math.Abs(asked["read"]/read-1) > 0.06 || math.Abs(asked["write"]/write-1) > 0.06 {
			t.Errorf("%s: %v units/s are asked for, and the patterns cost %v and %v", file, asked, read, write)
		}
	}
}

// A rate that is so small that nothing arrives within any time ends at once.
func TestTinyRate(t *testing.T) {
	tr := &traffic{during: time.Hour, perSecond: 1e-300, until: []float64{1e-300}, patterns: []*patternTraffic{{}}}
	if a, ok := tr.next(1, rand.New(rand.NewPCG(1, 2))); ok {
		t.Errorf("%+v arrives", a)
	}
}
