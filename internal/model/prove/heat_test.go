package prove

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/virtualtime"
)

const heatSeed = 20261117

// Units of one request of the random models, whose items are small.
const (
	unitsOfRead  = 0.5
	unitsOfWrite = 1.0
)

// The busiest partitions of random models get as many requests under load as
// the check predicts. The load gives each pattern items of its own, so each
// entity of these models has one pattern; it repeats items, so it can follow
// distinct, hottest and skew, but no current time and no shards of writes.
// TestLoadFollowsMix has the mix.
func TestHeatIsAsPredicted(t *testing.T) {
	const during = 20 * time.Second
	compared := 0
	for n := range uint64(20) {
		chance := rand.New(rand.NewPCG(heatSeed, n))
		text := randomModel(chance)
		m := parse(t, text)
		report := m.Check(model.DefaultPrices())
		virtualtime.Test(t, func(t *testing.T) {
			r, err := Load(t.Context(), answering(0, nil), m, LoadOptions{Rate: Rate{Times: 1}, For: during, Seed: heatSeed + n})
			if err != nil {
				t.Fatal(err)
			}
			seen := make(map[*model.Partition]bool)
			for _, hot := range r.Hottest {
				p := predictedFor(report, hot.Key)
				if p == nil {
					t.Fatalf("seed %d, %d: no partition is predicted for %s:\n%s", heatSeed, n, hot.Key, text)
				}
				want := (p.Read/unitsOfRead + p.Write/unitsOfWrite) * during.Seconds()
				if seen[p] || want < 2000 {
					continue // the prediction is of the busiest; few requests vary by more than 10 %
				}
				seen[p] = true
				compared++
				if got := float64(hot.Requests); math.Abs(got/want-1) > 0.1 {
					t.Errorf("seed %d, %d: %s gets %v requests, predicted are %.0f:\n%s", heatSeed, n, hot.Key, got, want, text)
				}
			}
		})
	}
	if compared < 24 {
		t.Errorf("only %d partitions were compared", compared)
	}
}

// The values of a listed attribute get the shares of their mix, in the partitions of a table
// and of an index.
func TestLoadFollowsMix(t *testing.T) {
	m := parse(t, `model: 1
tables:
  tab: {key: {partition: PK, sort: SK}, indexes: {byState: {partition: GSI}}}
  kinds: {key: {partition: kind}}
entities:
  msg: {table: tab, keys: {PK: "KIND#{kind}", SK: "M#{id}", GSI: "STATE#{state}"}, attributes: {id: {format: uuid}, kind: {values: [TEXT, CALL, FILE], mix: {TEXT: 0.7, CALL: 0.2}}, state: {values: [ON, OFF], mix: {ON: 0.25}}}, count: 1000}
  kind: {table: kinds, attributes: {kind: {values: [A, B], mix: {A: 0.9}}}}
patterns:
  - {name: put, put: msg, replaces: true, rate: 500/s}
  - {name: create, put: msg, condition: "attribute_not_exists(PK)", rate: 200/s}
  - {name: read, query: msg, given: [kind], matches: 3, rate: 500/s}
  - {name: kind, get: kind, given: [kind], rate: 500/s}
`)
	const during = 20 * time.Second
	want := map[string]float64{
		"tab KIND#TEXT": 0.7 * 1200, "tab KIND#CALL": 0.2 * 1200, "tab KIND#FILE": 0.1 * 1200,
		"tab.byState STATE#OFF": 0.75 * 700, "tab.byState STATE#ON": 0.25 * 700, "kinds A": 450, "kinds B": 50,
	}
	virtualtime.Test(t, func(t *testing.T) {
		r, err := Load(t.Context(), answering(0, nil), m, LoadOptions{Rate: Rate{Times: 1}, For: during, Seed: heatSeed})
		if err != nil {
			t.Fatal(err)
		}
		for _, hot := range r.Hottest {
			if is, ok := want[hot.Key]; !ok || math.Abs(float64(hot.Requests)/(is*during.Seconds())-1) > 0.1 {
				t.Errorf("%s gets %d requests, want %.0f", hot.Key, hot.Requests, is*during.Seconds())
			}
			delete(want, hot.Key)
		}
		for key := range want {
			t.Errorf("%s gets no requests", key)
		}
	})
}

