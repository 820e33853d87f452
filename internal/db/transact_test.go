package db

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// putWrite returns a put of an item of the table Orders.
func putWrite(it item.Item) Write {
	return Write{Table: "Orders", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)}
}

func never(item.Item) bool { return false }

// dumpEngine returns all keys and values of an engine as text, except the counts,
// which are saved at intervals.
func dumpEngine(t testing.TB, e store.Engine) string {
	t.Helper()
	snap, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	var all strings.Builder
	for pair, err := range snap.Scan(t.Context(), store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if pair.Key[0] != keyspace.ItemCount(0)[0] {
			fmt.Fprintf(&all, "%x=%x\n", pair.Key, pair.Value)
		}
	}
	return all.String()
}

// A cancelled transaction reports the reasons of its writes up to the first that is
// not valid, and changes nothing: neither items nor indexes, collection sizes or
// counts.
func TestCancelled(t *testing.T) {
	d := inMemory(t)
	desc := create(t, d, orders("Orders"))
	put(t, d, "Orders", fullItem("p", 1))
	before, counts := dumpEngine(t, d.engine), countsText(t, d)

	fault := apierror.Validation("no such update")
	large := key("p", 9).With("pad", item.String(strings.Repeat("x", item.MaxSize)))
	_, err := d.Transact(t.Context(), nil,
		putWrite(fullItem("p", 2)),
		Write{Table: "Orders", Key: key("p", 1), If: never, Effect: Remove},
		Write{Table: "Orders", Key: key("p", 4), If: never, Effect: Keep},
		Write{Table: "Orders", Key: key("p", 3), Effect: func(item.Item) (item.Item, error) { return nil, fault }},
		Write{Table: "Orders", Key: key("p", 6), If: never, Effect: Keep},
		putWrite(large),
		putWrite(key("p", 7).With("b", item.String("no number"))),
	)
	var cancelled *Cancelled
	if !errors.As(err, &cancelled) || len(cancelled.Reasons) != 7 {
		t.Fatalf("the error is %v", err)
	}
	var failed *ConditionFailed
	if !errors.As(cancelled.Reasons[1], &failed) || !failed.Before.Equal(fullItem("p", 1)) {
		t.Errorf("the second reason is %v with item %v", cancelled.Reasons[1], item.Map(failed.Before))
	}
	if !errors.As(cancelled.Reasons[2], &failed) || failed.Before != nil {
		t.Errorf("the third reason is %v with item %v", cancelled.Reasons[2], failed.Before)
	}
	expect(t, "the first reason", cancelled.Reasons[0], "")
	expect(t, "the fourth reason", cancelled.Reasons[3], fault.Error())
	for i, err := range cancelled.Reasons[4:] {
		expect(t, fmt.Sprintf("reason %d, after a write that is not valid", 4+i), err, "")
	}

	_, err = d.Transact(t.Context(), nil, putWrite(large))
	errors.As(err, &cancelled)
	expect(t, "a large item", cancelled.first(), apierror.ItemTooLarge().Error())
	_, err = d.Transact(t.Context(), nil,
		Write{Table: "Orders", Key: key("p", 5), Update: true, Effect: Replace(key("p", 5).With("a", num(1)))})
	errors.As(err, &cancelled)
	expect(t, "an index key", cancelled.first(), "ValidationException: One or more parameter values were invalid: "+
		"Type mismatch for Index Key a Expected: S Actual: N IndexName: local")

	if dumpEngine(t, d.engine) != before || countsText(t, d) != counts {
		t.Errorf("the cancelled transaction changed table %d", desc.ID)
	}
	expectFaults(t, d)

	// Several writes that are not a transaction return the first reason.
	_, err = d.Write(t.Context(), putWrite(fullItem("p", 2)), Write{Table: "Orders", Key: key("p", 1), If: never, Effect: Remove})
	if !errors.As(err, &failed) || !failed.Before.Equal(fullItem("p", 1)) {
		t.Errorf("the error of some writes is %v", err)
	}
	if dumpEngine(t, d.engine) != before {
		t.Error("writes of which one failed changed the table")
	}
}

func countsText(t testing.TB, d *DB) string {
	t.Helper()
	desc, err := d.Describe("Orders")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(desc.Counts)
}

