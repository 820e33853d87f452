package db

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/store/pebble"
)

// The items of a table at an earlier time, and the images of the items that were
// changed in a window, equal those of a model that keeps every state, even if the
// changes do not fit in memory at once.
func TestTableAtEarlierTimes(t *testing.T) {
	var nanos atomic.Int64
	nanos.Store(time.Unix(1_800_000_000, 0).UnixNano())
	now := func() time.Time { return time.Unix(0, nanos.Load()).UTC() }
	d := newDB(t, newEngine(t, pebble.Options{Dir: t.TempDir(), Durability: pebble.Relaxed, Now: now}), Options{Clock: clock.Given(now)})
	create(t, d, ordersWithoutIndexes("Orders"))
	if _, err := d.SetRecovery(t.Context(), "Orders", 1); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	current, states := map[string]string{}, []map[string]string{}
	changed := []map[string]bool{}
	const seconds = 6
	for range seconds {
		touched := map[string]bool{}
		for range 150 {
			id := fmt.Sprint(r.IntN(100))
			it := key(id, 1)
			if r.IntN(4) == 0 {
				if _, err := d.Write(t.Context(), Write{Table: "Orders", Key: it, Effect: Remove}); err != nil {
					t.Fatal(err)
				}
				if _, was := current[id]; was {
					touched[id] = true
				}
				delete(current, id)
				continue
			}
			it = it.With("text", item.String(strings.Repeat(string(rune('a'+r.IntN(26))), 3000+r.IntN(9))))
			put(t, d, "Orders", it)
			if current[id] != string(it) {
				touched[id] = true
			}
			current[id] = string(it)
		}
		states, changed = append(states, maps.Clone(current)), append(changed, touched)
		nanos.Add(int64(time.Second))
	}
	view, err := d.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	view.MaxBytes = 2_000 // enough for some of the items of a slot
	def, err := view.Table(t.Context(), "Orders")
	if err != nil {
		t.Fatal(err)
	}
	idOf := func(it item.Item) string { v, _ := it.Get("id"); return string(v.Bytes()) }
	at := func(second int) time.Time { return time.Unix(1_800_000_000+int64(second), 0) }
	for second, want := range states {
		got := map[string]string{}
		for it, err := range view.ItemsBefore(t.Context(), def, at(second+1)) {
			if err != nil {
				t.Fatal(err)
			}
			if _, twice := got[idOf(it)]; twice {
				t.Errorf("item %s is returned twice", idOf(it))
			}
			got[idOf(it)] = string(it)
		}
		if !maps.Equal(got, want) {
			t.Errorf("after second %d there are %d items, want the %d of the model", second, len(got), len(want))
		}
	}
	for from := range seconds {
		for to := from + 1; to <= seconds; to++ {
			before := map[string]string{}
			if from > 0 {
				before = states[from-1]
			}
			touched := map[string]bool{}
			for _, c := range changed[from:to] {
				maps.Copy(touched, c)
			}
			for a, err := range view.Changed(t.Context(), def, at(from), at(to)) {
				if err != nil {
					t.Fatal(err)
				}
				if a.Before == nil && a.After == nil {
					continue
				}
				id := idOf(firstNonNil(a.After, a.Before))
				if string(a.Before) != before[id] || string(a.After) != states[to-1][id] {
					t.Errorf("from %d to %d, item %s has the wrong images", from, to, id)
				}
				if !touched[id] {
					t.Errorf("from %d to %d, item %s is returned but was not changed", from, to, id)
				}
				delete(touched, id)
			}
			for id := range touched {
				_, was := before[id]
				if _, current := states[to-1][id]; was || current {
					t.Errorf("from %d to %d, item %s is missing", from, to, id)
				}
			}
		}
	}
}

// firstNonNil returns a, or b if a is nil.
func firstNonNil(a, b item.Item) item.Item {
	if a != nil {
		return a
	}
	return b
}
