package keyspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// attribute is a key attribute.
func attribute(name string, t item.Type) schema.Attribute {
	return schema.Attribute{Name: name, Type: t}
}

// table has the partition key p and a sort key s of a type; 0 for no sort
// key.
func table(sort item.Type) *schema.Table {
	t := &schema.Table{ID: 7, Key: schema.Key{Partition: []schema.Attribute{attribute("p", item.S)}}}
	if sort != 0 {
		t.Key.Sort = []schema.Attribute{attribute("s", sort)}
	}
	return t
}

func num(t interface{ Fatal(...any) }, text string) item.Value {
	n, err := item.ParseNumber(text)
	if err != nil {
		t.Fatal(err)
	}
	return item.Num(n)
}

// keyed is an item with a key; s may be nil.
func keyed(p, s item.Value) item.Item {
	it := item.Make(map[string]item.Value{"p": p})
	if s != nil {
		it = it.With("s", s)
	}
	return it
}

// within reports whether a key is in a span.
func within(key, start, end []byte) bool {
	return bytes.Compare(key, start) >= 0 && (end == nil || bytes.Compare(key, end) < 0)
}

// Within a partition, keys sort as the strings and binaries they stand for.
func FuzzTextOrder(f *testing.F) {
	for _, c := range [][2]string{{"a", "a\x00"}, {"", "\x00"}, {"\x00", "\x00\x00"}, {"\x00\xff", "\x00\x01"}, {"a\xff", "b"}, {"\x01", "\x00\xff\xff"}} {
		f.Add([]byte(c[0]), []byte(c[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		want := bytes.Compare(a, b)
		p := item.String("p")
		x := Item(nil, table(item.B), keyed(p, item.Binary(a)))
		y := Item(nil, table(item.B), keyed(p, item.Binary(b)))
		if got := bytes.Compare(x, y); got != want {
			t.Errorf("the binaries %x and %x compare as %d, want %d", a, b, got, want)
		}
		if want != 0 && (bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x)) {
			t.Errorf("the key of one of %x and %x begins with that of the other", a, b)
		}
		x = Item(nil, table(item.S), keyed(p, item.String(string(a))))
		y = Item(nil, table(item.S), keyed(p, item.String(string(b))))
		if got := bytes.Compare(x, y); got != want {
			t.Errorf("the strings %q and %q compare as %d, want %d", a, b, got, want)
		}
	})
}

// randomSort draws a value for a sort key, mostly one that is close to others.
func randomSort(t *rapid.T, of item.Type) item.Value {
	switch of {
	case item.N:
		digits := rapid.SampledFrom([]string{"0", "1", "-1", "10", "-10", "1.5", "-1.5", "99", "100", "1e-130", "-1e125", "101", "1.01"}).Draw(t, "number")
		return num(t, digits)
	case item.S:
		return item.String(rapid.StringOfN(rapid.SampledFrom([]rune("\x00\x01ab\U0010ffff")), 1, 4, -1).Draw(t, "text"))
	}
	return item.Binary(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 0xfe, 0xff}), 1, 4).Draw(t, "bytes"))
}

// Within a partition, keys sort as the numbers they stand for.
func TestNumberOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := randomSort(t, item.N), randomSort(t, item.N)
		x, y := Item(nil, table(item.N), keyed(item.String("p"), a)), Item(nil, table(item.N), keyed(item.String("p"), b))
		if got, want := bytes.Compare(x, y), a.Number().Cmp(b.Number()); got != want {
			t.Errorf("%v and %v compare as %d, want %d", a, b, got, want)
		}
	})
}

// All keys of a partition begin with its prefix, and no other keys do.
func TestPartition(t *testing.T) {
	values := []item.Value{item.String("a"), item.String("b"), item.String("a\x00"), item.String("\x00"),
		item.String(strings.Repeat("x", 1024)), item.String(strings.Repeat("x", 1025)), item.String(strings.Repeat("x", 2048))}
	for i, p := range values {
		prefix := Partition(nil, 7, 0, []item.Value{p})
		for j, q := range values {
			key := Item(nil, table(item.S), keyed(q, item.String("s")))
			if got := bytes.HasPrefix(key, prefix); got != (i == j) {
				t.Errorf("partitions %d and %d: the key begins with the partition is %v", i, j, got)
			}
			if got := bytes.Equal(key[:PartitionBytes], prefix[:PartitionBytes]); got != (i == j) {
				t.Errorf("partitions %d and %d: the first %d bytes are the same is %v", i, j, PartitionBytes, got)
			}
		}
	}
}

