package workbench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/drift"
	"github.com/stator-db/stator/internal/model/heat"
	"github.com/stator-db/stator/internal/workload"
)

const shop = `model: 1
name: shop
tables:
  shop: {key: {partition: id}}
entities:
  thing: {table: shop, attributes: {id: {format: uuid}, text: {size: 100}}, count: 100}
patterns:
  - {name: read, get: thing, given: [id], rate: 100/s}
  - {name: write, put: thing, replaces: true, rate: 10/s}
`

// do sends a request, and returns the reply as the page gets it.
func do[Out any](t *testing.T, b *Bench, operation string, in any) (out Out, err error) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := b.Do(nil, Target+operation, body)
	if err != nil {
		return out, err
	}
	text, err := json.Marshal(reply)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out, nil
}

// A document has the cost and heat of another traffic, and those of the model itself.
func TestDescribeModel(t *testing.T) {
	b := New("")
	m, err := model.Parse("shop", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	want := m.Check(model.DefaultPrices())
	d, err := do[Document](t, b, "DescribeModel", Design{Text: shop, Times: 3, Rates: map[string]string{"write": "20/s"}})
	if err != nil {
		t.Fatal(err)
	}
	if d.Baseline.Dollars != want.Cost.Dollars || d.Baseline.Hottest != want.Heat[0].Share || d.Baseline.Rates["read"] != "100/s" {
		t.Errorf("the model itself has %+v", d.Baseline)
	}
	if math.Abs(d.Cost.Read-3*want.Cost.Read) > 1e-9 || math.Abs(d.Cost.Write-2*want.Cost.Write) > 1e-9 {
		t.Errorf("with three times the reads and twice the writes it needs %v and %v units, and needed %v and %v", d.Cost.Read, d.Cost.Write, want.Cost.Read, want.Cost.Write)
	}
	if d.Page.Title != "shop" || len(d.Page.Groups) != 1 || len(d.Page.Groups[0].Patterns) != 2 || len(d.Page.Tables) != 1 {
		t.Errorf("the page is %+v", d.Page)
	}
	if d, err = do[Document](t, b, "DescribeModel", Design{Text: "model: 1\ntables: {abc: 1}"}); err != nil || !slices.ContainsFunc(d.Syntax, func(f *model.Fault) bool { return f.Position.Line == 2 }) {
		t.Errorf("a text that is no model: %+v, %v", d, err)
	}
}

// Bills are the prices of a model: of units, or of what is provisioned.
func TestGetBill(t *testing.T) {
	b, prices := New(""), model.DefaultPrices()
	bill, err := do[Bill](t, b, "GetBill", BillRequest{Seconds: 1800, Resources: []Consumption{
		{Table: "shop", OnDemand: true, Read: 1e6, Write: 2e6, Bytes: 1 << 30}, {Table: "other", Index: "x", ProvisionedRead: 100, ProvisionedWrite: 10, Read: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	onDemand, provisioned := prices.ReadRequests+2*prices.WriteRequests, prices.Hour(100, 10)/2
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9*max(1, b) }
	if l := bill.Lines[0]; !near(l.Dollars, onDemand) || !near(l.Month, onDemand*2*model.MonthHours) || !near(l.Storage, prices.Storage) {
		t.Errorf("on demand: %+v", l)
	}
	if l := bill.Lines[1]; !near(l.Dollars, provisioned) || !near(l.Month, provisioned*2*model.MonthHours) {
		t.Errorf("provisioned: %+v", l)
	}
	if !near(bill.Dollars, onDemand+provisioned) || !near(bill.Month, bill.Lines[0].Month+bill.Lines[0].Storage+bill.Lines[1].Month) {
		t.Errorf("the sums are %v and %v", bill.Dollars, bill.Month)
	}
	traffic := workload.Report{Shapes: []workload.ShapeCount{
		{Shape: workload.Shape{Operation: "GetItem", Table: "shop"}, Requests: 10, Units: 5},
		{Shape: workload.Shape{Operation: "PutItem", Table: "shop"}, Requests: 2, Units: 2},
		{Shape: workload.Shape{Operation: "Scan", Table: "shop"}, Requests: 1, Units: 40},
		{Shape: workload.Shape{Operation: "Scan", Table: "other"}, Requests: 1, Units: 40},
	}}
	patterns, err := do[PatternsBill](t, b, "GetPatternBill", PatternBillRequest{Design: Design{Text: shop}, Traffic: traffic, Seconds: 1800})
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]PatternBill)
	for _, p := range patterns.Patterns {
		names[p.Name] = p
	}
	if len(names) != 3 || names["read"].Read != 5 || names["write"].Write != 2 || names[""].Read != 40 || !near(names["write"].Dollars, prices.Requests(0, 2)) || !near(names["write"].Month, prices.Requests(0, 2)*2*model.MonthHours) {
		t.Errorf("the patterns are %+v", patterns.Patterns)
	}
}

// Bills are of at least a second, and of as many shapes as a server counts.
func TestBoundsOfBills(t *testing.T) {
	b := New("")
	many := workload.Report{Shapes: make([]workload.ShapeCount, workload.MaxShapes+1)}
	for want, in := range map[string]PatternBillRequest{
		"There are 4097 shapes, but must be at most 4096":           {Design: Design{Text: shop}, Traffic: many, Seconds: 60},
		"Seconds is 1e-300, but must be from 1 to those of a month": {Design: Design{Text: shop}, Seconds: 1e-300},
	} {
		if _, err := do[PatternsBill](t, b, "GetPatternBill", in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := do[drift.Report](t, b, "GetDrift", DriftRequest{Design: Design{Text: shop}, Traffic: many}); err == nil {
		t.Error("the drift of too many shapes is shown")
	}
}

// Forecasts and drift are those of stator model.
func TestForecastAndDrift(t *testing.T) {
	b := New("")
	f, err := do[heat.Forecast](t, b, "GetForecast", ForecastRequest{Design: Design{Text: shop, Rates: map[string]string{"write": "9000/s"}}, Seconds: 20, Seed: 1})
	if err != nil || f.Throttled == 0 || f.Weight <= 1 {
		t.Errorf("9,000 writes a second of 4,000: %v are throttled, a run stands for %v, %v", f.Throttled, f.Weight, err)
	}
	r, err := do[drift.Report](t, b, "GetDrift", DriftRequest{Design: Design{Text: shop}, Traffic: workload.Report{Shapes: []workload.ShapeCount{
		{Shape: workload.Shape{Operation: "GetItem", Table: "shop"}, Requests: 10, Units: 5, Measured: 10}, {Shape: workload.Shape{Operation: "Scan", Table: "shop"}, Requests: 1}}}})
	if err != nil || len(r.Strays) != 1 || r.Patterns[0].Status != drift.OK || r.Patterns[1].Status != drift.Never {
		t.Errorf("the drift is %+v, %v", r, err)
	}
}

// The model of the console is read again whenever it is asked for.
func TestGetModel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.model.yaml")
	b := New(file)
	if _, err := do[givenModel](t, b, "GetModel", nil); err == nil {
		t.Error("a file that does not exist is given")
	}
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := do[givenModel](t, b, "GetModel", nil); err != nil || got != (givenModel{true, "a.model.yaml", text}) {
			t.Errorf("the model is %+v, %v", got, err)
		}
	}
	if err := os.WriteFile(file, make([]byte, maxModel+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := do[givenModel](t, b, "GetModel", nil); err == nil {
		t.Error("a large file is given")
	}
	if got, err := do[givenModel](t, New(""), "GetModel", nil); err != nil || got.Given {
		t.Errorf("without a file there is %+v, %v", got, err)
	}
}

// Whatever a page sends, a fault says what is wrong, and work is bounded.
func TestFaults(t *testing.T) {
	b := New("")
	for _, c := range []struct{ operation, body, want string }{
		{"None", `{}`, "UnknownOperationException"},
		{"DescribeModel", `{`, "SerializationException"},
		{"DescribeModel", `{"Text":` + strings.Repeat(" ", 10) + `"` + strings.Repeat("x", maxModel+1) + `"}`, "must have at most"},
		{"GetForecast", `{"Text":"model: 1"}`, "must be of 1 to"},
		{"GetForecast", `{"Text":"a: [b","Seconds":5}`, "faults"},
		{"GetForecast", `{"Text":"model: 1\nname: x","Seconds":100000000}`, "must be of 1 to"},
		{"GetBill", `{"Seconds":0}`, "Seconds is 0"},
		{"GetBill", `{"Seconds":60,"Resources":[{"Table":"a","Read":-1}]}`, "is -1"},
	} {
		_, err := b.Do(nil, Target+c.operation, []byte(c.body))
		var fault *apierror.Error
		if !errors.As(err, &fault) || !strings.Contains(fault.Code+": "+fault.Message, c.want) {
			t.Errorf("%s %.40s is answered with %v, want %s", c.operation, c.body, err, c.want)
		}
	}
	for range mostAtOnce {
		b.slots <- struct{}{}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Do(gone.Done(), Target+"GetModel", nil); err == nil {
		t.Error("a request is computed although there is no slot")
	}
}
