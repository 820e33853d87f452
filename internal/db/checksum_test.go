package db

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// A flipped bit in a stored item, index entry or change record fails the requests that read
// it, wherever it flipped between the write and the reply. Other items are served. The
// control has values without a checksum, as older versions wrote them: a wrong answer is
// not noticed.
func TestFlippedBitFailsItsRequests(t *testing.T) {
	for _, c := range []struct {
		name     string
		old      bool
		detected bool
	}{{"with checksums", false, true}, {"control: without", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t, pebble.InMemory())
			d := newDB(t, e, Options{})
			def := orders("Orders")
			def.Recovery.Enabled = true
			create(t, d, def)
			good, bad := fullItem("p", 1), fullItem("q", 1).With("c", item.String("flipped"))
			put(t, d, "Orders", good)
			put(t, d, "Orders", bad)
			table := tableOf(t, d, "Orders")
			flipStored(t, e, "flipped", c.old)
			reads := checksumReads(d, table, key("q", 1), bad)
			for name, read := range reads {
				text, err := read(t.Context())
				switch {
				case !c.detected && (err != nil || !strings.Contains(text, "Flipped")):
					t.Errorf("%s: %q, %v", name, text, err)
				case c.detected && !errors.Is(err, store.ErrCorrupt):
					t.Errorf("%s: %q, %v", name, text, err)
				}
			}
			if it, err := d.GetOne(t.Context(), Get{Table: "Orders"}, key("p", 1)); err != nil || !it.Equal(good) {
				t.Errorf("another item: %v, %v", it, err)
			}
			put(t, d, "Orders", fullItem("r", 1))
			if _, err := reads["GetOne"](t.Context()); c.detected && (!strings.Contains(err.Error(), "table Orders") || !strings.Contains(err.Error(), "key hash")) {
				t.Errorf("the error does not say where: %v", err)
			}
		})
	}
}

// checksumReads returns all ways to read an item.
func checksumReads(d *DB, t *schema.Table, k, it item.Item) map[string]func(context.Context) (string, error) {
	text := func(items ...item.Item) string {
		var b bytes.Buffer
		for _, it := range items {
			b.Write(it)
		}
		return b.String()
	}
	scan := func(r Range) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			page, err := d.Range(ctx, r)
			return text(page.Items...), err
		}
	}
	return map[string]func(context.Context) (string, error){
		"GetOne": func(ctx context.Context) (string, error) {
			it, err := d.GetOne(ctx, Get{Table: t.Name}, k)
			return text(it), err
		},
		"Get": func(ctx context.Context) (string, error) {
			items, err := d.Get(ctx, Get{Table: t.Name, Consistent: true}, k)
			return text(items...), err
		},
		"GetSnapshot": func(ctx context.Context) (string, error) {
			items, err := d.GetSnapshot(ctx, item.MaxSize, nil, GetKey{Table: t.Name, Key: k})
			return text(items...), err
		},
		"scan":              scan(Range{Table: t.Name}),
		"scan of an index":  scan(Range{Table: t.Name, Index: "all"}),
		"query of an index": scan(Range{Table: t.Name, Index: "local", Partition: []item.Value{item.String("q")}, Whole: true}),
		"condition": func(ctx context.Context) (seen string, err error) {
			_, err = d.Write(ctx, Write{Table: t.Name, Key: k, If: func(before item.Item) bool { seen = text(before); return false }, Effect: Remove})
			if errors.As(err, new(*ConditionFailed)) {
				err = nil
			}
			return seen, err
		},
		"changes": func(ctx context.Context) (string, error) {
			slot := keyspace.Slot(keyspace.Item(nil, t, it))
			changes, err := d.Changes(ctx, ChangeRange{Table: t.ID, Slot: slot, To: ^uint64(0)})
			if err != nil || len(changes) == 0 {
				return "", err
			}
			return text(changes[len(changes)-1].After), nil
		},
	}
}

// flipStored flips a bit of a text wherever it is stored. If old, it first gives the values
// the form that they had before they had checksums.
func flipStored(t *testing.T, e store.Engine, text string, old bool) {
	t.Helper()
	snap, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	found := 0
	for pair, err := range snap.Scan(t.Context(), store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(pair.Value, []byte(text))
		if at < 0 {
			continue
		}
		found++
		key, value := bytes.Clone(pair.Key), bytes.Clone(pair.Value)
		value[at] ^= 0x20
		if old {
			value = append([]byte{1}, value[5:]...)
		}
		if err := e.Update(t.Context(), [][]byte{key}, func(tx store.Tx) error { tx.Set(key, value); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if found != 4 {
		t.Fatalf("the text is stored %d times, want 4: the item, two entries and a change", found)
	}
}