// Attributes of a partition are delimited.
func TestPartitionOfSeveralAttributes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "attributes")
		draw := func(label string) []item.Value {
			values := make([]item.Value, n)
			for i := range values {
				values[i] = item.Binary(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 3}), 1, 3).Draw(t, label))
			}
			return values
		}
		a, b := draw("a"), draw("b")
		same := slices.EqualFunc(a, b, item.Equal)
		if got := bytes.Equal(Partition(nil, 1, 1, a), Partition(nil, 1, 1, b)); got != same {
			t.Errorf("the partitions of %v and %v are one: %v", a, b, got)
		}
	})
}

// Each key lies in exactly one segment.
func TestSegments(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	keys := [][]byte{
		appendSpace(nil, 7, 3), // the first possible key
		append(appendSpace(nil, 7, 3), bytes.Repeat([]byte{0xff}, 20)...), // and the last
	}
	for range 200 {
		keys = append(keys, binary.BigEndian.AppendUint64(appendSpace(nil, 7, 3), r.Uint64()))
	}
	totals := []int{1, 2, 3, 4, 5, 7, 10, 16, 100, 999, 1000, 4096, 65536, 999_999, 1_000_000}
	for _, total := range totals {
		first, _ := Segment(7, 3, 0, total)
		_, last := Segment(7, 3, total-1, total)
		start, end := IndexSpan(7, 3)
		if !bytes.Equal(first, start) || !bytes.Equal(last, end) {
			t.Errorf("%d segments go from %x to %x, want %x to %x", total, first, last, start, end)
		}
		step := max(1, total/1000)
		for s := 0; s+1 < total; s += step {
			from, to := Segment(7, 3, s, total)
			next, _ := Segment(7, 3, s+1, total)
			if !bytes.Equal(to, next) || bytes.Compare(from, to) >= 0 {
				t.Fatalf("segment %d of %d is %x to %x, the next begins at %x", s, total, from, to, next)
			}
		}
		for _, key := range keys {
			s := searchSegment(key, total)
			if from, to := Segment(7, 3, s, total); !within(key, from, to) {
				t.Errorf("%x is not in segment %d of %d", key, s, total)
			}
		}
	}
}