// The first write that does not fit its table is reported together with earlier
// writes whose conditions do not hold. An error that concerns the whole request is returned on its own.
func TestCancelledForWritesThatDoNotFit(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	_, err := d.Transact(t.Context(), nil,
		Write{Table: "Orders", Key: key("p", 1), If: never, Effect: Keep},
		putWrite(key("p", 2).With("b", item.String("no number"))),
		Write{Table: "Orders", Key: key("p", 3).With("x", num(1)), Effect: Remove},
	)
	var cancelled *Cancelled
	if !errors.As(err, &cancelled) || len(cancelled.Reasons) != 3 {
		t.Fatalf("the error is %v", err)
	}
	expect(t, "the first reason", cancelled.Reasons[0], (&ConditionFailed{}).Error())
	expect(t, "the second reason", cancelled.Reasons[1], "ValidationException: One or more parameter values were invalid: "+
		"Type mismatch for Index Key b Expected: N Actual: S IndexName: all")
	expect(t, "the third reason", cancelled.Reasons[2], "")

	// Writes that are not a transaction are not evaluated then.
	_, err = d.Write(t.Context(),
		Write{Table: "Orders", Key: key("p", 1), If: never, Effect: Keep},
		Write{Table: "Orders", Key: key("p", 3).With("x", num(1)), Effect: Remove})
	expect(t, "the first of some writes that does not fit", err, apierror.KeyMismatch().Error())

	_, err = d.Transact(t.Context(), nil, putWrite(fullItem("p", 1)), putWrite(fullItem("", 2)))
	expect(t, "an empty key", err, apierror.EmptyKey("string", "id").Error())
	_, err = d.Transact(t.Context(), nil, putWrite(fullItem("p", 1)), Write{Table: "None", Key: key("p", 1), Effect: Remove})
	expect(t, "a table that does not exist", err, noTable)
	if r := verifyOne(t, d); r.Items != 0 || r.Faults != 0 {
		t.Errorf("the report is %+v", r)
	}
}

// testToken returns a token for a request with the given text.
func testToken(value, request string) *Token {
	return &Token{Scope: "test", Value: value, Request: sha256.Sum256([]byte(request))}
}

// addOne returns a write that increments a counter, so that a repetition is
// visible.
func addOne(id string) Write {
	return Write{Table: "Orders", Key: key(id, 0), Update: true, Effect: func(before item.Item) (item.Item, error) {
		n := 0
		if v, ok := before.Get("n"); ok {
			n, _ = strconv.Atoi(v.Number().String())
		}
		return key(id, 0).With("n", num(n+1)), nil
	}}
}

func expectN(t testing.TB, d *DB, id string, want int) {
	t.Helper()
	items, err := d.Get(t.Context(), Get{Table: "Orders", Consistent: true}, key(id, 0))
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := items[0].Get("n"); want == 0 && items[0] != nil || want > 0 && (!ok || !item.Equal(v, num(want))) {
		t.Errorf("the item %s is %v, want n = %d", id, item.Map(items[0]), want)
	}
}

// A transaction with a token is applied once in ten minutes, also over restarts.
// Afterwards the token is deleted.
func TestToken(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		e := newEngine(t, pebble.InMemory())
		d := newDB(t, e, Options{})
		create(t, d, orders("Orders"))
		ctx := t.Context()
		apply := func(tok *Token) {
			t.Helper()
			if _, err := d.Transact(ctx, tok, addOne("a"), addOne("b")); err != nil {
				t.Fatal(err)
			}
		}
		replayed := func(tok *Token) {
			t.Helper()
			_, err := d.Transact(ctx, tok, addOne("a"), addOne("b"))
			var r *Replayed
			if !errors.As(err, &r) || len(r.Sizes) != 2 || r.Sizes[0] != key("a", 0).With("n", num(1)).Size() {
				t.Errorf("the error of a repeated transaction is %v, %+v", err, r)
			}
		}

		apply(testToken("1", "x"))
		replayed(testToken("1", "x"))
		_, err := d.Transact(ctx, testToken("1", "y"), addOne("a"))
		if !errors.Is(err, ErrTokenReused) {
			t.Errorf("the error of a token with another request is %v", err)
		}
		expectN(t, d, "a", 1)

		// A cancelled transaction does not use its token.
		_, err = d.Transact(ctx, testToken("2", "z"), addOne("c"), Write{Table: "Orders", Key: key("d", 0), If: never, Effect: Keep})
		if !errors.As(err, new(*Cancelled)) {
			t.Errorf("the error is %v", err)
		}
		expectN(t, d, "c", 0)
		if _, err := d.Transact(ctx, testToken("2", "other"), addOne("c")); err != nil {
			t.Error(err)
		}
		expectN(t, d, "c", 1)

		// Scopes are separate, even if scope and value concatenate to the same text.
		other := testToken("", "x")
		other.Scope, other.Value = "tes", "t1"
		if _, err := d.Transact(ctx, other, addOne("e")); err != nil {
			t.Error(err)
		}

		time.Sleep(TokenRetention / 2)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = newDB(t, e, Options{})
		replayed(testToken("1", "x"))
		time.Sleep(TokenRetention / 2)
		replayed(testToken("1", "x"))
		expectN(t, d, "a", 1)
		time.Sleep(time.Millisecond)
		apply(testToken("1", "x"))
		expectN(t, d, "a", 2)

		// The first record is due to be deleted now, but the token was used again.
		time.Sleep(2 * tokenInterval)
		synctest.Wait()
		replayed(testToken("1", "x"))
		time.Sleep(TokenRetention + 2*tokenInterval)
		synctest.Wait()
		for _, kind := range []byte{keyspace.Token(nil)[0], keyspace.TokenDue(time.Now(), nil)[0]} {
			if n := countStored(t, e, []byte{kind}, []byte{kind + 1}); n != 0 {
				t.Errorf("%d records %q of expired tokens are left", n, kind)
			}
		}
		expectN(t, d, "b", 2)
	})
}

