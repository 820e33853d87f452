// Package keyspace defines the keys of everything that is stored: keys that
// sort like the values they stand for.
//
// The layout is described in docs/formats/keys.md. The key of an item is
//
//	'i' table index hash(partition) partition sort
//
// so that a scan is in hash order, parallel segments are equal spans of the
// hash, and a distributed engine has no hot spot at the end. No key is longer
// than MaxBytes, whatever the customer's keys are.
package keyspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// MaxBytes is the longest key that this package makes.
const MaxBytes = 4096

// PartitionBytes is how many bytes at the beginning of a key are the same for
// all items of a partition and, up to hash collisions, differ from those of
// other partitions.
const PartitionBytes = 1 + 4 + 2 + 8

// The kinds of keys. The first byte of a key is its kind.
const (
	KindScaling        = 'a' // the settings of auto scaling, by resource and dimension
	KindBuild          = 'b' // the progress of an index build
	KindCatalog        = 'c' // a table's description, by name
	KindDropped        = 'd' // a table whose items are still to be removed, by id
	KindDAX            = 'e' // the clusters of DAX that customers describe
	KindDroppedStreams = 'g' // a dropped table whose streams can still be read, by id
	KindItem           = 'i' // items and index entries
	KindJob            = 'j' // the record of a long-running job, by id
	KindMeta           = 'm' // the database's own records
	KindItemCount      = 'n' // how many items a table has, by id
	KindChange         = 'l' // change records, by table, slot and stamp
	KindExpiry         = 'x' // when items expire, by table and second
	KindSize           = 's' // the size of an item collection, by table and partition
	KindToken          = 't' // the record of a transaction's token
	KindDue            = 'u' // when a token expires
)

// TableOf returns the id of the table that a key belongs to. It is not ok for a
// key of a kind that belongs to no table, and for one whose length no key of its
// kind has.
func TableOf(key []byte) (table uint32, ok bool) {
	if table, ok = TablePrefix(key); !ok {
		return 0, false
	}
	n := len(key) - (1 + 4)
	switch key[0] {
	case KindDropped, KindDroppedStreams, KindItemCount:
		ok = n == 0
	case KindBuild:
		ok = n == 2
	case KindChange:
		ok = n == 1+8+2
	case KindItem:
		ok = n > 2+len(noHash)
	case KindSize:
		ok = n > len(noHash)
	case KindExpiry:
		ok = n > 8+1+4+2+len(noHash) // it ends with the key of an item
	}
	return table, ok
}

// TablePrefix returns the id of the table that a key belongs to, given a key of a
// table or a beginning of one that has the id.
func TablePrefix(key []byte) (table uint32, ok bool) {
	if len(key) < 1+4 || strings.IndexByte("bdgilnsx", key[0]) < 0 {
		return 0, false
	}
	return binary.BigEndian.Uint32(key[1:]), true
}

// IndexOf returns the index that the key of an entry belongs to, or of a build;
// 0 is the table.
func IndexOf(key []byte) uint16 { return binary.BigEndian.Uint16(key[1+4:]) }

// kinds holds all kinds, in order.
const kinds = "abcdegijlmnstux"

// PartEnd is the end of the keys that are stored together with a key: those of
// one index, of one slot of changes, or of one kind and table, and for other
// kinds all of the kind.
func PartEnd(key []byte) []byte {
	n := 1
	if len(key) > 0 {
		switch key[0] {
		case KindItem:
			n = 1 + 4 + 2
		case KindChange:
			n = 1 + 4 + 1
		case KindSize, KindExpiry:
			n = 1 + 4
		}
	}
	if len(key) >= n && strings.IndexByte(kinds, key[0]) >= 0 {
		return successor(key[:n])
	}
	for i := range len(kinds) { // the first part of the next kind
		if len(key) == 0 || kinds[i] > key[0] {
			return []byte{kinds[i]}
		}
	}
	return nil
}

// Meta is the key of one of the database's own records.
func Meta(name string) []byte { return append([]byte{KindMeta}, name...) }

// Catalog is the key of a table's description.
func Catalog(table string) []byte { return append([]byte{KindCatalog}, table...) }

// CatalogSpan holds all table descriptions, in order of the names.
func CatalogSpan() (start, end []byte) { return []byte{KindCatalog}, []byte{KindCatalog + 1} }

// Build is the key of the progress of an index build.
func Build(table uint32, index uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32([]byte{KindBuild}, table), index)
}

// BuildSpan holds the progress of all builds of a table.
func BuildSpan(table uint32) (start, end []byte) {
	start = binary.BigEndian.AppendUint32([]byte{KindBuild}, table)
	return start, successor(start)
}

// Dropped is the key of the marker that a table's items are to be removed.
func Dropped(table uint32) []byte { return binary.BigEndian.AppendUint32([]byte{KindDropped}, table) }

// DroppedSpan holds all such markers.
func DroppedSpan() (start, end []byte) { return []byte{KindDropped}, []byte{KindDropped + 1} }

// DroppedTable is the table that a marker is for.
func DroppedTable(key []byte) uint32 { return binary.BigEndian.Uint32(key[1:]) }

