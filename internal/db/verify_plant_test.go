package db

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/db/verify"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// agedDB returns a database with all that is ever stored, after many writes and
// changes of its tables: indexes added and removed, a stream disabled and enabled
// again with writes between, expired items, changes trimmed, dropped tables.
func agedDB(t testing.TB, r *rand.Rand) *DB {
	t.Helper()
	d := newDB(t, newEngine(t, pebble.InMemory()), Options{ExpiryInterval: time.Hour})
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"Orders", "Dropped", "Gone"} {
		create(t, d, orders(name))
	}
	create(t, d, ordersWithoutIndexes("Plain"))
	stream := func(name string, change func(*schema.Table)) {
		_, err := d.UpdateTable(ctx, name, func(t *schema.Table) error { t.State = ""; change(t); return nil })
		must(err)
	}
	enable := func(t *schema.Table) { t.EnableStream("NEW_AND_OLD_IMAGES", d.Now()) }
	disable := func(t *schema.Table) { t.DisableStream(d.Now()) }
	stream("Orders", enable)
	stream("Dropped", enable)
	must(d.SetTimeToLive(ctx, "Orders", "ttl"))
	age(t, d, r, "Orders", "Dropped", "Gone", "Plain")
	stream("Orders", disable)
	age(t, d, r, "Orders") // changes that are not recorded
	stream("Orders", enable)
	_, err := d.SetRecovery(ctx, "Plain", 7)
	must(err)
	age(t, d, r, "Orders", "Plain")
	_, err = d.SetRecovery(ctx, "Orders", 7)
	must(err)
	_, err = d.UpdateTable(ctx, "Orders", func(t *schema.Table) error {
		t.LastIndex = 3
		t.AddIndex(schema.Index{Name: "late", Global: true, State: schema.Creating, Key: t.Indexes[1].Key, Projection: schema.Projection{Kind: schema.ProjectKeys}})
		t.Indexes[2].State = schema.Deleting
		return nil
	})
	must(err)
	age(t, d, r, "Orders", "Plain")
	for _, name := range []string{"Dropped", "Gone"} {
		_, err := d.DeleteTable(ctx, name)
		must(err)
	}
	for i := range 10 {
		_, err := d.Transact(ctx, testToken(fmt.Sprint(i), "x"), addOne(fmt.Sprint(i)))
		must(err)
	}
	must(d.expire(ctx, map[uint32]bool{}))
	must(d.Trim(ctx))
	must(d.SaveCheckpoints(ctx, map[string][]byte{"trigger": {1}}))
	must(d.AddJob(ctx, func(map[string][]byte) (string, []byte, error) {
		return "job", []byte("\x01" + `{"id":"job","status":"COMPLETED"}`), nil
	}))
	waitFor(t, func() bool {
		desc, err := d.Describe("Orders")
		must(err)
		start, end := keyspace.DroppedSpan()
		return len(desc.Indexes) == 3 && desc.Indexes[2].State == "" && !desc.TimeToLive.Filling && countStored(t, d.engine, start, end) == 0
	})
	must(d.saveCounts(ctx))
	return d
}

// waitFor waits for background work.
func waitFor(t testing.TB, done func() bool) {
	t.Helper()
	for !done() {
		if t.Context().Err() != nil {
			t.Fatal("the test ended before the background work did")
		}
		time.Sleep(time.Millisecond)
	}
}

// age writes, replaces and deletes random items of tables.
func age(t testing.TB, d *DB, r *rand.Rand, tables ...string) {
	t.Helper()
	now := int(time.Now().Unix())
	for range 120 {
		for _, name := range tables {
			id, at := fmt.Sprint("customer", r.IntN(12)), r.IntN(4)
			if r.IntN(5) == 0 {
				remove(t, d, name, key(id, at))
				continue
			}
			it := key(id, at).With("c", num(r.IntN(1000)))
			if r.IntN(3) > 0 {
				it = it.With("a", item.String(fmt.Sprint("a", r.IntN(5)))).With("b", num(r.IntN(50)))
			}
			if r.IntN(2) == 0 {
				it = it.With("ttl", num(now-100+r.IntN(2)*1_000_000+r.IntN(100)))
			}
			put(t, d, name, it)
		}
	}
}