// searchSegment finds the last segment that does not begin after a key;
// segments are in order.
func searchSegment(key []byte, total int) int {
	low, high := 0, total-1
	for low < high {
		middle := (low + high + 1) / 2
		if start, _ := Segment(7, 3, middle, total); bytes.Compare(start, key) <= 0 {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// Segments hold about the same number of items.
func TestSegmentsAreEqual(t *testing.T) {
	const total, items = 8, 8000
	var counts [total]int
	for i := range items {
		key := Item(nil, table(0), keyed(item.String(fmt.Sprint("customer-", i)), nil))
		for s := range total {
			if start, end := Segment(7, 0, s, total); within(key, start, end) {
				counts[s]++
			}
		}
	}
	sum := 0
	for _, n := range counts {
		sum += n
		if n < items/total*8/10 || n > items/total*12/10 {
			t.Errorf("the segments hold %v", counts)
		}
	}
	if sum != items {
		t.Errorf("the segments hold %d items, want %d", sum, items)
	}
}

// A table's span holds its items and entries, an index's span its own.
func TestSpans(t *testing.T) {
	type place struct {
		table uint32
		index uint16
	}
	var places []place
	for _, id := range []uint32{0, 1, 2, 255, 256, 1<<32 - 1} {
		for _, index := range []uint16{0, 1, 2, 255, 256, 1<<16 - 1} {
			places = append(places, place{id, index})
		}
	}
	others := [][]byte{Meta("x"), Catalog("Orders"), Dropped(1), ItemCount(1), Meta(""), Catalog("")}
	for _, p := range places {
		start, end := IndexSpan(p.table, p.index)
		first, last := TableSpan(p.table)
		for _, q := range places {
			key := append(Partition(nil, q.table, q.index, []item.Value{item.String("\xff\xff")}), 0xff, 0xff)
			if got := within(key, start, end); got != (p == q) {
				t.Errorf("%v lies in the span of index %v: %v", q, p, got)
			}
			if got := within(key, first, last); got != (p.table == q.table) {
				t.Errorf("%v lies in the span of table %v: %v", q, p, got)
			}
		}
		for _, key := range others {
			if within(key, first, last) || within(key, start, end) {
				t.Errorf("%q lies in the span of %v", key, p)
			}
		}
	}
	for _, c := range []struct {
		name       string
		start, end []byte
		of         func(key []byte) bool
	}{
		{"catalog", first(CatalogSpan()), second(CatalogSpan()), func(key []byte) bool { return key[0] == KindCatalog }},
		{"dropped", first(DroppedSpan()), second(DroppedSpan()), func(key []byte) bool { return key[0] == KindDropped }},
	} {
		for _, key := range append(others, Item(nil, table(0), keyed(item.String("c"), nil)), Catalog("zzz\xff"), Dropped(1<<32-1)) {
			if got := within(key, c.start, c.end); got != c.of(key) {
				t.Errorf("%q lies in the span of %s: %v", key, c.name, got)
			}
		}
	}
	if got := DroppedTable(Dropped(0x01020304)); got != 0x01020304 {
		t.Errorf("the marker is for table %x", got)
	}
}

// The keys of a table's records are disjoint from those of other tables and
// from each other.
func TestRecordsAreDisjoint(t *testing.T) {
	it := keyed(item.String("\xff"), nil)
	spans := map[string]func(table uint32) (start, end []byte){"items": TableSpan, "builds": BuildSpan, "collections": CollectionSpan}
	keys := func(id uint32) map[string][]byte {
		table := table(0)
		table.ID = id
		return map[string][]byte{
			"items": Item(nil, table, it), "builds": Build(id, 1<<16-1), "collections": Collection(table, it),
			"dropped": Dropped(id), "item count": ItemCount(id), "token": Token(Item(nil, table, it)[1:]),
		}
	}
	ids := []uint32{0, 1, 255, 256, 1<<32 - 1}
	for _, id := range ids {
		for what, span := range spans {
			start, end := span(id)
			for _, other := range ids {
				for of, key := range keys(other) {
					if got := within(key, start, end); got != (id == other && what == of) {
						t.Errorf("%s of table %d lie in the %s of table %d: %v", of, other, what, id, got)
					}
				}
			}
		}
	}
}

// The entries of tokens are in order of the time at which they are due.
func TestTokensDue(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	start, end := TokensDue(at)
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{-time.Hour, true}, {-time.Millisecond, true}, {0, false}, {time.Millisecond, false}} {
		note := TokenDue(at.Add(c.after), []byte("\xff\xff"))
		if got := within(note, start, end); got != c.want {
			t.Errorf("an entry of %v later is due: %v", c.after, got)
		}
		if got := string(DueToken(note)); got != "\xff\xff" {
			t.Errorf("the entry is for %q", got)
		}
	}
}

func first(start, _ []byte) []byte { return start }
func second(_, end []byte) []byte  { return end }

// No key is longer than MaxBytes, and its length does not depend on hidden
// data.
func TestNoKeyIsTooLong(t *testing.T) {
	zeros := func(n int) item.Value { return item.Binary(make([]byte, n)) }
	long := &schema.Table{ID: 1<<32 - 1, Key: schema.Key{
		Partition: []schema.Attribute{attribute("p", item.B)}, Sort: []schema.Attribute{attribute("s", item.B)},
	}}
	four := func(prefix string) (attrs []schema.Attribute) {
		for i := range 4 {
			attrs = append(attrs, attribute(prefix+fmt.Sprint(i), item.B))
		}
		return attrs
	}
	for _, c := range []struct {
		name              string
		partition, sort   int // bytes of the table's key
		xPartition, xSort int // bytes of the index key, in four equal attributes
	}{
		{"the longest keys", 2048, 1024, 2048, 1024},
		{"the longest partition that is not replaced", 1024, 1024, 1024, 1024},
		{"the shortest partition that is replaced", 1025, 1024, 1028, 1024},
		{"the longest own key that is not replaced", 61, 31, 1020, 1024},
	} {
		t.Run(c.name, func(t *testing.T) {
			it := keyed(zeros(c.partition), zeros(c.sort))
			x := &schema.Index{ID: 1<<16 - 1, Key: schema.Key{Partition: four("xp"), Sort: four("xs")}}
			for i := range 4 {
				it = it.With(fmt.Sprint("xp", i), zeros(c.xPartition/4)).With(fmt.Sprint("xs", i), zeros(c.xSort/4))
			}
			if err := long.CheckItem(it); err != nil {
				t.Fatal(err)
			}
			if n := len(Item(nil, long, it)); n > MaxBytes {
				t.Errorf("the item's key has %d bytes", n)
			}
			if n := len(Entry(nil, long, x, it)); n > MaxBytes {
				t.Errorf("the entry's key has %d bytes", n)
			}
		})
	}
}

// Two items never share an entry, and an entry's key begins with its index
// and partition.
func TestEntriesAreDistinct(t *testing.T) {
	x := &schema.Index{ID: 1, Key: schema.Key{Partition: []schema.Attribute{attribute("x", item.S)}, Sort: []schema.Attribute{attribute("y", item.B)}}}
	b := table(item.B)
	b.Key.Partition[0].Type = item.B
	rapid.Check(t, func(t *rapid.T) {
		draw := func() item.Item {
			repeat := rapid.SampledFrom([]int{1, 1, 30, 60, 200}).Draw(t, "repeat")
			p := item.Binary(bytes.Repeat(randomSort(t, item.B).Bytes(), repeat))
			return keyed(p, randomSort(t, item.B)).
				With("x", item.String(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "x"))).
				With("y", randomSort(t, item.B))
		}
		a, c := draw(), draw()
		one := bytes.Equal(Entry(nil, b, x, a), Entry(nil, b, x, c))
		if same := a.Equal(c); one != same {
			t.Errorf("%v and %v have one entry: %v", item.Map(a), item.Map(c), one)
		}
	})
}

// No short key equals the digest of a long one, even if an attacker searches
// for it.
func TestNoKeyImitatesADigest(t *testing.T) {
	b := table(0)
	b.Key.Partition[0].Type = item.B
	x := &schema.Index{ID: 1, Key: schema.Key{Partition: []schema.Attribute{attribute("x", item.S)}}}
	for i := range 100_000 {
		long := binary.BigEndian.AppendUint64(make([]byte, longOwn), uint64(i))
		own := append(binary.AppendUvarint(nil, uint64(len(long))), long...)
		digest := sha256.Sum256(own)
		if digest[0] != 31 {
			continue // not the length of the bytes after it
		}
		with := func(p []byte) item.Item { return keyed(item.Binary(p), nil).With("x", item.String("x")) }
		if bytes.Equal(Entry(nil, b, x, with(long)), Entry(nil, b, x, with(digest[1:]))) {
			t.Errorf("the items with the keys %x and %x have one entry", long, digest[1:])
		}
		return
	}
	t.Error("no digest begins with its length")
}

// Functions append keys to dst.
func TestKeysAreAppended(t *testing.T) {
	it := keyed(item.String(strings.Repeat("p", 2000)), item.String("s")).With("x", item.String(strings.Repeat("x", 2000)))
	x := &schema.Index{ID: 1, Key: schema.Key{Partition: []schema.Attribute{attribute("x", item.S)}}}
	for name, key := range map[string]func(dst []byte) []byte{
		"Item":      func(dst []byte) []byte { return Item(dst, table(item.S), it) },
		"Entry":     func(dst []byte) []byte { return Entry(dst, table(item.S), x, it) },
		"Partition": func(dst []byte) []byte { return Partition(dst, 1, 1, []item.Value{item.String("p")}) },
	} {
		if got, want := key([]byte("before")), "before"+string(key(nil)); string(got) != want {
			t.Errorf("%s appends %x, want %x", name, got, want)
		}
	}
}

// Making the key of an item that lacks its key attributes is a bug of ours.
func TestMissingKeyPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a key was made from no attributes")
		}
	}()
	Item(nil, table(item.S), item.Make(nil))
}
