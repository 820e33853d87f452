package db

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/db/verify"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// verifyOne verifies a database with one table.
func verifyOne(t testing.TB, d *DB) verify.Report {
	t.Helper()
	reports := verifyAll(t, d)
	if len(reports) != 2 || reports[1].Table != "" {
		t.Fatalf("%d reports, want that of the table and that of the database", len(reports))
	}
	return reports[0]
}

func verifyAll(t testing.TB, d *DB) []verify.Report {
	t.Helper()
	reports, err := d.Verify(t.Context(), func(string, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

// expectFaults fails unless Verify finds these faults, in this order. Each
// description must contain the given text.
func expectFaults(t testing.TB, d *DB, want ...string) {
	t.Helper()
	var first []string
	faults := int64(0)
	for _, r := range verifyAll(t, d) {
		first, faults = append(first, r.First...), faults+r.Faults
	}
	ok := faults == int64(len(want)) && len(first) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.Contains(first[i], want[i])
	}
	if !ok {
		t.Errorf("Verify finds %d faults:\n%s\nwant\n%s", faults, strings.Join(first, "\n"), strings.Join(want, "\n"))
	}
}

// ordersToVerify returns a database with items that are in all, in some and in none
// of the indexes of their table, with keys that need escaping and long keys.
func ordersToVerify(t testing.TB) *DB {
	t.Helper()
	d := inMemory(t)
	create(t, d, orders("Orders"))
	long := strings.Repeat("l", 900)
	for i, id := range []string{"p", "q", "zero\x00", long + long} {
		put(t, d, "Orders", fullItem(id, 1))
		put(t, d, "Orders", fullItem(id, -2).With("a", item.String(long)))
		put(t, d, "Orders", key(id, 3).With("a", item.String("no b")))
		put(t, d, "Orders", key(id, 4).With("b", num(i)))
		put(t, d, "Orders", fullItem(id, 5))
		remove(t, d, "Orders", key(id, 5))
	}
	return d
}

// fullItem returns an item that is in all indexes of the table orders.
func fullItem(id string, at int) item.Item {
	return key(id, at).With("a", item.String("x")).With("b", num(7)).With("c", item.String("projected")).With("d", item.String("not projected"))
}

func TestVerifyOfConsistentData(t *testing.T) {
	d := ordersToVerify(t)
	expectFaults(t, d)
	r := verifyOne(t, d)
	if r.Table != "Orders" || r.Items != 16 || r.Entries["local"] != 12 || r.Entries["all"] != 8 || r.Entries["two"] != 12 {
		t.Errorf("the report is %+v", r)
	}
}

// Verify finds each kind of damage that a crash, a bug or a bad disk could cause,
// and reports no other faults.
func TestVerifyFindsFaults(t *testing.T) {
	victim := fullItem("p", 1)
	local, all, two := orders("").Indexes[0], orders("").Indexes[1], orders("").Indexes[2]
	size := func(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	const p = `{M:{at={N:1}, id={S:p}}}`
	for _, c := range []struct {
		name    string
		corrupt func(t *schema.Table, tx store.Tx)
		want    []string
	}{
		{"an entry is missing", func(t *schema.Table, tx store.Tx) {
			tx.Delete(keyspace.Entry(nil, t, &all, victim))
		}, []string{"the item " + p + " has no entry in index all"}},
		{"an entry of a local index is missing", func(t *schema.Table, tx store.Tx) {
			tx.Delete(keyspace.Entry(nil, t, &local, victim))
		}, []string{"the item " + p + " has no entry in index local", "is recorded with"}},
		{"an entry has an old key of its item", func(t *schema.Table, tx store.Tx) {
			old := victim.With("a", item.String("old"))
			tx.Set(keyspace.Entry(nil, t, &all, old), codec.EncodeItem(old))
		}, []string{"index all has an entry of item " + p + " which it should not have"}},
		{"an entry belongs to an item that is no longer in the index", func(t *schema.Table, tx store.Tx) {
			left := key("p", 4).With("a", item.String("x")).With("b", num(0))
			tx.Set(keyspace.Entry(nil, t, &all, left), codec.EncodeItem(left))
		}, []string{"which it should not have"}},
		{"an entry belongs to an item that does not exist", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Entry(nil, t, &all, fullItem("p", 99)), codec.EncodeItem(fullItem("p", 99)))
		}, []string{`an entry of index all stands for the item {M:{at={N:99}, id={S:p}}}, which does not exist`}},
		{"an item is deleted without its entries", func(t *schema.Table, tx store.Tx) {
			tx.Delete(keyspace.Item(nil, t, victim))
		}, []string{
			"an entry of index local stands for the item " + p, "an entry of index all stands for the item " + p,
			"an entry of index two stands for the item " + p, "is recorded with",
		}},
		{"an entry has too many attributes", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Entry(nil, t, &two, victim), codec.EncodeItem(victim))
		}, []string{"the entry of item " + p + " in index two differs from the item"}},
		{"an entry has too few attributes", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Entry(nil, t, &all, victim), codec.EncodeItem(victim.Without("d")))
		}, []string{"the entry of item " + p + " in index all differs from the item"}},
		{"an entry has an old attribute value", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Entry(nil, t, &all, victim), codec.EncodeItem(victim.With("c", item.String("then"))))
		}, []string{"the entry of item " + p + " in index all differs from the item"}},
		{"an entry lacks the key of an item", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Entry(nil, t, &all, fullItem("n", 1)), codec.EncodeItem(fullItem("n", 1).Without("at")))
		}, []string{"an entry of index all lacks the key attributes of an item"}},
		{"an item is stored at the key of another", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Item(nil, t, key("p", 4)), codec.EncodeItem(key("p", 6).With("b", num(0))))
		}, []string{"an item is stored at"}},
		{"an item lacks the key of its table", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Item(nil, t, key("n", 1)), codec.EncodeItem(item.Make(map[string]item.Value{"id": item.String("n")})))
		}, []string{"lacks the key attributes of its table"}},
		{"an item has a key of another type", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Item(nil, t, key("n", 1)), codec.EncodeItem(key("n", 1).With("id", num(1))))
		}, []string{"lacks the key attributes of its table"}},
		{"an item has an unknown format", func(t *schema.Table, tx store.Tx) {
			value := codec.EncodeItem(key("n", 1))
			value[0] = 77
			tx.Set(keyspace.Item(nil, t, key("n", 1)), value)
		}, []string{"is not an item"}},
		{"an item is truncated", func(t *schema.Table, tx store.Tx) {
			value := codec.EncodeItem(key("n", 1))
			tx.Set(keyspace.Item(nil, t, key("n", 1)), value[:len(value)-1])
		}, []string{"is not an item"}},
		{"an entry is truncated", func(t *schema.Table, tx store.Tx) {
			value := codec.EncodeItem(victim)
			tx.Set(keyspace.Entry(nil, t, &all, victim), value[:len(value)-1])
		}, []string{"is not an item", "the item " + p + " has no entry in index all"}},
		{"an item with entries is truncated", func(t *schema.Table, tx store.Tx) {
			value := codec.EncodeItem(victim)
			tx.Set(keyspace.Item(nil, t, victim), value[:len(value)/2])
		}, []string{
			"is not an item", "an entry of index local stands for the item " + p, "an entry of index all stands for the item " + p,
			"an entry of index two stands for the item " + p, "is recorded with",
		}},
		{"a collection has a wrong size", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Collection(t, victim), size(1))
		}, []string{"is recorded with 1 bytes, but has"}},
		{"the size of a collection is missing", func(t *schema.Table, tx store.Tx) {
			tx.Delete(keyspace.Collection(t, victim))
		}, []string{"but is not recorded"}},
		{"the size of a collection is truncated", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Collection(t, victim), size(1)[:7])
		}, []string{"is recorded with -1 bytes"}},
		{"an empty collection has a size", func(t *schema.Table, tx store.Tx) {
			tx.Set(keyspace.Collection(t, key("empty", 1)), size(12))
		}, []string{"is recorded with 12 bytes, but has 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := ordersToVerify(t)
			writeRaw(t, d, func(tx store.Tx) { c.corrupt(tableOf(t, d, "Orders"), tx) })
			expectFaults(t, d, c.want...)
		})
	}
}