// Several hot values share the traffic of hottest evenly, and those of a pattern its skew.
func TestLoadFollowsHotValues(t *testing.T) {
	m := parse(t, `model: 1
tables: {tab: {key: {partition: PK, sort: SK}}}
entities:
  a: {keys: {PK: "A#{owner}", SK: "S#{id}"}, attributes: {owner: {size: 10, distinct: 500, hottest: 0.8, hot: 4}, id: {format: uuid}}, count: 1000}
  b: {keys: {PK: "B#{owner}", SK: "S#{id}"}, attributes: {owner: {size: 10, distinct: 500, hottest: 0.8, hot: 4}, id: {format: uuid}}, count: 1000}
patterns:
  - {name: read a, get: a, given: [owner, id], rate: 1000/s}
  - {name: read b, get: b, given: [owner, id], skew: {owner: 0.4}, rate: 1000/s}
`)
	for _, p := range m.Check(model.DefaultPrices()).Heat {
		if want := map[string]float64{"A#{owner}": 100, "B#{owner}": 50}[p.Key]; p.Read != want {
			t.Errorf("%s is asked for %v units/s, want %v", p.Key, p.Read, want)
		}
	}
	const during = 20 * time.Second
	virtualtime.Test(t, func(t *testing.T) {
		r, err := Load(t.Context(), answering(0, nil), m, LoadOptions{Rate: Rate{Times: 1}, For: during, Seed: heatSeed})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Hottest) < 8 {
			t.Fatalf("the hottest keys are %v", r.Hottest)
		}
		for i, hot := range r.Hottest[:8] {
			prefix, want := "tab A#", 0.2*1000*during.Seconds()
			if i >= 4 {
				prefix, want = "tab B#", 0.1*1000*during.Seconds()
			}
			if !strings.HasPrefix(hot.Key, prefix) || math.Abs(float64(hot.Requests)/want-1) > 0.1 {
				t.Errorf("%s gets %d requests, want %.0f of %s", hot.Key, hot.Requests, want, prefix)
			}
		}
	})
}

// predictedFor returns the partition that a key of a load belongs to: each has a
// prefix of its own.
func predictedFor(r *model.Report, key string) *model.Partition {
	for _, p := range r.Heat {
		prefix, _, _ := strings.Cut(p.Key, "{")
		if strings.HasPrefix(key, tableOrIndex{p.Table, p.Index}.String()+" "+prefix) {
			return p
		}
	}
	return nil
}

// randomModel returns a model of up to four entities, each with one pattern.
func randomModel(chance *rand.Rand) string {
	pick := func(options ...string) string { return options[chance.IntN(len(options))] }
	var entities, patterns strings.Builder
	for i := range 1 + chance.IntN(4) {
		values := 2 + chance.IntN(7)
		share := max(1.5/float64(values), 0.1+0.8*chance.Float64())
		hottest, skew := "", ""
		switch chance.IntN(3) {
		case 0:
			hottest = fmt.Sprintf(", hottest: %.2f", share)
		case 1:
			skew = fmt.Sprintf(", skew: {owner: %.2f}", share)
		}
		shard := ""
		verb := pick("get: e%d, given: [owner, id]", "query: e%d, given: [owner], matches: 2", "query: e%d, given: [owner], matches: 4",
			"update: e%d, given: [owner, id], set: {note: \"{note}\"}", "put: e%d, replaces: true")
		if strings.HasPrefix(verb, "query") && chance.IntN(2) == 0 {
			shard = "#{shard}"
		}
		fmt.Fprintf(&entities, "  e%d: {keys: {PK: \"E%d#{owner}%s\", SK: \"S#{id}\"}, attributes: {owner: {size: 10, distinct: %d%s}, id: {format: uuid}, note: {size: 20}, shard: {shards: %d, of: id}}, count: 1000}\n",
			i, i, shard, values, hottest, 2+chance.IntN(3))
		fmt.Fprintf(&patterns, "  - {name: p%d, %s, rate: %d/s%s}\n", i, fmt.Sprintf(verb, i), 200+chance.IntN(800), skew)
	}
	return "model: 1\ntables: {tab: {key: {partition: PK, sort: SK}}}\nentities:\n" + entities.String() + "patterns:\n" + patterns.String()
}