// DroppedStreams is the key of the description of a dropped table whose streams
// can still be read.
func DroppedStreams(table uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{KindDroppedStreams}, table)
}

// DroppedStreamsSpan holds all such records.
func DroppedStreamsSpan() (start, end []byte) {
	return []byte{KindDroppedStreams}, []byte{KindDroppedStreams + 1}
}

// Job is the key of the record of a long-running job.
func Job(id string) []byte { return append([]byte{KindJob}, id...) }

// JobSpan holds all such records, in order of the ids.
func JobSpan() (start, end []byte) { return []byte{KindJob}, []byte{KindJob + 1} }

// Scaling is the key of the settings of auto scaling of one dimension of a
// resource. Neither has a zero byte.
func Scaling(resource, dimension string) []byte {
	key := append([]byte{KindScaling}, resource...)
	return append(append(key, 0), dimension...)
}

// ScalingSpan holds all such settings, in order of the resources.
func ScalingSpan() (start, end []byte) { return []byte{KindScaling}, []byte{KindScaling + 1} }

// DAX is the key of the clusters of DAX and their groups, which are one record.
func DAX() []byte { return []byte{KindDAX} }

// ItemCount is the key of a table's item count.
func ItemCount(table uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{KindItemCount}, table)
}

// Collection is the key of the size of the collection that an item is in. It
// is removed with the table's items.
func Collection(t *schema.Table, it item.Item) []byte {
	key := binary.BigEndian.AppendUint32(append(make([]byte, 0, UsualBytes), KindSize), t.ID)
	return appendPartitionOf(key, t.Key.Partition, it)
}

// CollectionSpan holds the sizes of a table's collections.
func CollectionSpan(table uint32) (start, end []byte) {
	start = binary.BigEndian.AppendUint32([]byte{KindSize}, table)
	return start, successor(start)
}

// CollectionItems holds the items of a collection, or with another index than 0
// its entries in that local index; key is that of the collection's size.
func CollectionItems(key []byte, index uint16) (start, end []byte) {
	start = append(appendSpace(nil, binary.BigEndian.Uint32(key[1:]), index), key[1+4:]...)
	return start, successor(start)
}

// Token is the key of the record of a transaction's token.
func Token(digest []byte) []byte { return append([]byte{KindToken}, digest...) }

// TokenDue is the key of the entry that says when a token expires.
func TokenDue(at time.Time, digest []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{KindDue}, uint64(at.UnixMilli())), digest...)
}

// TokensDue holds the entries that are due at a moment.
func TokensDue(at time.Time) (start, end []byte) {
	return []byte{KindDue}, binary.BigEndian.AppendUint64([]byte{KindDue}, uint64(at.UnixMilli()))
}

// IsToken reports whether a key has the length of one that Token or TokenDue
// made for a SHA-256.
func IsToken(key []byte) bool {
	switch key[0] {
	case KindToken:
		return len(key) == 1+sha256.Size
	case KindDue:
		return len(key) == 1+8+sha256.Size
	}
	return false
}

// TokensDueAfter holds the entries that are due at a moment or later.
func TokensDueAfter(at time.Time) (start, end []byte) {
	_, start = TokensDue(at)
	return start, successor([]byte{KindDue})
}

// DueToken is the token that an entry is for.
func DueToken(entry []byte) []byte { return entry[9:] }

// TableSpan holds a table's items and all its index entries.
func TableSpan(table uint32) (start, end []byte) {
	start = binary.BigEndian.AppendUint32([]byte{KindItem}, table)
	return start, successor(start)
}

// IndexSpan holds the entries of one index, or with index 0 the items.
func IndexSpan(table uint32, index uint16) (start, end []byte) {
	start = appendSpace(nil, table, index)
	return start, successor(start)
}

// Segment is one of total equal parts of an index, or with index 0 of the
// table.
func Segment(table uint32, index uint16, segment, total int) (start, end []byte) {
	start, end = IndexSpan(table, index)
	space := appendSpace(nil, table, index)
	if segment > 0 {
		start = binary.BigEndian.AppendUint64(space[:len(space):len(space)], part(segment, total))
	}
	if segment+1 < total {
		end = binary.BigEndian.AppendUint64(space[:len(space):len(space)], part(segment+1, total))
	}
	return start, end
}

// part is 2^64 * i / n.
func part(i, n int) uint64 {
	q, _ := bits.Div64(uint64(i), 0, uint64(n))
	return q
}

// PartitionOf is which of n equal parts of a table or an index the key of an item or
// an entry is in.
func PartitionOf(key []byte, n int) int {
	i, _ := bits.Mul64(Hash(key), uint64(n))
	return int(i)
}

// Hash is the hash of the partition of an item or an entry; the key may be a prefix of
// theirs.
func Hash(key []byte) uint64 {
	const at = 1 + 4 + 2
	var hash [8]byte
	copy(hash[:], key[min(at, len(key)):])
	return binary.BigEndian.Uint64(hash[:])
}

// LastPartition is the last of n equal parts that holds keys of a segment.
func LastPartition(segment, total, n int) int {
	if segment+1 == total {
		return n - 1
	}
	i, _ := bits.Mul64(part(segment+1, total)-1, uint64(n))
	return int(i)
}

