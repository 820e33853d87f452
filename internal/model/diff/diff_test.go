package diff

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

const shop = `
model: 1
name: shop
tables:
  shop:
    key: {partition: PK, sort: SK}
    indexes:
      GSI1: {partition: GSI1PK, sort: SK}
entities:
  order:
    keys: {PK: "CUSTOMER#{customerId}", SK: "ORDER#{orderId}", GSI1PK: "STATUS#{status}#{shard}"}
    attributes:
      customerId: {distinct: 10000}
      orderId: {format: uuid}
      status: {values: [OPEN, DONE]}
      shard: {type: N, shards: 10, stored: false}
      total: N
    count: 50000
  line:
    keys: {PK: "ORDER#{orderId}", SK: "LINE#{lineNo}", GSI1PK: "LINES#{place}"}
    attributes:
      orderId: {format: uuid}
      lineNo: {format: sequence, size: 3}
      day: {format: date}
      place: {template: "{day}"}
    count: 200000
patterns:
  - {name: place an order, put: order, replaces: true, rate: 100/s}
  - {name: orders of a customer, query: order, given: [customerId], matches: 5, rate: 10/s}
  - {name: open orders, query: order, where: {status: OPEN}, given: [shard], index: GSI1, matches: 20, rate: 1/s}
  - {name: put a line, put: line, replaces: true, rate: 1/s}
`

