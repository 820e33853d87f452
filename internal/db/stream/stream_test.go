package stream_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/clock/clocktest"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/store/pebble"
)

// streamFixture is a database with the table Orders and a clock of its own.
type streamFixture struct {
	*testing.T
	engine *pebble.Engine
	db     *db.DB
	reader *stream.Reader
	on     *clock.Clock

	provisioned bool // the table has provisioned units

	mu  sync.Mutex
	now time.Time
}

func newFixture(t *testing.T) *streamFixture {
	t.Helper()
	w := &streamFixture{T: t, now: time.UnixMilli(1_794_716_084_321).UTC()}
	w.start(clock.Given(w.clock))
	return w
}

// newProvisioned returns a fixture whose table has provisioned units.
func newProvisioned(t *testing.T) *streamFixture {
	t.Helper()
	w := &streamFixture{T: t, now: time.UnixMilli(1_794_716_084_321).UTC(), provisioned: true}
	w.start(clock.Given(w.clock))
	return w
}

// newFixtureOn returns a fixture with a clock that the test moves.
func newFixtureOn(t *testing.T, c *clock.Clock) *streamFixture {
	t.Helper()
	w := &streamFixture{T: t}
	w.start(c)
	return w
}

func (w *streamFixture) start(c *clock.Clock) {
	w.Helper()
	t := w.T
	options := pebble.InMemory()
	options.Now = c.Now
	engine, err := pebble.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	w.engine, w.on = engine, c
	w.pass(2 * time.Second) // the stamps of a new engine are ahead of the clock
	w.open()
	t.Cleanup(func() {
		if err := errors.Join(w.db.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	w.create()
}

func (w *streamFixture) open() {
	w.Helper()
	d, err := db.Open(w.Context(), w.engine, db.Options{Clock: w.on})
	if err != nil {
		w.Fatal(err)
	}
	w.db, w.reader = d, &stream.Reader{DB: d}
}

// reopen closes and opens the database, as a restart does.
func (w *streamFixture) reopen() {
	w.Helper()
	if err := w.db.Close(); err != nil {
		w.Fatal(err)
	}
	w.open()
}

func (w *streamFixture) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *streamFixture) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *streamFixture) create() {
	w.Helper()
	id := []schema.Attribute{{Name: "id", Type: item.S}}
	def := schema.Table{Name: "Orders", Key: schema.Key{Partition: id}, Attributes: id, OnDemand: !w.provisioned}
	def.EnableStream("NEW_AND_OLD_IMAGES", w.on.Now())
	if _, err := w.db.CreateTable(w.Context(), def); err != nil {
		w.Fatal(err)
	}
}

func (w *streamFixture) update(change func(*schema.Table)) {
	w.Helper()
	_, err := w.db.UpdateTable(w.Context(), "Orders", func(t *schema.Table) error { change(t); return nil })
	if err != nil {
		w.Fatal(err)
	}
}

func (w *streamFixture) disable() { w.update(func(t *schema.Table) { t.DisableStream(w.clock()) }) }

func (w *streamFixture) enable() {
	w.update(func(t *schema.Table) { t.EnableStream("KEYS_ONLY", w.clock()) })
}

// onlyStream returns the stream of the table, which must be the only one.
func (w *streamFixture) onlyStream() db.Stream {
	w.Helper()
	all := w.db.Streams("Orders")
	if len(all) != 1 {
		w.Fatalf("there are %d streams, want 1", len(all))
	}
	return all[0]
}

func (w *streamFixture) shards(s db.Stream) []stream.Shard {
	w.Helper()
	all, err := w.reader.Shards(w.Context(), s, "")
	if err != nil {
		w.Fatal(err)
	}
	return slices.Collect(all)
}

func key(id string) item.Item { return item.Make(map[string]item.Value{"id": item.String(id)}) }

func put(id, value string) db.Write {
	return db.Write{Table: "Orders", Key: key(id), Effect: db.Replace(key(id).With("v", item.String(value)))}
}

func remove(id string) db.Write { return db.Write{Table: "Orders", Key: key(id), Effect: db.Remove} }

func (w *streamFixture) write(writes ...db.Write) {
	w.Helper()
	if _, err := w.db.Write(w.Context(), writes...); err != nil {
		w.Fatal(err)
	}
}

// drain reads a shard from its oldest change to its end, or until a page is empty.
func (w *streamFixture) drain(s db.Stream, shard stream.Shard, limit int) (found []db.Change, ended bool) {
	w.Helper()
	for it := w.reader.AtOldest(shard); ; {
		page, err := w.reader.Read(w.Context(), s, it, limit)
		if err != nil {
			w.Fatal(err)
		}
		found = append(found, page.Changes...)
		if page.Ended || len(page.Changes) == 0 {
			return found, page.Ended
		}
		it = page.Next
	}
}

// changeTexts returns the changes of a stream as sorted texts.
func (w *streamFixture) changeTexts(s db.Stream) (texts []string) {
	w.Helper()
	for _, shard := range w.shards(s) {
		found, _ := w.drain(s, shard, 1000)
		for _, c := range found {
			id, _ := c.Image().Get("id")
			texts = append(texts, c.Kind()+" "+string(id.Bytes()))
		}
	}
	slices.Sort(texts)
	return texts
}

func (w *streamFixture) wantChanges(s db.Stream, want ...string) {
	w.Helper()
	if got := w.changeTexts(s); !slices.Equal(got, want) {
		w.Errorf("the stream has %q, want %q", got, want)
	}
}

func code(err error) string {
	var fault *apierror.Error
	if errors.As(err, &fault) {
		return fault.Code
	}
	return fmt.Sprint(err)
}

const roll = 4 * time.Hour

// A shard receives changes for four hours. Then it is closed and a child follows
// it, even without writes.
func TestShardsRoll(t *testing.T) {
	w := newFixture(t)
	s := w.onlyStream()
	first := w.shards(s)
	if len(first) != keyspace.Slots {
		t.Fatalf("there are %d shards, want %d", len(first), keyspace.Slots)
	}
	for _, shard := range first {
		if shard.Closed || shard.Parent != "" {
			t.Errorf("the first shard is %+v, want an open one without parent", shard)
		}
	}
	w.pass(roll - time.Millisecond)
	if got := w.shards(s); len(got) != keyspace.Slots {
		t.Errorf("before the roll there are %d shards, want %d", len(got), keyspace.Slots)
	}
	w.pass(time.Millisecond)
	got := w.shards(s)
	if len(got) != 2*keyspace.Slots {
		t.Fatalf("after the roll there are %d shards, want %d", len(got), 2*keyspace.Slots)
	}
	for i, parent := range got[:keyspace.Slots] {
		child := got[keyspace.Slots+i]
		if !parent.Closed || child.Closed || parent.ID != first[i].ID || child.Parent != parent.ID || child.From != parent.To {
			t.Errorf("%+v is not a valid child of %+v", child, parent)
		}
		if _, ended := w.drain(s, parent, 10); !ended {
			t.Errorf("the closed shard %s does not end", parent.ID)
		}
		if _, ended := w.drain(s, child, 10); ended {
			t.Errorf("the open shard %s ends", child.ID)
		}
	}
	if !slices.IsSortedFunc(got, func(a, b stream.Shard) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("the shards are not sorted by id")
	}
	for _, shard := range got {
		found, err := w.reader.Shard(t.Context(), s, shard.ID)
		if err != nil || found.ShardKey != shard.ShardKey {
			t.Errorf("Shard(%s) = %+v, %v", shard.ID, found, err)
		}
	}
	for _, id := range []string{"", "shardId-00000001794716084321-z0000000", got[0].ID[:36] + "9", strings.Replace(got[0].ID, "321-", "322-", 1)} {
		if _, err := w.reader.Shard(t.Context(), s, id); code(err) != "ResourceNotFoundException" {
			t.Errorf("Shard(%q): %v, want ResourceNotFoundException", id, err)
		}
	}
}

// The stream of a table with one partition has one shard at a time, which has the
// changes of all items in the order of their stamps. When the table gets more
// partitions, the shard is split.
func TestShardsFollowPartitions(t *testing.T) {
	w := newProvisioned(t)
	s := w.onlyStream()
	if n := len(w.shards(s)); n != 1 {
		t.Fatalf("there are %d shards, want 1", n)
	}
	const writes = 40
	for i := range writes {
		w.write(put(fmt.Sprint(i), "x"))
	}
	w.pass(roll)
	shards := w.shards(s)
	if len(shards) != 2 || shards[1].Parent != shards[0].ID {
		t.Fatalf("after the roll the shards are %+v, want a parent and its child", shards)
	}
	for _, limit := range []int{1, 7, 1000} {
		found, ended := w.drain(s, shards[0], limit)
		inOrder := slices.IsSortedFunc(found, func(a, b db.Change) int { return cmp.Compare(a.Stamp, b.Stamp) })
		if len(found) != writes || !ended || !inOrder {
			t.Errorf("with pages of %d there are %d changes, ended %t, in order %t", limit, len(found), ended, inOrder)
		}
	}
	w.update(func(t *schema.Table) { t.OnDemand = true })
	shards = w.shards(s)
	if len(shards) != 2+4 || !shards[1].Closed {
		t.Fatalf("after four partitions the shards are %+v", shards)
	}
	for _, shard := range shards[2:] {
		if shard.Parent != shards[1].ID || shard.Closed {
			t.Errorf("a part of the shard %s is %+v", shards[1].ID, shard)
		}
	}
}

// Each change is in the shard of its time, and in no other.
func TestChangesAreInTheShardOfTheirTime(t *testing.T) {
	w := newFixture(t)
	s := w.onlyStream()
	for i := range 12 {
		w.write(put(fmt.Sprint(i), "x"))
		w.pass(roll / 3)
	}
	count := 0
	for _, shard := range w.shards(s) {
		found, ended := w.drain(s, shard, 1)
		if count += len(found); ended != shard.Closed {
			t.Errorf("reading shard %s ends: %v, want %v", shard.ID, ended, shard.Closed)
		}
		for _, c := range found {
			if at := db.StampAt(c.At); at < shard.From && c.Stamp < shard.From || c.Stamp >= shard.To {
				t.Errorf("a change of %s is in shard %+v", c.At, shard)
			}
		}
	}
	if count != 12 {
		t.Errorf("%d changes were read, want 12", count)
	}
}

// After 24 hours changes can no longer be read, and the next trim removes them from
// the disk. A shard is removed with its last change.
func TestTrim(t *testing.T) {
	w := newFixture(t)
	s := w.onlyStream()
	w.write(put("old", "x"))
	w.pass(time.Hour)
	w.write(put("new", "x"))
	shards := w.shards(s)
	var old stream.Shard
	var number string
	for _, shard := range shards {
		for _, c := range func() []db.Change { found, _ := w.drain(s, shard, 9); return found }() {
			if id, _ := c.Image().Get("id"); string(id.Bytes()) == "old" {
				old, number = shard, stream.Position{Stamp: c.Stamp, N: c.N}.Sequence()
			}
		}
	}
	w.pass(23*time.Hour - time.Millisecond)
	w.wantChanges(s, "INSERT new", "INSERT old")
	kept, err := w.reader.AtSequence(old, number, false)
	if err != nil {
		t.Fatal(err)
	}
	oldest := w.reader.AtOldest(old)

	w.pass(2 * time.Millisecond)
	w.wantChanges(s, "INSERT new")
	if _, err := w.reader.AtSequence(old, number, true); code(err) != "TrimmedDataAccessException" {
		t.Errorf("AtSequence after a trimmed change: %v, want TrimmedDataAccessException", err)
	}
	if _, err := w.reader.Read(t.Context(), s, kept, 9); code(err) != "TrimmedDataAccessException" {
		t.Errorf("Read of a trimmed change: %v, want TrimmedDataAccessException", err)
	}
	if _, err := w.reader.Read(t.Context(), s, oldest, 9); err != nil {
		t.Errorf("Read of the oldest change: %v", err)
	}
	if err := w.db.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := w.db.Changes(t.Context(), db.ChangeRange{Table: s.Table.ID, Slot: old.Span, To: old.To})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range left {
		if id, _ := c.Image().Get("id"); string(id.Bytes()) == "old" {
			t.Error("a trimmed change is still stored")
		}
	}

	w.pass(roll)
	for _, shard := range w.shards(s) {
		if shard.Epoch == 0 || shard.Epoch == 1 && shard.Parent != "" {
			t.Errorf("after 28 hours there is the shard %+v", shard)
		}
	}
	if _, err := w.reader.Shard(t.Context(), s, old.ID); code(err) != "ResourceNotFoundException" {
		t.Errorf("Shard of a trimmed shard: %v, want ResourceNotFoundException", err)
	}
}

// An iterator is valid for 15 minutes. Each read returns a new one, which is not
// overtaken by the trim horizon while there are no changes.
func TestIteratorsExpire(t *testing.T) {
	w := newFixture(t)
	s := w.onlyStream()
	it := w.reader.AtLatest(w.shards(s)[0])
	next := it
	for range 30 * 4 {
		w.pass(15 * time.Minute)
		page, err := w.reader.Read(t.Context(), s, next, 9)
		if err != nil {
			t.Fatal(err)
		}
		if page.Ended {
			break // its shard is closed
		}
		next = page.Next
	}
	if _, err := w.reader.Read(t.Context(), s, it, 9); code(err) != "ExpiredIteratorException" {
		t.Errorf("Read at an old iterator: %v, want ExpiredIteratorException", err)
	}
}

// A disabled stream has closed shards and can be read for a day. Enabling streams
// again creates another stream.
func TestDisableAndEnable(t *testing.T) {
	w := newFixture(t)
	first := w.onlyStream()
	w.write(put("a", "1"))
	w.disable()
	w.write(put("b", "1"))
	w.enable() // within the same millisecond
	w.write(put("c", "1"))
	w.reopen()

	all := w.db.Streams("")
	if len(all) != 2 || all[0].Label != first.Label || all[1].Label == first.Label {
		t.Fatalf("the streams are %+v", all)
	}
	first, second := all[0], all[1]
	if first.Status != "DISABLED" || second.Status != "ENABLED" {
		t.Errorf("the streams are %s and %s, want DISABLED and ENABLED", first.Status, second.Status)
	}
	w.wantChanges(first, "INSERT a")
	w.wantChanges(second, "INSERT c")
	for _, shard := range w.shards(first) {
		if _, ended := w.drain(first, shard, 1); !ended || !shard.Closed {
			t.Errorf("shard %+v of a disabled stream does not end", shard)
		}
	}
	if err := w.db.SetPolicies(t.Context(), "Orders", func(map[string]schema.ResourcePolicy) (map[string]schema.ResourcePolicy, error) {
		return map[string]schema.ResourcePolicy{"": {Document: "table"}, first.Label: {Document: "first"}, second.Label: {Document: "second"}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	w.pass(24*time.Hour - time.Millisecond)
	w.wantChanges(first, "INSERT a")
	w.pass(time.Millisecond)
	if only := w.onlyStream(); only.Label != second.Label {
		t.Errorf("after a day the stream is %+v, want the second one", only)
	}
	if err := w.db.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := w.db.Describe("Orders")
	if err != nil || len(d.Streams) != 1 {
		t.Errorf("the table has %d streams, %v, want 1", len(d.Streams), err)
	}
	if len(d.Policies) != 2 || d.Policies[""].Document != "table" || d.Policies[second.Label].Document != "second" {
		t.Errorf("the policies are %v, want those of the table and of the second stream", d.Policies)
	}
}

// The streams of a deleted table can be read for a day, even if there is a new table
// of that name. Then nothing of them is left.
func TestStreamsOfADeletedTable(t *testing.T) {
	w := newFixture(t)
	w.write(put("a", "1"))
	w.pass(time.Minute)
	if _, err := w.db.DeleteTable(t.Context(), "Orders"); err != nil {
		t.Fatal(err)
	}
	w.create()
	w.write(put("b", "1"))
	w.reopen()
	all := w.db.Streams("Orders")
	if len(all) != 2 {
		t.Fatalf("the streams are %+v", all)
	}
	w.wantChanges(all[0], "INSERT a")
	w.wantChanges(all[1], "INSERT b")

	w.pass(24 * time.Hour)
	if err := w.db.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if only := w.onlyStream(); only.Label != all[1].Label {
		t.Errorf("after a day the stream is %+v, want that of the new table", only)
	}
	snap, err := w.engine.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	if left, err := snap.Get(t.Context(), keyspace.DroppedStreams(all[0].Table.ID)); err != nil || left[0] != nil {
		t.Errorf("the record of the deleted table is %q, %v, want none", left, err)
	}
	w.reopen()
	w.onlyStream()
}

// An iterator of any content gives access to nothing but its stream.
func TestIteratorsAreChecked(t *testing.T) {
	w := newFixture(t)
	s := w.onlyStream()
	w.write(put("a", "1"))
	shard := w.shards(s)[0]
	good := w.reader.AtOldest(shard)
	text := good.Encode("arn")
	if again, err := stream.DecodeIterator("arn", text); err != nil || again != good {
		t.Errorf("%+v is decoded as %+v, %v", good, again, err)
	}
	for _, c := range []struct{ name, arn, text string }{
		{"of another stream", "arn2", text},
		{"truncated", "arn", text[:len(text)-1]},
		{"too long", "arn", text + "A"},
		{"changed", "arn", "B" + text[1:]},
		{"not base64", "arn", "!" + text[1:]},
		{"empty", "arn", ""},
	} {
		if _, err := stream.DecodeIterator(c.arn, c.text); code(err) != "ValidationException" {
			t.Errorf("%s: %v, want ValidationException", c.name, err)
		}
	}
	for name, change := range map[string]func(*stream.Iterator){
		"a span that does not exist":  func(it *stream.Iterator) { it.Shard.Span = keyspace.Slots },
		"an epoch in the future":      func(it *stream.Iterator) { it.Shard.Epoch = 1 },
		"the last epoch":              func(it *stream.Iterator) { it.Shard.Epoch = 1<<28 - 1 },
		"a position before the shard": func(it *stream.Iterator) { it.At.Stamp = s.Start - 1 },
		"a position after the shard":  func(it *stream.Iterator) { it.At.Stamp = shard.To + 1 },
		"made in the distant future":  func(it *stream.Iterator) { it.Made = it.Made.Add(time.Hour) },
	} {
		it := good
		change(&it)
		if _, err := w.reader.Read(t.Context(), s, it, 9); code(err) != "ValidationException" {
			t.Errorf("%s: %v, want ValidationException", name, err)
		}
	}
}

func FuzzDecodeIterator(f *testing.F) {
	f.Add("arn", stream.Iterator{Made: time.UnixMilli(1)}.Encode("arn"))
	f.Fuzz(func(t *testing.T, arn, text string) {
		it, err := stream.DecodeIterator(arn, text)
		if err == nil && it.Encode(arn) != text {
			t.Errorf("%q is decoded as %+v, which is encoded as %q", text, it, it.Encode(arn))
		}
	})
}

// Sequence numbers sort like their positions, and have DynamoDB's form.
func TestSequenceNumbers(t *testing.T) {
	at := db.StampAt(time.UnixMilli(1_794_716_084_321))
	sorted := []stream.Position{{Stamp: 1, N: 0}, {Stamp: at, N: 0}, {Stamp: at, N: 99}, {Stamp: at + 1, N: 0}, {Stamp: at + 1, N: 999}, {Stamp: 2 * at, N: 5}}
	for i, p := range sorted {
		text := p.Sequence()
		if back, ok := stream.ParseSequence(text); len(text) != 21 || !ok || back != p {
			t.Errorf("%+v has the sequence number %s, which is parsed as %+v, %v", p, text, back, ok)
		}
		if i > 0 && sorted[i-1].Sequence() >= text {
			t.Errorf("%s does not sort after %s", text, sorted[i-1].Sequence())
		}
	}
	for _, text := range []string{"", "1", "00000000000000000000x", "-00000000000000000001", "000000000000000000+01", "0000000000000000000001"} {
		if p, ok := stream.ParseSequence(text); ok {
			t.Errorf("ParseSequence(%q) = %+v, want not ok", text, p)
		}
	}
}

// A write that changes nothing adds no record. A transaction adds one for each
// change.
func TestOnlyChangesAreRecorded(t *testing.T) {
	w := newFixture(t)
	s := w.onlyStream()
	w.write(put("a", "1"))
	w.write(put("a", "1"))
	w.write(remove("nothing"))
	if _, err := w.db.Transact(t.Context(), nil, put("a", "2"), put("b", "1"), put("c", "1")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.Transact(t.Context(), nil, remove("b"), put("a", "2"), remove("nothing")); err != nil {
		t.Fatal(err)
	}
	failing := put("c", "2")
	failing.If = func(item.Item) bool { return false }
	if _, err := w.db.Transact(t.Context(), nil, put("a", "3"), failing); err == nil {
		t.Error("a transaction with a failing condition was committed")
	}
	w.wantChanges(s, "INSERT a", "INSERT b", "INSERT c", "MODIFY a", "REMOVE b")
}

// A step of the wall clock that persists, in either direction, invalidates neither an
// iterator nor a change: sequence numbers grow, and the trim horizon follows the clock
// only when it is trusted.
func TestStepsOfTheClock(t *testing.T) {
	for _, step := range []time.Duration{20 * time.Hour, -2 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			s := clocktest.New()
			c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
			w := newFixtureOn(t, c)
			of := w.onlyStream()
			passing := func(d time.Duration) {
				for range d / time.Second {
					s.Pass(time.Second)
					c.Now()
				}
			}
			w.write(put("a", "1"))
			old := w.reader.AtOldest(w.shardOf(of, "a"))
			s.Step(step)
			passing(16 * time.Minute)
			if _, err := w.reader.Read(t.Context(), of, old, 9); code(err) != "ExpiredIteratorException" {
				t.Errorf("an iterator that is 16 minutes old: %v", err)
			}
			w.write(put("a", "2"))
			recent := w.reader.AtOldest(w.shardOf(of, "a"))
			if c.Accept(); c.LastStep() == nil { // the database may have accepted it
				t.Fatal("the step was not accepted")
			}
			w.write(put("a", "3"))
			page, err := w.reader.Read(t.Context(), of, recent, 9)
			if err != nil || len(page.Changes) < 2 {
				t.Fatalf("after the step an iterator reads %d changes, %v", len(page.Changes), err)
			}
			w.wantChanges(of, "INSERT a", "MODIFY a", "MODIFY a")
			if !c.Now().Equal(s.Now()) {
				t.Errorf("the clock is off by %v", c.Now().Sub(s.Now()))
			}
			passing(16 * time.Minute)
			if _, err := w.reader.Read(t.Context(), of, recent, 9); code(err) != "ExpiredIteratorException" {
				t.Errorf("16 minutes after the step: %v, want ExpiredIteratorException", err)
			}
		})
	}
}

// While the wall clock is stepped, no change is out of the stream's reach. The control
// is a clock that is not checked.
func TestShortStepTrimsNothing(t *testing.T) {
	for _, checked := range []bool{true, false} {
		s := clocktest.New()
		c := clock.Given(s.Now)
		if checked {
			c = clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
		}
		w := newFixtureOn(t, c)
		of := w.onlyStream()
		w.write(put("a", "1"))
		s.Pass(time.Second)
		s.Step(26 * time.Hour)
		if got := len(w.changeTexts(of)); (got == 1) != checked {
			t.Errorf("checked %v: the stream has %d changes", checked, got)
		}
	}
}

// shardOf returns the newest shard that has a change of an item.
func (w *streamFixture) shardOf(s db.Stream, id string) (found stream.Shard) {
	w.Helper()
	for _, shard := range w.shards(s) {
		if shard.Span == keyspace.Slot(keyspace.Item(nil, s.Table, key(id))) {
			found = shard
		}
	}
	return found
}

// An iterator of a server whose shared clock is slightly ahead can be used through
// another server. The control is a clock that is not shared.
func TestIteratorOfAServerAhead(t *testing.T) {
	for _, shared := range []bool{true, false} {
		s := clocktest.New()
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed, Shared: shared})
		w := newFixtureOn(t, c)
		of := w.onlyStream()
		w.write(put("a", "1"))
		for range 1200 { // the server runs for a while
			s.Pass(time.Second)
			c.Now()
		}
		it := w.reader.AtOldest(w.shardOf(of, "a"))
		it.Made = it.Made.Add(50 * time.Millisecond)
		if _, err := w.reader.Read(t.Context(), of, it, 9); (err == nil) != shared {
			t.Errorf("shared %v: the iterator of another server: %v", shared, err)
		}
		it.Made = it.Made.Add(-16 * time.Minute)
		if _, err := w.reader.Read(t.Context(), of, it, 9); code(err) != "ExpiredIteratorException" {
			t.Errorf("shared %v: an iterator that is 16 minutes old: %v", shared, err)
		}
	}
}

// After a start with a clock that is two days ahead, changes can be read, also those of
// a stream that has ended, until the clock is trusted. If it is corrected before, they
// can be read all the time.
func TestStartWithAClockAhead(t *testing.T) {
	for _, corrected := range []bool{true, false} {
		s := clocktest.New()
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
		w := newFixtureOn(t, c)
		of := w.onlyStream()
		w.write(put("a", "1"))
		s.Pass(time.Second)
		at := w.reader.AtOldest(w.shardOf(of, "a"))
		at.Oldest = false
		w.update(func(t *schema.Table) { t.DisableStream(w.on.Now()) })
		s.Step(48 * time.Hour)
		w.on = clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
		w.reopen()
		check := func(when string, want bool) {
			t.Helper()
			at.Made = w.on.Now()
			page, err := w.reader.Read(t.Context(), of, at, 9)
			if streams := len(w.db.Streams("Orders")); (streams == 1) != want || (len(page.Changes) == 1) != want {
				t.Errorf("corrected %v: %s: %d streams and %d changes can be read: %v", corrected, when, streams, len(page.Changes), err)
			}
		}
		check("after the start", true)
		if corrected {
			s.Step(-48 * time.Hour)
		}
		for range 14 * 60 {
			s.Pass(time.Second)
			w.on.Now()
		}
		check("before the clock is trusted", true)
		for range 5 * 60 {
			s.Pass(time.Second)
			w.on.Accept()
		}
		check("when the clock is trusted", corrected)
	}
}