// planter plants divergences in a database and takes them back.
type planter struct {
	testing.TB
	d    *DB
	r    *rand.Rand
	undo map[string][]byte // the values before; nil for an absent key
}

func (p *planter) get(key []byte) []byte {
	p.Helper()
	values, err := p.d.engine.Get(p.Context(), store.Strong, key)
	if err != nil {
		p.Fatal(err)
	}
	return bytes.Clone(values[0])
}

// set sets a key, or deletes it if the value is nil.
func (p *planter) set(key, value []byte) {
	p.Helper()
	if _, ok := p.undo[string(key)]; !ok {
		p.undo[string(key)] = p.get(key)
	}
	p.raw(key, value)
}

func (p *planter) raw(key, value []byte) {
	p.Helper()
	writeRaw(p, p.d, func(tx store.Tx) {
		if value == nil {
			tx.Delete(key)
		} else {
			tx.Set(key, value)
		}
	})
}

func (p *planter) takeBack() {
	p.Helper()
	for key, value := range p.undo {
		p.raw([]byte(key), value)
	}
	clear(p.undo)
}

// any returns a random key of a range for which ok holds.
func (p *planter) any(start, end []byte, ok func(key, value []byte) bool) (key, value []byte) {
	p.Helper()
	snap, err := p.d.engine.Snapshot(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	defer snap.Close()
	var found []store.Pair
	for pair, err := range snap.Scan(p.Context(), store.Range{Start: start, End: end}) {
		if err != nil {
			p.Fatal(err)
		}
		if ok == nil || ok(pair.Key, pair.Value) {
			found = append(found, store.Pair{Key: bytes.Clone(pair.Key), Value: bytes.Clone(pair.Value)})
		}
	}
	if len(found) == 0 {
		p.Fatalf("there is no key to damage from %x to %x", start, end)
	}
	chosen := found[p.r.IntN(len(found))]
	return chosen.Key, chosen.Value
}

func (p *planter) kind(kind byte) (key, value []byte) {
	p.Helper()
	return p.any([]byte{kind}, []byte{kind + 1}, nil)
}

func (p *planter) table(name string) *schema.Table { return tableOf(p, p.d, name) }

// item returns a random item of the table Orders that is in all indexes.
func (p *planter) item() (key []byte, it item.Item) {
	p.Helper()
	start, end := keyspace.IndexSpan(p.table("Orders").ID, 0)
	key, value := p.any(start, end, func(_, value []byte) bool {
		it, err := codec.DecodeItem(value)
		_, indexed := it.Get("a")
		_, expires := it.Get("ttl")
		return err == nil && indexed && expires
	})
	it, _ = codec.DecodeItem(value)
	return key, it
}

// recordedItem is item for one that was written since changes are recorded without a gap.
func (p *planter) recordedItem() (key []byte, it item.Item) {
	p.Helper()
	recorded := p.recorded("Orders")
	for {
		if key, it = p.item(); len(recorded[string(key)]) > 0 {
			return key, it
		}
	}
}

func (p *planter) entry(name string) (key, value []byte) {
	p.Helper()
	t := p.table("Orders")
	x, _ := t.Index(name)
	start, end := keyspace.IndexSpan(t.ID, x.ID)
	return p.any(start, end, nil)
}

// recorded returns the changes of each item of a table, by its key, since they are recorded
// without a gap.
func (p *planter) recorded(name string) map[string][]store.Pair {
	p.Helper()
	t := p.table(name)
	from := t.Recovery.Start
	if s, ok := t.Stream(); ok {
		from = min(from, s.Start)
	}
	byItem := make(map[string][]store.Pair)
	start, end := keyspace.ChangesSpan(t.ID)
	p.any(start, end, func(key, value []byte) bool {
		r, err := change.Decode(value)
		if err != nil {
			p.Fatal(err)
		}
		if _, stamp, _ := keyspace.ChangeOf(key); stamp >= from {
			own := string(keyspace.Item(nil, t, r.Image()))
			byItem[own] = append(byItem[own], store.Pair{Key: bytes.Clone(key), Value: bytes.Clone(value)})
		}
		return true
	})
	return byItem
}

// changes returns the changes of a random item of a table, of which there are at
// least n, all since the changes are recorded without a gap.
func (p *planter) changes(name string, n int) (keys [][]byte, records []change.Record) {
	p.Helper()
	byItem := p.recorded(name)
	var items []string
	for own, pairs := range byItem {
		if len(pairs) >= n {
			items = append(items, own)
		}
	}
	slices.Sort(items)
	for _, pair := range byItem[items[p.r.IntN(len(items))]] {
		r, _ := change.Decode(pair.Value)
		keys, records = append(keys, pair.Key), append(records, r)
	}
	return keys, records
}

// plants are the divergences, each with the kind of finding that reports it.
var plants = []struct {
	name  string
	kind  verify.Kind
	plant func(*planter)
}{
	{"an item is truncated", verify.KindItem, func(p *planter) {
		key, it := p.item()
		value := codec.EncodeItem(it)
		p.set(key, value[:1+p.r.IntN(len(value)-1)])
	}},
	{"an item has an unknown format", verify.KindItem, func(p *planter) {
		key, it := p.item()
		p.set(key, append([]byte{77}, it...))
	}},
	{"an item is at the key of another", verify.KindItem, func(p *planter) {
		key, it := p.item()
		p.set(key, codec.EncodeItem(it.With("id", item.String("another"))))
	}},
	{"an item lost an attribute", verify.KindIndex, func(p *planter) {
		key, it := p.item()
		p.set(key, codec.EncodeItem(it.Without("a")))
	}},
	{"an item is missing", verify.KindIndex, func(p *planter) {
		key, _ := p.item()
		p.set(key, nil)
	}},
	{"an item is older than its newest change", verify.KindChange, func(p *planter) {
		key, it := p.recordedItem()
		p.set(key, codec.EncodeItem(it.With("note", item.String("old"))))
	}},
	{"an index entry is missing", verify.KindIndex, func(p *planter) {
		key, _ := p.entry([]string{"local", "all", "late"}[p.r.IntN(3)])
		p.set(key, nil)
	}},
	{"an index entry has another value", verify.KindIndex, func(p *planter) {
		key, value := p.entry("all")
		it, _ := codec.DecodeItem(value)
		p.set(key, codec.EncodeItem(it.With("c", item.String("other"))))
	}},
	{"an index has an entry too many", verify.KindIndex, func(p *planter) {
		_, it := p.item()
		t := p.table("Orders")
		moved := it.With("a", item.String("moved"))
		p.set(keyspace.Entry(nil, t, &t.Indexes[1], moved), codec.EncodeItem(moved))
	}},
	{"an index entry has no item", verify.KindIndex, func(p *planter) {
		t := p.table("Orders")
		p.set(keyspace.Entry(nil, t, &t.Indexes[1], fullItem("nobody", p.r.IntN(99))), codec.EncodeItem(fullItem("nobody", 1)))
	}},
	{"a collection has another size", verify.KindCollection, func(p *planter) {
		key, value := p.kind(keyspace.KindSize)
		binary.BigEndian.PutUint64(value, binary.BigEndian.Uint64(value)+uint64(1+p.r.IntN(99)))
		p.set(key, value)
	}},
	{"the size of a collection is missing", verify.KindCollection, func(p *planter) {
		key, _ := p.kind(keyspace.KindSize)
		p.set(key, nil)
	}},
	{"an empty collection has a size", verify.KindCollection, func(p *planter) {
		p.set(keyspace.Collection(p.table("Orders"), key(fmt.Sprint("empty", p.r.IntN(9)), 1)), make([]byte, 8))
		p.set(keyspace.Collection(p.table("Orders"), key("empty", 1)), binary.BigEndian.AppendUint64(nil, 3))
	}},
	{"an expiry entry is missing", verify.KindExpiry, func(p *planter) {
		key, _ := p.kind(keyspace.KindExpiry)
		p.set(key, nil)
	}},
	{"an item has a second expiry entry", verify.KindExpiry, func(p *planter) {
		key, value := p.kind(keyspace.KindExpiry)
		at, own := keyspace.ExpiryOf(key)
		p.set(keyspace.Expiry(p.table("Orders").ID, at+1+int64(p.r.IntN(99)), own), value)
	}},
	{"an expiry entry has no item", verify.KindExpiry, func(p *planter) {
		t := p.table("Orders")
		p.set(keyspace.Expiry(t.ID, int64(p.r.IntN(1<<30)), keyspace.Item(nil, t, key("nobody", 1))), []byte{codec.FormatExpiry})
	}},
	{"an expiry entry has another format", verify.KindExpiry, func(p *planter) {
		key, _ := p.kind(keyspace.KindExpiry)
		p.set(key, []byte{2})
	}},
	{"a change between two others is missing", verify.KindChange, func(p *planter) {
		keys, _ := p.changes([]string{"Orders", "Plain"}[p.r.IntN(2)], 3)
		p.set(keys[1+p.r.IntN(len(keys)-2)], nil)
	}},
	{"the newest change is missing", verify.KindChange, func(p *planter) {
		keys, _ := p.changes([]string{"Orders", "Plain"}[p.r.IntN(2)], 2)
		p.set(keys[len(keys)-1], nil)
	}},
	{"a change has another image before", verify.KindChange, func(p *planter) {
		keys, records := p.changes("Plain", 2)
		i := 1 + p.r.IntN(len(keys)-1)
		if records[i].Before == nil {
			records[i].Before = records[i].After.With("note", item.String("x"))
		} else {
			records[i].Before = records[i].Before.With("note", item.String("x"))
		}
		p.set(keys[i], records[i].Encode())
	}},
	{"a change has another image after", verify.KindChange, func(p *planter) {
		keys, records := p.changes("Orders", 1)
		i := p.r.IntN(len(keys))
		if records[i].After == nil {
			records[i].After = records[i].Before.With("note", item.String("x"))
		} else {
			records[i].After = records[i].After.With("note", item.String("x"))
		}
		p.set(keys[i], records[i].Encode())
	}},
	{"a change is truncated", verify.KindChange, func(p *planter) {
		key, value := p.kind(keyspace.KindChange) // of a dropped table, too
		p.set(key, value[:1+p.r.IntN(len(value)-1)])
	}},
	{"a change is in another slot", verify.KindChange, func(p *planter) {
		key, value := p.kind(keyspace.KindChange)
		slot, stamp, n := keyspace.ChangeOf(key)
		id, _ := keyspace.TableOf(key)
		p.set(keyspace.Change(id, (slot+1+p.r.IntN(3))%keyspace.Slots, stamp, n), value)
	}},
	{"a change has an image that is not an item", verify.KindChange, func(p *planter) {
		keys, records := p.changes("Orders", 1)
		image := bytes.Clone(records[0].Image())
		image[0]++ // the number of attributes
		records[0].Before, records[0].After = nil, image
		p.set(keys[0], records[0].Encode())
	}},
	{"a token is truncated", verify.KindToken, func(p *planter) {
		key, value := p.kind(keyspace.KindToken)
		p.set(key, value[:1+p.r.IntN(len(value)-1)])
	}},
	{"a token has no due entry", verify.KindToken, func(p *planter) {
		key, _ := p.kind(keyspace.KindDue)
		p.set(key, nil)
	}},
	{"a token has a key of another length", verify.KindToken, func(p *planter) {
		key, value := p.kind([]byte{keyspace.KindToken, keyspace.KindDue}[p.r.IntN(2)])
		p.set(key[:len(key)-1-p.r.IntN(20)], value)
	}},
	{"a saved count is wrong", verify.KindCount, func(p *planter) {
		key, value := p.kind(keyspace.KindItemCount)
		value[9+8*p.r.IntN(2)]++ // the items or the bytes of the table
		p.set(key, value)
	}},
	{"a saved count is missing", verify.KindCount, func(p *planter) {
		key, _ := p.kind(keyspace.KindItemCount)
		p.set(key, nil)
	}},
	{"a saved count is truncated", verify.KindCount, func(p *planter) {
		key, value := p.kind(keyspace.KindItemCount)
		p.set(key, value[:1+p.r.IntN(17)])
	}},
	{"a count is saved for no table", verify.KindCount, func(p *planter) {
		p.set(keyspace.ItemCount(99+uint32(p.r.IntN(99))), make([]byte, 18))
	}},
	{"a description is stored under another name", verify.KindCatalog, func(p *planter) {
		p.set(keyspace.Catalog("Other"), p.get(keyspace.Catalog("Orders")))
	}},
	{"two tables have one id", verify.KindCatalog, func(p *planter) {
		other := *p.table("Plain")
		other.Name = "Second"
		p.set(keyspace.Catalog(other.Name), codec.EncodeTable(&other))
	}},
	{"a description cannot be decoded", verify.KindCatalog, func(p *planter) {
		value := p.get(keyspace.Catalog("Plain"))
		p.set(keyspace.Catalog("Broken"), value[:1+p.r.IntN(len(value)-1)])
	}},
	{"the last table id is too small", verify.KindCatalog, func(p *planter) {
		p.set(keyspace.Meta("last table id"), []byte{0, 0, 0, 0})
	}},
	{"the description of a dropped table cannot be decoded", verify.KindCatalog, func(p *planter) {
		key, value := p.kind(keyspace.KindDroppedStreams)
		p.set(key, value[:1+p.r.IntN(len(value)-1)])
	}},
	{"the runs of the clock cannot be decoded", verify.KindRecord, func(p *planter) {
		p.set(keyspace.Meta("clock runs"), append([]byte{1}, make([]byte, 1+p.r.IntN(15))...))
	}},
	{"a job cannot be decoded", verify.KindRecord, func(p *planter) {
		key, value := p.kind(keyspace.KindJob)
		p.set(key, value[:1+p.r.IntN(len(value)-1)])
	}},
	{"settings of auto scaling are those of another resource", verify.KindRecord, func(p *planter) {
		p.set(keyspace.Scaling("table/Orders", "dynamodb:table:ReadCapacityUnits"), []byte("\x01"+`{"resource":"table/Other","dimension":"dynamodb:table:ReadCapacityUnits"}`))
	}},
	{"the clusters of DAX cannot be decoded", verify.KindRecord, func(p *planter) {
		p.set(keyspace.DAX(), []byte("\x01"+`{"clusters":[{"name":`))
	}},
	{"a list of attribute names cannot be decoded", verify.KindRecord, func(p *planter) {
		p.set(append(keyspace.Meta("dax list/"), make([]byte, p.r.IntN(9))...), []byte{2})
	}},
	{"a record of the database has another length", verify.KindRecord, func(p *planter) {
		p.set(keyspace.Meta("jobs added"), make([]byte, 1+p.r.IntN(7)))
	}},
	{"the progress of a build is no key", verify.KindRecord, func(p *planter) {
		p.set(keyspace.Build(p.table("Orders").ID, 1), []byte("nowhere"))
	}},
	{"a record of the database is not known", verify.KindUnknown, func(p *planter) {
		p.set(keyspace.Meta(fmt.Sprint("unknown", p.r.IntN(99))), []byte{1})
	}},
	{"a key is of no kind", verify.KindUnknown, func(p *planter) {
		kinds := "\x00fkopqrvwyzAZ\xfe"
		p.set(append([]byte{kinds[p.r.IntN(len(kinds))]}, "something"...), []byte{1})
	}},
	{"a key is too short", verify.KindUnknown, func(p *planter) {
		kinds := "bdgilnsx"
		p.set(append([]byte{kinds[p.r.IntN(len(kinds))]}, "123"...), []byte{1})
	}},
	{"a key belongs to no table", verify.KindUnknown, func(p *planter) {
		kinds := []byte{keyspace.KindItem, keyspace.KindChange, keyspace.KindSize, keyspace.KindExpiry}
		key, value := p.kind(kinds[p.r.IntN(len(kinds))])
		binary.BigEndian.PutUint32(key[1:], 99+uint32(p.r.IntN(99)))
		p.set(key, value)
	}},
	{"an entry belongs to no index", verify.KindUnknown, func(p *planter) {
		key, value := p.entry("all")
		binary.BigEndian.PutUint16(key[5:], 3) // it was deleted
		p.set(key, value)
	}},
}

// Verify finds every planted divergence, in one snapshot and online, and nothing
// in the aged database without one.
func TestVerifyFindsPlantedDivergences(t *testing.T) {
	const each = 5
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	d := agedDB(t, r)
	sound := func() {
		t.Helper()
		for _, r := range verifyAll(t, d) {
			if r.Faults > 0 || len(r.Notes) > 0 {
				t.Errorf("without a divergence, %d faults are found in %q: %s", r.Faults, r.Table, strings.Join(append(r.First, r.Notes...), "\n"))
			}
		}
		if found := verifyInParts(t, d, 7); len(found) > 0 {
			t.Errorf("without a divergence, online: %v", found)
		}
	}
	sound()
	planted, found := 0, 0
	for _, c := range plants {
		for range each {
			p := &planter{TB: t, d: d, r: r, undo: make(map[string][]byte)}
			c.plant(p)
			_ = d.readCounts(t.Context()) // as after a restart; a damaged count is found below
			planted++
			if foundAll(t, d, c.name, c.kind, 10+r.IntN(200)) {
				found++
			}
			p.takeBack()
			_ = d.readCounts(t.Context())
		}
	}
	if planted < 200 || found != planted {
		t.Errorf("%d of %d planted divergences are found", found, planted)
	}
	t.Logf("ledger: %d found, %d planted divergences", found, planted)
	sound()
}

// foundAll reports whether a divergence is found with its kind both in one
// snapshot and in parts.
func foundAll(t *testing.T, d *DB, name string, kind verify.Kind, partKeys int) bool {
	t.Helper()
	faults := 0
	for _, r := range verifyAll(t, d) {
		faults += len(r.First) + len(r.Notes)
	}
	inParts := verifyInParts(t, d, partKeys)
	ok := faults > 0 && slices.ContainsFunc(inParts, func(f verify.Finding) bool { return f.Kind == kind })
	if !ok {
		t.Errorf("%s: %d faults are found in one snapshot, and in parts of %d keys %v, want one of kind %s", name, faults, partKeys, inParts, kind)
	}
	return ok
}

// verifyInParts verifies a database as if it were in use.
func verifyInParts(t testing.TB, d *DB, partKeys int) (found []verify.Finding) {
	t.Helper()
	walk := verify.New(verify.Options{
		Snapshot: d.engine.Snapshot, Online: true, Recount: d.recount, PartKeys: partKeys, MaxTracked: 20 + partKeys,
		Found: func(f verify.Finding) { found = append(found, f) },
	})
	defer walk.Close()
	for done := false; !done; {
		var err error
		if _, done, err = walk.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return found
}
