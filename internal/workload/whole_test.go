package workload

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

var shopTable = &schema.Table{Name: "shop", Key: schema.Key{Partition: []schema.Attribute{{Name: "PK"}}, Sort: []schema.Attribute{{Name: "SK"}}},
	Indexes: []schema.Index{{Name: "turned", Key: schema.Key{Partition: []schema.Attribute{{Name: "SK"}}, Sort: []schema.Attribute{{Name: "PK"}}}}}}

// observe counts requests by key.
func observe(r *Recorder, index, partition, sort string, times int) {
	names := []string{"PK", "SK"}
	if index != "" {
		slices.Reverse(names)
	}
	s := Shape{Operation: "GetItem", Table: "shop", Index: index,
		Partition: r.Prefix(shopTable, names[0], item.String(partition)), Sort: r.Prefix(shopTable, names[1], item.String(sort))}
	for range times {
		r.Counter(s).Observe(1, 1)
	}
}

// word returns one of many words in capitals.
func word(i int) string { return string([]byte{'X', 'A' + byte(i/26), 'A' + byte(i%26)}) }

// keysOf returns the keys in a report, with their requests.
func keysOf(r *Recorder) (all []string) {
	for _, c := range r.Report().Shapes {
		all = append(all, fmt.Sprintf("%s%s %s%s %d", c.Index, c.Partition, c.Sort, c.Actions, c.Requests))
	}
	slices.Sort(all)
	return all
}

// A key attribute with many whole values has data there: none of them is reported, and
// their requests are counted together. Other attributes, and prefixes, are not affected.
func TestManyWholeValuesAreHidden(t *testing.T) {
	r := NewRecorder(time.Now())
	for i := range 100 {
		observe(r, "", word(i), "PROFILE", 2)
	}
	observe(r, "", "USER#1", "PROFILE", 3)
	observe(r, "turned", "PROFILE", word(1), 1)
	r.Counter(Shape{Operation: "TransactWriteItems", Table: "shop", Actions: "Put " + word(1) + " PROFILE if; Put USER# -"}).Observe(0, 0)
	want := []string{" Put ? PROFILE if; Put USER# - 1", "? PROFILE 200", "USER# PROFILE 3", "turnedPROFILE ? 1"}
	if got := keysOf(r); !slices.Equal(got, want) {
		t.Errorf("the keys are %q, want %q", got, want)
	}
}

// Up to MaxWhole values that repeat are names. Of values that do not repeat only a few are.
func TestFewWholeValuesAreReported(t *testing.T) {
	r := NewRecorder(time.Now())
	var want []string
	for i := range MaxWhole - maxSingle {
		observe(r, "", "A#1", word(i), 2)
		want = append(want, "A# "+word(i)+" 2")
	}
	for i := range maxSingle {
		observe(r, "", "B#1", word(100+i), 1)
		want = append(want, "B# "+word(100+i)+" 1")
	}
	if got := keysOf(r); !slices.Equal(got, want) {
		t.Errorf("the keys are %q, want %q", got, want)
	}
	r = NewRecorder(time.Now())
	observe(r, "", "A#1", "PROFILE", 2)
	for i := range maxSingle + 1 {
		observe(r, "", "B#1", word(i), 1)
	}
	if got, want := keysOf(r), []string{"A# PROFILE 2", "B# ? 5"}; !slices.Equal(got, want) {
		t.Errorf("the keys are %q, want %q", got, want)
	}
}