// UsualBytes is enough for most keys, so that they need not grow.
const UsualBytes = 96

// Item appends the key of the item that has these key attributes.
func Item(dst []byte, t *schema.Table, it item.Item) []byte {
	dst = appendSpace(slices.Grow(dst, UsualBytes), t.ID, 0)
	dst = appendPartitionOf(dst, t.Key.Partition, it)
	return appendSortsOf(dst, t.Key.Sort, it)
}

// Entry appends the key of an item's entry in an index. It ends with the
// item's own key, so that two items never share an entry.
func Entry(dst []byte, t *schema.Table, x *schema.Index, it item.Item) []byte {
	dst = appendSpace(slices.Grow(dst, UsualBytes), t.ID, x.ID)
	dst = appendPartitionOf(dst, x.Key.Partition, it)
	dst = appendSortsOf(dst, x.Key.Sort, it)
	return appendOwn(dst, t, it)
}

// Partition appends the prefix of all keys in one partition.
func Partition(dst []byte, table uint32, index uint16, partition []item.Value) []byte {
	dst = appendSpace(slices.Grow(dst, UsualBytes), table, index)
	at := len(dst)
	dst = append(dst, noHash[:]...)
	for i, v := range partition {
		dst = appendPart(dst, v, i+1 == len(partition))
	}
	return hashed(dst, at)
}

func appendSpace(dst []byte, table uint32, index uint16) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, KindItem), table)
	return binary.BigEndian.AppendUint16(dst, index)
}

// longPartition is the length above which a partition's value is replaced by
// its digest. Its order does not matter, since the hash precedes it.
const longPartition = 1024

// digestMark replaces the length of the partition before a digest.
const digestMark = 0xffff

// noHash is the placeholder for the hash of a partition and its length.
var noHash [8 + 2]byte

func appendPartitionOf(dst []byte, attrs []schema.Attribute, it item.Item) []byte {
	at := len(dst)
	dst = append(dst, noHash[:]...)
	for i, a := range attrs {
		dst = appendPart(dst, keyValue(a, it), i+1 == len(attrs))
	}
	return hashed(dst, at)
}

// appendPart appends one value of a partition. Its length precedes it if
// another value follows.
func appendPart(dst []byte, v item.Value, last bool) []byte {
	b := v.Sortable()
	if !last {
		dst = binary.AppendUvarint(dst, uint64(len(b)))
	}
	return append(dst, b...)
}

// hashed fills in the hash and the length of the partition at the end of a
// key, from at on.
func hashed(dst []byte, at int) []byte {
	value := dst[at+len(noHash):]
	binary.BigEndian.PutUint64(dst[at:], xxhash.Sum64(value))
	if len(value) <= longPartition {
		binary.BigEndian.PutUint16(dst[at+8:], uint16(len(value)))
		return dst
	}
	digest := sha256.Sum256(value)
	binary.BigEndian.PutUint16(dst[at+8:], digestMark)
	return append(dst[:at+len(noHash)], digest[:]...)
}

func appendSortsOf(dst []byte, attrs []schema.Attribute, it item.Item) []byte {
	for _, a := range attrs {
		dst = appendSort(dst, keyValue(a, it))
	}
	return dst
}

func appendSorts(dst []byte, values []item.Value) []byte {
	for _, v := range values {
		dst = appendSort(dst, v)
	}
	return dst
}

// appendSort appends a value so that it sorts before all values that begin
// with it, whatever follows: a number is self-delimiting, other bytes are
// escaped and terminated.
func appendSort(dst []byte, v item.Value) []byte {
	if v.Type() == item.N {
		return append(dst, v.Sortable()...)
	}
	return append(escape(dst, v.Bytes()), 0, 1)
}

// escape encodes a zero as 0 255, so that 0 1 can be the terminator.
func escape(dst, b []byte) []byte {
	for {
		zero := bytes.IndexByte(b, 0)
		if zero < 0 {
			return append(dst, b...)
		}
		dst = append(append(dst, b[:zero+1]...), 0xff)
		b = b[zero+1:]
	}
}

// longOwn is the length above which an item's own key is replaced by its
// digest at the end of an entry's key.
const longOwn = 128

func appendOwn(dst []byte, t *schema.Table, it item.Item) []byte {
	at := len(dst)
	for _, a := range t.Key.Partition {
		dst = appendPart(dst, keyValue(a, it), false)
	}
	dst = appendSortsOf(dst, t.Key.Sort, it)
	if len(dst)-at <= longOwn {
		return dst
	}
	// A zero replaces the length of the partition, which is never zero: no
	// short key can be chosen to look like the digest of a long one.
	digest := sha256.Sum256(dst[at:])
	return append(append(dst[:at], 0), digest[:]...)
}

// keyValue is an item's value for an attribute of a key. The caller has
// checked that it exists.
func keyValue(a schema.Attribute, it item.Item) item.Value {
	v, ok := it.Get(a.Name)
	if !ok {
		panic("the key attribute " + a.Name + " is missing")
	}
	return v
}

// successor is the first key after all that begin with prefix.
func successor(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
