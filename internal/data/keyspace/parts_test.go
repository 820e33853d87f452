package keyspace

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// TableOf tells the keys of a table from others, and from keys of a wrong length.
func TestTableOf(t *testing.T) {
	own := Item(nil, table(0), keyed(item.String("p"), nil))
	of := map[string][]byte{
		"item": own, "collection": Collection(table(0), keyed(item.String("p"), nil)), "build": Build(7, 1), "dropped": Dropped(7),
		"dropped streams": DroppedStreams(7), "count": ItemCount(7), "change": Change(7, 1, 2, 3), "expiry": Expiry(7, 1, own),
	}
	for name, key := range of {
		if id, ok := TableOf(key); id != 7 || !ok {
			t.Errorf("TableOf the key of %s = %d, %v", name, id, ok)
		}
		if _, ok := TableOf(key[:4]); ok {
			t.Errorf("TableOf takes 4 bytes for the key of %s", name)
		}
		if end := PartEnd(key); bytes.Compare(key, end) >= 0 {
			t.Errorf("the part of %s ends at %x, before %x", name, end, key)
		}
		if strings.IndexByte(kinds, key[0]) < 0 {
			t.Errorf("the kind of %s is not listed", name)
		}
	}
	for name, key := range map[string][]byte{"catalog": Catalog("Orders"), "meta": Meta("name"), "job": Job("job1"), "dax": DAX(), "scaling": Scaling("table/Orders", "dynamodb:table:ReadCapacityUnits"), "token": Token(make([]byte, 32)), "due": TokenDue(time.Now(), make([]byte, 32)),
		"long count": append(ItemCount(7), 1), "short change": Change(7, 1, 2, 3)[:15], "unknown": []byte("?12345678")} {
		if _, ok := TableOf(key); ok {
			t.Errorf("TableOf takes the key of %s for that of a table", name)
		}
	}
}

// Parts follow each other from the first key to the last.
func TestPartEnd(t *testing.T) {
	var at []byte
	for range len(kinds) + 1 {
		if at = PartEnd(at); at == nil {
			t.Fatal("the parts end too early")
		}
		if at[0] == KindDue+1 {
			return
		}
		if at = []byte{at[0]}; strings.IndexByte("ilsx", at[0]) >= 0 {
			at = append(at, bytes.Repeat([]byte{0xff}, 6)...) // the last part of the kind
		}
	}
	if end := PartEnd([]byte{KindExpiry, 0xff, 0xff, 0xff, 0xff}); !bytes.Equal(end, []byte{KindExpiry + 1}) {
		t.Errorf("the last part ends at %x", end)
	}
	if end := PartEnd([]byte{0xfe}); end != nil {
		t.Errorf("after the last kind follows %x", end)
	}
}

// A part ends where the keys of another index, slot, table or kind begin.
func TestPartEndsAtTheNextPart(t *testing.T) {
	own := Item(nil, table(0), keyed(item.String("p"), nil)) // of table 7
	collection := Collection(table(0), keyed(item.String("p"), nil))
	for name, c := range map[string]struct{ key, end []byte }{
		"items":       {own, []byte{KindItem, 0, 0, 0, 7, 0, 1}},
		"changes":     {Change(7, 1, 2, 3), append(bytes.Clone(Change(7, 1, 2, 3)[:5]), Change(7, 1, 2, 3)[5]+1)},
		"collections": {collection, []byte{KindSize, 0, 0, 0, 8}},
		"expiry":      {Expiry(7, 1, own), []byte{KindExpiry, 0, 0, 0, 8}},
		"catalog":     {Catalog("Orders"), []byte{KindCatalog + 1}},
	} {
		if end := PartEnd(c.key); !bytes.Equal(end, c.end) {
			t.Errorf("the part of %s ends at %x, want %x", name, end, c.end)
		}
	}
}

// The keys of a partition share their first PartitionBytes bytes, and no others do.
func TestPartitionBytes(t *testing.T) {
	key := func(p, s string) []byte { return Item(nil, table(item.S), keyed(item.String(p), item.String(s))) }
	begin := func(p, s string) string { return string(key(p, s)[:PartitionBytes]) }
	if rest := key("p", "a")[PartitionBytes:]; !bytes.HasPrefix(rest, []byte{0, 1, 'p'}) {
		t.Errorf("after the hash follows %x, want the length and the bytes of the partition", rest)
	}
	if begin("p", "a") != begin("p", "b") {
		t.Error("the keys of one partition begin differently")
	}
	if begin("p", "a") == begin("q", "a") {
		t.Error("the keys of two partitions begin with the same bytes")
	}
}

// A key is taken for one of its kind only if it has the length of one.
func TestShortKeysAreNone(t *testing.T) {
	shortest := append([]byte{KindExpiry, 0, 0, 0, 7}, make([]byte, 8+1+4+2+len(noHash))...)
	if _, ok := TableOf(shortest); ok {
		t.Error("an expiry entry without a partition is taken for one")
	}
	if _, ok := TableOf(append(shortest, 1)); !ok {
		t.Error("an expiry entry with a partition of one byte is not taken for one")
	}
	digest := make([]byte, 32)
	for name, key := range map[string][]byte{"token": Token(digest), "due": TokenDue(time.Now(), digest)} {
		if !IsToken(key) || IsToken(key[:len(key)-1]) || IsToken(append(bytes.Clone(key), 0)) {
			t.Errorf("the length of the key of a %s does not decide", name)
		}
	}
	if IsToken(Meta("name")) {
		t.Error("another kind is taken for a token")
	}
}

// An item's own key of up to longOwn bytes ends the key of an entry as it is, however long
// the key of the index is.
func TestOwnKeyEndsTheEntry(t *testing.T) {
	x := &schema.Index{ID: 1, Key: schema.Key{Partition: []schema.Attribute{attribute("x", item.S)}}}
	of := func(own int) []byte {
		it := keyed(item.String(strings.Repeat("p", own)), nil).With("x", item.String(strings.Repeat("x", 100)))
		return Entry(nil, table(0), x, it)
	}
	for own, whole := range map[int]bool{1: true, 100: true, 200: false} {
		if bytes.HasSuffix(of(own), bytes.Repeat([]byte("p"), own)) != whole {
			t.Errorf("an own key of %d bytes ends the entry as it is: %v, want %v", own, !whole, whole)
		}
	}
}