// Verify counts all faults and describes the first ones.
func TestVerifyReportsTheFirstFaults(t *testing.T) {
	d := ordersToVerify(t)
	table := tableOf(t, d, "Orders")
	writeRaw(t, d, func(tx store.Tx) {
		for at := range 50 {
			tx.Set(keyspace.Entry(nil, table, &table.Indexes[1], fullItem("deleted", at)), codec.EncodeItem(fullItem("deleted", at)))
		}
	})
	if r := verifyOne(t, d); r.Faults != 50 || len(r.First) != verify.MaxDescribed {
		t.Errorf("Verify counts %d faults and describes %d, want 50 and %d", r.Faults, len(r.First), verify.MaxDescribed)
	}
}

// writeRaw writes to the engine directly.
func writeRaw(t testing.TB, d *DB, change func(store.Tx)) {
	t.Helper()
	if err := d.engine.Update(t.Context(), nil, func(tx store.Tx) error {
		change(tx)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func tableOf(t testing.TB, d *DB, name string) *schema.Table {
	t.Helper()
	table, err := d.Table(name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// The id of the database, which scheduled backups make, is one of its own records.
func TestVerifyDatabaseID(t *testing.T) {
	e, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), e, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(d.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}()
	first, err := d.ID(t.Context())
	if again, _ := d.ID(t.Context()); err != nil || len(first) != 36 || again != first {
		t.Errorf("the id is %q, then %q, %v", first, again, err)
	}
	for _, r := range verifyAll(t, d) {
		if r.Faults > 0 {
			t.Errorf("table %q: %v", r.Table, r.First)
		}
	}
}

// A promoted standby has another id than the server that it followed, which keeps its own.
func TestPromotedDatabaseID(t *testing.T) {
	e, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	var ids []string
	for range 3 {
		d, err := Open(t.Context(), e, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			id, err := d.ID(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		if err := errors.Join(d.Close(), e.EndStandby()); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range ids {
		if first := ids[i/2*2]; id != first || !strings.HasPrefix(id, ids[0]) || i > 1 && id == ids[i-2] {
			t.Errorf("across two promotions the ids are %q", ids)
		}
	}
}
