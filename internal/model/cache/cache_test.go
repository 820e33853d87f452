package cache

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model"
)

const catalogue = `
model: 1
tables:
  Shop:
    key: {partition: PK, sort: SK}
    indexes:
      byStatus: {partition: status, sort: SK, projection: KEYS_ONLY}
      byBrand: {partition: brand, sort: SK}
entities:
  product:
    keys: {PK: "PRODUCT#{sku}", SK: "PRODUCT"}
    attributes: {sku: {size: 10}, name: {size: 200}, brand: {distinct: 100, size: 10}, status: {values: [new, sold]}, stock: N, changed: {format: iso8601}}
    count: 1000
  visitor:
    keys: {PK: "VISITOR#{id}", SK: "VISITOR"}
    attributes: {id: {size: 10, distinct: 1000000, hottest: 0.5, hot: 1000}}
    count: 1000000
  draft:
    keys: {PK: "DRAFT#{draftId}", SK: "DRAFT"}
    attributes: {draftId: {size: 10}}
patterns:
  - {name: product, get: product, given: [sku], rate: 1000/s}
  - {name: exactly, get: product, given: [sku], consistent: true, rate: 10/s}
  - {name: both, transact: [{get: product, given: [sku]}, {get: visitor, given: [id]}], rate: 1/s}
  - {name: products of a brand, query: product, given: [brand], index: byBrand, matches: 10, rate: 10/s}
  - {name: products by status, query: product, given: [status], index: byStatus, matches: 10, rate: 10/s}
  - {name: changed since, query: product, given: [brand], index: byBrand, range: {attribute: changed, is: after}, matches: 1, rate: 1/s}
  - {name: visitor, get: visitor, given: [id], rate: 100/s}
  - {name: draft, get: draft, given: [draftId], rate: 1/s}
  - {name: sell, update: product, given: [sku], set: {stock: "{stock}"}, rate: 10/s}
`

func parsed(t *testing.T) *model.Model {
	t.Helper()
	m, err := model.Parse("catalogue.model.yaml", []byte(catalogue))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func adviceFor(t *testing.T, change func(*Options)) (*Advice, map[string]*PatternAdvice) {
	t.Helper()
	o := Options{ItemTTL: 5 * time.Minute, QueryTTL: 5 * time.Minute, NodeType: "dax.t3.small", Nodes: 3, Prices: model.DefaultPrices()}
	if change != nil {
		change(&o)
	}
	a, err := Run(parsed(t), o)
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]*PatternAdvice)
	for _, p := range a.Patterns {
		named[p.Name] = p
	}
	return a, named
}

func near(got, want float64) bool { return math.Abs(got-want) <= 0.01*math.Max(1e-9, math.Abs(want)) }

func TestVerdicts(t *testing.T) {
	a, p := adviceFor(t, nil)
	for _, c := range []struct {
		pattern string
		verdict Verdict
		reason  string
	}{
		{"product", Helps, "from memory"},
		{"exactly", No, "strongly consistent"},
		{"both", No, "transactions"},
		{"products of a brand", Stale, "most of what is answered from memory is old"},
		{"products by status", Helps, "from memory"},
		{"changed since", No, "another value of changed"},
		{"visitor", Helps, "from memory"},
		{"draft", Unknown, "add its count"},
		{"sell", Write, "refreshes the item"},
	} {
		if got := p[c.pattern]; got.Verdict != c.verdict || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %s, %s, want %s, …%s…", c.pattern, got.Verdict, got.Reason, c.verdict, c.reason)
		}
	}
	// A product is read and written 1.01 times a second, so it is renewed before it expires only
	// if it was written: one that lives 300 s is missed once in 303 requests.
	if got := p["product"]; got.HitRate < 0.996 || got.StaleShare != 0 || got.StaleSeconds != 0 {
		t.Errorf("product: %+v", got)
	}
	if got := p["product"].SavedUnits; !near(got, 500*p["product"].HitRate) {
		t.Errorf("product saves %v units/s, want about 500", got)
	}
	// No write changes the entries of the index by status: its results are not stale.
	if got := p["products by status"]; got.Keys != 2 || got.HitRate < 0.99 || got.StaleShare != 0 || got.StaleSeconds != 0 {
		t.Errorf("products by status: %+v", got)
	}
	if got := p["visitor"]; got.SkewFrom != SkewFromModel || got.Skew <= 0 {
		t.Errorf("visitor: %+v", got)
	}
	if want := 3 * 0.04 * model.MonthHours; !near(a.NodeDollars, want) || a.SavedDollars <= 0 || a.SavedUnits > a.ReadUnits {
		t.Errorf("%+v", a)
	}
}

// Writes around the cache leave items stale until they expire, and renew nothing.
func TestWritesAround(t *testing.T) {
	_, through := adviceFor(t, nil)
	_, around := adviceFor(t, func(o *Options) { o.Around = true })
	got := around["product"]
	// 0.01 writes a second to an item, for up to 300 s: 1-(1-e^-3)/3 of the hits are old.
	if want := got.HitRate * (1 - (1-math.Exp(-3))/3); !near(got.StaleShare, want) || got.StaleSeconds != 300 {
		t.Errorf("%+v, want %.3f stale", got, want)
	}
	if through["product"].HitRate <= got.HitRate {
		t.Errorf("writes through the cache have %.4f hits, around %.4f", through["product"].HitRate, got.HitRate)
	}
	_, forever := adviceFor(t, func(o *Options) { o.Around, o.ItemTTL = true, 0 })
	if got := forever["product"]; !got.StaleForever || got.StaleShare < 0.99 {
		t.Errorf("without expiry: %+v", got)
	}
}

// A query TTL of 0 caches no query, and little memory evicts.
func TestTimesAndMemory(t *testing.T) {
	_, off := adviceFor(t, func(o *Options) { o.QueryTTL = 0 })
	if got := off["products of a brand"]; got.Verdict != No || got.HitRate != 0 {
		t.Errorf("query TTL 0: %+v", got)
	}
	large, _ := adviceFor(t, nil)
	small, p := adviceFor(t, func(o *Options) { o.Bytes = 100 << 10 })
	if small.EvictedAfterSeconds == 0 || large.EvictedAfterSeconds != 0 || !near(small.UsedBytes, 100<<10) {
		t.Errorf("100 KB: evicted after %v s, %v bytes used; 1.5 GB: %v s", small.EvictedAfterSeconds, small.UsedBytes, large.EvictedAfterSeconds)
	}
	if len(small.Notes) == 0 || p["visitor"].HitRate >= 0.9 {
		t.Errorf("%v %+v", small.Notes, p["visitor"])
	}
}

// Fixed units are paid for, whether or not they are used.
func TestFixedUnitsSaveNothing(t *testing.T) {
	m := parsed(t)
	m.SetProvisioned(2000, 2000)
	o := Options{ItemTTL: time.Minute, QueryTTL: time.Minute, NodeType: "dax.t3.small", Nodes: 1, Prices: model.DefaultPrices()}
	a, err := Run(m, o)
	if err != nil || a.SavedDollars != 0 || !strings.Contains(strings.Join(a.Notes, " "), "fixed") {
		t.Errorf("%v, %v", a, err)
	}
	o.NodeType = "dax.none"
	if _, err := Run(m, o); err == nil || !strings.Contains(err.Error(), "dax.r5.large") {
		t.Errorf("an unknown node type: %v", err)
	}
}