func parse(t *testing.T, text string) *model.Model {
	t.Helper()
	m, err := model.Parse("shop", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

func compare(t *testing.T, before, after string) *Report {
	t.Helper()
	r, err := Compare(parse(t, before), parse(t, after), model.DefaultPrices())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replaced is the model with one change.
func replaced(t *testing.T, from, to string) string {
	t.Helper()
	if !strings.Contains(shop, from) {
		t.Fatalf("the model does not contain %q", from)
	}
	return strings.Replace(shop, from, to, 1)
}

// A model does not differ from itself.
func TestSame(t *testing.T) {
	r := compare(t, shop, shop)
	if len(r.Cost.Changes) != 1 || r.Cost.Changes[0].Change != "same" || len(r.Heat)+len(r.NewFaults)+len(r.GoneFaults)+len(r.Migration) > 0 {
		t.Errorf("the difference is %+v", r)
	}
	if len(parse(t, shop).Check(model.DefaultPrices()).Faults) > 0 {
		t.Errorf("the model has faults: %v", parse(t, shop).Check(model.DefaultPrices()).Faults[0])
	}
}

// Each change of tables and keys needs its migration, and none other.
func TestMigration(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		want           []string
	}{
		{"a rate", "rate: 10/s", "rate: 20/s", nil},
		{"an attribute that is in no key", "total: N", "total: S", nil},
		{"another sort key", "sort: SK}\n    indexes", "sort: GSI1PK}\n    indexes", []string{"copy shop 250000: copy all items to a new table: its key is PK S HASH, SK S RANGE, but the model's is PK S HASH, GSI1PK S RANGE: a table's key cannot be changed"}},
		{"a new index", "GSI1: {", "GSI2: {partition: status, sort: SK}\n      GSI1: {", []string{"request shop 0: UpdateTable: add the index GSI2 with the key status S HASH, SK S RANGE"}},
		{"another index key", "GSI1: {partition: GSI1PK, sort: SK}", "GSI1: {partition: GSI1PK}", []string{
			"request shop 0: UpdateTable: remove the index GSI1, which differs from the model's (its queries fail until it is rebuilt)",
			"request shop 0: UpdateTable: add the index GSI1 with the key GSI1PK S HASH"}},
		{"another projection", "GSI1: {partition: GSI1PK, sort: SK}", "GSI1: {partition: GSI1PK, sort: SK, projection: KEYS_ONLY}", []string{
			"request shop 0: UpdateTable: remove the index GSI1, which differs from the model's (its queries fail until it is rebuilt)",
			"request shop 0: UpdateTable: add the index GSI1 with the key GSI1PK S HASH, SK S RANGE"}},
		{"a local index", "GSI1: {", "LSI1: {sort: status, local: true}\n      GSI1: {", []string{"copy shop 250000: copy all items to a new table: it lacks the local index LSI1: local indexes are created with their table"}},
		{"a stream", "    indexes", "    stream: NEW_IMAGE\n    indexes", []string{"request shop 0: UpdateTable: start a stream of NEW_IMAGE"}},
		{"recovery", "    indexes", "    recovery: true\n    indexes", []string{"request shop 0: UpdateContinuousBackups: enable point-in-time recovery"}},
		{"billing", "    indexes", "    billing: provisioned\n    read: {units: 500}\n    write: {units: 500}\n    indexes", []string{"request shop 0: UpdateTable: switch to provisioned billing with 500 read and 500 write units, 500 and 500 of the index GSI1"}},
		{"another template of the key", "CUSTOMER#{customerId}", "C#{customerId}", []string{"copy shop.order 50000: copy its items to other keys: PK is C#{customerId} instead of CUSTOMER#{customerId}"}},
		{"another template of an index key", "STATUS#{status}#{shard}", "S#{status}#{shard}", []string{"rewrite shop.order 50000: update its items: GSI1PK is S#{status}#{shard} instead of STATUS#{status}#{shard}"}},
		{"a sparse index key", `GSI1PK: "STATUS#{status}#{shard}"`, `GSI1PK: {template: "STATUS#{status}#{shard}", when: {status: OPEN}}`, []string{"rewrite shop.order 50000: update its items: GSI1PK is STATUS#{status}#{shard} when status is OPEN instead of STATUS#{status}#{shard}"}},
		{"more shards", "shards: 10", "shards: 20", []string{"rewrite shop.order 50000: update its items: GSI1PK contains shard, which is one of 20 shards at random instead of one of 10 shards at random"}},
		{"shards by another attribute", "shards: 10", "shards: 10, of: orderId", []string{"rewrite shop.order 50000: update its items: GSI1PK contains shard, which is one of 10 shards by orderId instead of one of 10 shards at random"}},
		{"another padding", "lineNo: {format: sequence, size: 3}", "lineNo: {format: sequence, size: 5}", []string{"copy shop.line 200000: copy its items to other keys: SK contains lineNo, which is a sequence of 5 digits instead of a sequence of 3 digits"}},
		{"no padding", "lineNo: {format: sequence, size: 3}", "lineNo: {size: 3}", []string{"copy shop.line 200000: copy its items to other keys: SK contains lineNo, which is text instead of a sequence of 3 digits"}},
		{"another format of a time", "day: {format: date}", "day: {format: month}", []string{"rewrite shop.line 200000: update its items: GSI1PK contains day, which is of the format month instead of date"}},
		{"a format of the same text", "customerId: {distinct: 10000}", "customerId: {format: uuid, distinct: 10000}", nil},
		{"a template within a key", `place: {template: "{day}"}`, `place: {template: "{day}!"}`, []string{"rewrite shop.line 200000: update its items: GSI1PK is LINES#{day}! instead of LINES#{day}"}},
		{"keys of the table and of an index", `PK: "CUSTOMER#{customerId}", SK: "ORDER#{orderId}", GSI1PK: "STATUS#`, `PK: "C#{customerId}", SK: "ORDER#{orderId}", GSI1PK: "S#`, []string{
			"copy shop.order 50000: copy its items to other keys: PK is C#{customerId} instead of CUSTOMER#{customerId}; GSI1PK is S#{status}#{shard} instead of STATUS#{status}#{shard}"}},
		{"a time to live", "    indexes:", "    ttl: expires\n    indexes:", []string{
			"request shop 0: UpdateTimeToLive: expire items by expires",
			"rewrite shop.line 200000: update its items: they have no expires, and do not expire without it"}},
		{"another name of an entity", "  order:\n", "  purchase:\n", nil},
		{"another entity", "  order:\n    keys: {PK: \"CUSTOMER#", "  purchase:\n    keys: {PK: \"P#", []string{"drop shop.order 50000: the second model does not have the entity"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := replaced(t, c.from, c.to)
			if c.name == "a time to live" {
				to = strings.Replace(to, "day: {format: date}", "day: {format: date}\n      expires: {type: N, format: epoch-seconds}", 1)
			}
			if strings.Contains(c.to, "purchase") {
				to = strings.NewReplacer("put: order", "put: purchase", "query: order", "query: purchase").Replace(to)
			}
			var got []string
			for _, s := range compare(t, shop, to).Migration {
				text := s.Kind + " " + s.Table
				if s.Entity != "" {
					text += "." + s.Entity
				}
				text += fmt.Sprintf(" %g: %s", s.Items, s.Text)
				if s.Loses != "" {
					text += " (" + s.Loses + ")"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the migration is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// An entity that moves to another table is copied, and a table that is gone is
// dropped.
func TestMoveToAnotherTable(t *testing.T) {
	r := compare(t, shop, strings.Replace(shop, "  shop:\n", "  orders:\n", 1))
	var kinds []string
	for _, s := range r.Migration {
		kinds = append(kinds, s.Kind+" "+s.Table+" "+s.Text)
	}
	want := []string{
		"request orders CreateTable: create the table with the key PK S HASH, SK S RANGE and the indexes GSI1",
		"copy shop copy its items to the table orders",
		"copy shop copy its items to the table orders",
		"drop shop the second model does not have the table",
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("the migration is\n%s", strings.Join(kinds, "\n"))
	}
}

// The cost and the heat of a higher rate are those of the two models.
func TestCostAndHeat(t *testing.T) {
	to := replaced(t, "rate: 100/s", "rate: 400/s")
	r := compare(t, shop, to)
	total := r.Cost.Changes[len(r.Cost.Changes)-1]
	if total.Before.Dollars != parse(t, shop).Cost(model.DefaultPrices()).Dollars || total.After.Dollars != parse(t, to).Cost(model.DefaultPrices()).Dollars {
		t.Errorf("the total is %+v", total)
	}
	if first := r.Heat[0]; first.Where() != "shop.GSI1" || first.After < 3.9*first.Before || first.After > 4.1*first.Before {
		t.Errorf("the hottest change is %+v", first)
	}
	if back := compare(t, to, shop); back.Heat[0].After != r.Heat[0].Before || back.Heat[0].Before != r.Heat[0].After {
		t.Errorf("the difference back is %+v", back.Heat[0])
	}
}

// A fault is new or gone; a fault whose figures change is neither.
func TestFaults(t *testing.T) {
	hot := replaced(t, "rate: 100/s", "rate: 30000/s")
	r := compare(t, shop, hot)
	if len(r.NewFaults) == 0 || len(r.GoneFaults) > 0 {
		t.Errorf("new are %v, gone %v", r.NewFaults, r.GoneFaults)
	}
	if back := compare(t, hot, shop); len(back.GoneFaults) != len(r.NewFaults) || len(back.NewFaults) > 0 {
		t.Errorf("new are %v, gone %v", back.NewFaults, back.GoneFaults)
	}
	hotter := replaced(t, "rate: 100/s", "rate: 40000/s")
	if r := compare(t, hot, hotter); len(r.NewFaults)+len(r.GoneFaults) > 0 {
		t.Errorf("new are %v, gone %v", r.NewFaults, r.GoneFaults)
	}
	if a, b := parse(t, hot).Check(model.DefaultPrices()).Faults, parse(t, hotter).Check(model.DefaultPrices()).Faults; a[0].Message == b[0].Message {
		t.Errorf("the messages are the same, so the test proves nothing: %s", a[0].Message)
	}
}

// Costs whose figures look the same are not a change.
func TestCostsThatLookTheSame(t *testing.T) {
	a, b := model.Cost{Dollars: 0.67}, model.Cost{Dollars: 0.67001}
	if d := model.Compare(&a, &b); d.Changes[0].Change != "same" {
		t.Errorf("the change is %+v", d.Changes[0])
	}
	if b.Dollars = 0.71; model.Compare(&a, &b).Changes[0].Change != "changed" {
		t.Error("a change is not found")
	}
}