// Of concurrent transactions with the same token one is applied.
func TestConcurrentTokens(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	for round := range 50 {
		var applied, repeated atomic.Int64
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				_, err := d.Transact(t.Context(), testToken(fmt.Sprint(round), "x"), addOne(fmt.Sprint(round)))
				switch {
				case err == nil:
					applied.Add(1)
				case errors.As(err, new(*Replayed)):
					repeated.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if applied.Load() != 1 || repeated.Load() != 7 {
			t.Errorf("%d transactions were applied and %d were repeats, want 1 and 7", applied.Load(), repeated.Load())
		}
		expectN(t, d, fmt.Sprint(round), 1)
	}
}

// A damaged record of a token is an error. It is not treated as missing.
func TestCorruptToken(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	for _, value := range []string{"\x02{}", "\x01{"} {
		setRaw(t, d.engine, keyspace.Token(testToken("1", "x").digest()), []byte(value))
		if _, err := d.Transact(t.Context(), testToken("1", "x"), addOne("a")); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("the error for the record %q is %v", value, err)
		}
	}
	expectN(t, d, "a", 0)
}

// GetSnapshot returns the items in the order of the keys, nil for a key without an item,
// and reports all keys that are invalid.
func TestGetSnapshot(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	create(t, d, orders("Others"))
	put(t, d, "Orders", fullItem("p", 1))
	put(t, d, "Others", fullItem("q", 2))
	items, err := d.GetSnapshot(t.Context(), math.MaxInt, nil,
		GetKey{"Others", key("q", 2)}, GetKey{"Orders", key("q", 2)}, GetKey{"Orders", key("p", 1)}, GetKey{"Others", key("q", 2)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []item.Item{fullItem("q", 2), nil, fullItem("p", 1), fullItem("q", 2)} {
		if !items[i].Equal(want) {
			t.Errorf("item %d is %v, want %v", i, items[i], want)
		}
	}

	_, err = d.GetSnapshot(t.Context(), math.MaxInt, nil, GetKey{"Orders", key("p", 1)}, GetKey{"Orders", fullItem("p", 1)}, GetKey{"Orders", key("", 1)})
	var cancelled *Cancelled
	if !errors.As(err, &cancelled) || len(cancelled.Reasons) != 3 || cancelled.Reasons[0] != nil {
		t.Fatalf("the error is %v", err)
	}
	expect(t, "a key with more attributes", cancelled.Reasons[1], apierror.KeyMismatch().Error())
	expect(t, "an empty key", cancelled.Reasons[2], apierror.EmptyKey("string", "id").Error())

	_, err = d.GetSnapshot(t.Context(), math.MaxInt, nil, GetKey{"Orders", key("p", 1)}, GetKey{"None", key("p", 1)})
	expect(t, "a table that does not exist", err, noTable)
}

// GetSnapshot never returns a part of a transaction.
func TestGetAllIsConsistent(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	const ids = 5
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for ctx.Err() == nil {
				var all []Write
				for id := range ids {
					all = append(all, addOne(fmt.Sprint(id)))
				}
				_, err := d.Transact(t.Context(), nil, all...)
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	gets := make([]GetKey, ids)
	for id := range ids {
		gets[ids-1-id] = GetKey{"Orders", key(fmt.Sprint(id), 0)}
	}
	for range 2000 {
		items, err := d.GetSnapshot(t.Context(), math.MaxInt, nil, gets...)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := items[0].Get("n")
		for _, it := range items {
			if n, _ := it.Get("n"); string(n) != string(first) {
				t.Fatalf("one read returns %v and %v", first, n)
			}
		}
	}
	stop()
	writers.Wait()
}

// A collection cannot grow beyond its limit, neither by one write nor by several
// writes of a transaction. Writes that do not make it larger are accepted.
func TestCollectionLimit(t *testing.T) {
	const limit = 1000
	d := newDB(t, newEngine(t, pebble.InMemory()), Options{MaxCollectionBytes: limit})
	create(t, d, orders("Orders"))
	padded := func(at, n int) item.Item { return key("p", at).With("pad", item.String(strings.Repeat("x", n))) }
	overhead := padded(1, 0).Size()

	exact := padded(1, limit-overhead)
	if o := put(t, d, "Orders", exact); o.CollectionBytes != limit {
		t.Errorf("the collection has %d bytes, want %d", o.CollectionBytes, limit)
	}
	_, err := d.Write(t.Context(), putWrite(padded(1, limit-overhead+1)))
	expect(t, "one byte more", err, apierror.CollectionTooLarge().Error())
	put(t, d, "Orders", exact)                                       // as large as before
	put(t, d, "Orders", key("q", 1).With("a", item.String("other"))) // another collection
	if o := put(t, d, "Orders", padded(1, 100)); o.CollectionBytes != int64(overhead)+100 {
		t.Errorf("the collection has %d bytes", o.CollectionBytes)
	}

	// The second put alone would fit, and so would the third put without its entry
	// in the local index.
	before := dumpEngine(t, d.engine)
	half := (limit - (overhead + 100)) / 2
	_, err = d.Transact(t.Context(), nil, putWrite(padded(2, half)), putWrite(padded(3, half)), putWrite(key("q", 2)))
	var cancelled *Cancelled
	if !errors.As(err, &cancelled) || cancelled.Reasons[0] != nil || cancelled.Reasons[2] != nil {
		t.Fatalf("the error is %v", err)
	}
	expect(t, "the second put", cancelled.Reasons[1], apierror.CollectionTooLarge().Error())
	remaining := limit - overhead - 100
	entry := padded(4, 0).With("a", item.String("x"))
	_, err = d.Write(t.Context(), putWrite(entry.With("pad", item.String(strings.Repeat("x", remaining-entry.Size())))))
	expect(t, "an item that fits without its entry", err, apierror.CollectionTooLarge().Error())
	if dumpEngine(t, d.engine) != before {
		t.Error("rejected writes changed the table")
	}

	put(t, d, "Orders", padded(2, half))
	for _, at := range []int{1, 2} {
		remove(t, d, "Orders", key("p", at))
	}
	expectFaults(t, d)
	start, end := keyspace.CollectionSpan(tableOf(t, d, "Orders").ID)
	if n := countStored(t, d.engine, start, end); n != 1 {
		t.Errorf("%d collection sizes are stored, want 1", n)
	}
}

// A write that waits too long for another write of the same item is rejected, and
// changes nothing.
func TestConflict(t *testing.T) {
	o := pebble.InMemory()
	o.Patience = 20 * time.Millisecond
	e := newEngine(t, o)
	d := newDB(t, e, Options{})
	create(t, d, orders("Orders"))
	held, done := make(chan struct{}), make(chan struct{})
	var holder sync.WaitGroup
	holder.Go(func() {
		at := keyspace.Item(nil, tableOf(t, d, "Orders"), key("p", 1))
		if err := e.Update(t.Context(), [][]byte{at}, func(store.Tx) error {
			close(held)
			<-done
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-held
	const conflict = "TransactionConflictException: Transaction is ongoing for the item"
	_, err := d.Write(t.Context(), putWrite(fullItem("p", 1)))
	expect(t, "a write", err, conflict)
	_, err = d.Transact(t.Context(), testToken("1", "x"), putWrite(fullItem("q", 1)), putWrite(fullItem("p", 1)))
	var cancelled *Cancelled
	if !errors.As(err, &cancelled) || len(cancelled.Reasons) != 2 {
		t.Fatalf("the error of a transaction is %v", err)
	}
	expect(t, "the reason of a transaction", cancelled.Reasons[1], conflict)
	if items, err := d.GetSnapshot(t.Context(), math.MaxInt, nil, GetKey{"Orders", key("q", 1)}, GetKey{"Orders", key("p", 1)}); err != nil || items[0] != nil || items[1] != nil {
		t.Errorf("a read during the update returns %v, %v, want no items", items, err)
	}
	close(done)
	holder.Wait()
	if _, err = d.Transact(t.Context(), testToken("1", "x"), putWrite(fullItem("q", 1)), putWrite(fullItem("p", 1))); err != nil {
		t.Errorf("after the conflict: %v", err)
	}
	expectFaults(t, d)
}

// createWideTable creates a table with the maximum number of indexes, all of which
// project all attributes.
func createWideTable(t *testing.T, d *DB) {
	t.Helper()
	def := schema.Table{Name: "Wide", Key: schema.Key{Partition: []schema.Attribute{{Name: "id", Type: item.S}}}}
	for i := range 20 {
		def.AddIndex(schema.Index{Name: fmt.Sprintf("index-%d", i), Global: true, Key: schema.Key{Partition: []schema.Attribute{{Name: "g", Type: item.S}}},
			Projection: schema.Projection{Kind: schema.ProjectAll}})
	}
	create(t, d, def)
}

// A transaction whose updates make more than 4 MB of items is rejected, and memory is
// not used for the rest of it.
func TestTransactionMemory(t *testing.T) {
	d := inMemory(t)
	createWideTable(t, d)
	id := func(i int) item.Item { return item.Make(map[string]item.Value{"id": item.String(fmt.Sprint(i))}) }
	large := item.String(strings.Repeat("x", 390<<10))
	for i := range 100 { // not in the indexes yet
		put(t, d, "Wide", id(i).With("large", large))
	}
	var writes []Write
	for i := range 100 { // UPDATE ... SET g = :g
		writes = append(writes, Write{Table: "Wide", Key: id(i), Update: true, Effect: func(before item.Item) (item.Item, error) { return before.With("g", item.String("g")), nil }})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := d.Transact(t.Context(), nil, writes...)
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 1000 { // it was 5,000
		t.Errorf("a transaction of 100 small updates allocates %d MB", mb)
	}
	expect(t, "a transaction of 100 small updates", err, apierror.TransactionTooLarge().Error())
}

// The largest transaction that the API allows is not too large for the engine, even
// with the maximum number of indexes.
func TestLargestTransaction(t *testing.T) {
	d := inMemory(t)
	createWideTable(t, d)
	var writes []Write
	for i := range 10 {
		it := item.Make(map[string]item.Value{"id": item.String(fmt.Sprint(i)), "g": item.String("g"), "large": item.String(strings.Repeat("x", 390<<10))})
		writes = append(writes, Write{Table: "Wide", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)})
	}
	if _, err := d.Transact(t.Context(), nil, writes...); err != nil {
		t.Errorf("3.9 MB of puts: %v", err)
	}
}

// countingEngine counts the updates.
type countingEngine struct {
	store.Engine
	n atomic.Int64
}

func (c *countingEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	c.n.Add(1)
	return c.Engine.Update(ctx, keys, fn)
}

func TestTokensAreDeletedInBatches(t *testing.T) {
	var ahead atomic.Int64
	updates := &countingEngine{Engine: newEngine(t, pebble.InMemory())}
	d := newDB(t, updates, Options{Clock: clock.Given(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })})
	create(t, d, orders("Orders"))
	const clients, each = 16, 100
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				it := key(fmt.Sprint(c), i)
				token := &Token{Scope: "x", Value: fmt.Sprint(c, " ", i), Request: sha256.Sum256(it)}
				if _, err := d.Transact(t.Context(), token, Write{Table: "Orders", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	ahead.Store(int64(TokenRetention + time.Minute))
	updates.n.Store(0)
	if err := d.removeTokens(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := updates.n.Load(); n > clients*each/100 {
		t.Errorf("deleting %d tokens takes %d updates, want at most %d", clients*each, n, clients*each/100)
	}
	start, end := keyspace.TokensDue(time.Now().Add(time.Hour))
	if n := countStored(t, d.engine, start, end); n != 0 {
		t.Errorf("%d records of due tokens are left", n)
	}
	if n := countStored(t, d.engine, []byte("t"), []byte("u")); n != 0 {
		t.Errorf("%d tokens are left", n)
	}
}
