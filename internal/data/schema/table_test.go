package schema

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
)

func TestEntry(t *testing.T) {
	it := item.Make(attrs{
		"id": text(1), "at": num(t, "1"), "total": num(t, "2"), "state": text(1), "note": text(1), "more": text(1),
		"city": text(1), "zip": binary(1), "street": text(1), "house": text(1),
	})
	for _, c := range []struct {
		index string
		want  []string
	}{
		{"by-total", []string{"at", "city", "house", "id", "more", "note", "state", "street", "total", "zip"}},
		{"by-place", []string{"at", "city", "house", "id", "street", "zip"}},
		{"by-state", []string{"at", "id", "note", "state"}},
	} {
		t.Run(c.index, func(t *testing.T) {
			table := orders()
			x, ok := table.Index(c.index)
			if !ok {
				t.Fatal("there is no such index")
			}
			entry := table.Entry(x, it)
			if got := slices.Sorted(maps.Keys(maps.Collect(entry.All()))); !slices.Equal(got, c.want) {
				t.Errorf("the entry has %q, want %q", got, c.want)
			}
			for name, v := range it.All() {
				got, has := entry.Get(name)
				if has != slices.Contains(c.want, name) || has != table.Projects(x, name) || has && !item.Equal(got, v) {
					t.Errorf("%s is %v in the entry; Projects reports %v", name, got, table.Projects(x, name))
				}
			}
		})
	}
	if _, ok := orders().Index("other"); ok {
		t.Error("an index was found that the table does not have")
	}
	if !orders().HasLocal() || (&Table{Indexes: orders().Indexes[1:]}).HasLocal() {
		t.Error("HasLocal depends on other things than local indexes")
	}
}

func TestStatus(t *testing.T) {
	settled := time.Unix(1000, 0)
	before, after := settled.Add(-1), settled.Add(1)
	const delay = time.Second
	back := settled.Add(-delay - 1) // no state lasts that long, so the clock has gone back
	for _, c := range []struct {
		name  string
		state State
		now   time.Time
		want  State
	}{
		{"a table without a state is active", "", before, Active},
		{"a new table is being created", Creating, before, Creating},
		{"a new table is active at the moment", Creating, settled, Active},
		{"a new table is active later", Creating, after, Active},
		{"a changed table is being updated", Updating, before, Updating},
		{"a changed table is active at the moment", Updating, settled, Active},
		{"a deleted table is being deleted", Deleting, before, Deleting},
		{"a deleted table is never active again", Deleting, after, Deleting},
		{"an active table is active", Active, before, Active},
		{"a new table stays active when the clock goes back", Creating, back, Active},
		{"a changed table stays active when the clock goes back", Updating, back, Active},
		{"a deleted table stays deleted when the clock goes back", Deleting, back, Deleting},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (&Table{State: c.state, SettledAt: settled}).Status(c.now, delay); got != c.want {
				t.Errorf("the status is %s, want %s", got, c.want)
			}
		})
	}
}
