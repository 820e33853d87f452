package item

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// A request of 16 MB can have a set of over a million members. They are sorted
// even if the set is too large to be stored: a duplicate is reported before the
// size, and two sets in one request can be compared. A radix sort takes time
// that is linear in the bytes of the members.

const (
	// ManyMembers is the number of members from which AppendLargeSet is faster
	// than AppendSet.
	ManyMembers = 512

	fewKeys = 64 // up to which a sort by comparison is faster
)

// AppendLargeSet appends a set of type t, whose count members follow one another
// in row in any order. It drops duplicates, and reports whether there were any.
func AppendLargeSet(dst []byte, t Type, count int, row []byte) (set []byte, double bool) {
	if inOrder(row, t.Member()) {
		return AppendContainer(dst, t, count, row), false
	}
	s := memberSorter{row: row}
	s.sort(t.Member(), count)
	before := len(dst)
	dst = appendContainerHead(slices.Grow(dst, len(row)+2*binary.MaxVarintLen64), t, count, len(row))
	body, last, kept := len(dst), len(dst), 0
	for _, k := range s.keys {
		m := s.member(k)
		if kept > 0 && Equal(dst[last:], m) {
			continue
		}
		last = len(dst)
		dst = append(dst, m...)
		kept++
	}
	if kept < count { // the head is not the right one
		return AppendContainer(dst[:before], t, kept, slices.Clone(dst[body:])), true
	}
	return dst, false
}

// inOrder reports whether the members in a row are of type t, sorted, and no two
// of them are equal.
func inOrder(row []byte, t Type) bool {
	var last Value
	for len(row) > 0 {
		var m Value
		m, row = cut(row)
		if m.Type() != t || last != nil && Compare(last, m) >= 0 {
			return false
		}
		last = m
	}
	return true
}

// memberSorter is an in-place radix sort of members, most significant byte
// first. It sorts keys of eight bytes, and reads the members themselves only to
// load the next key.
type memberSorter struct {
	row     []byte
	keys    []memberKey
	pending []radixRange
	reads   int // how often a member was read; each read leads to at most eight moves of a key
}

// memberKey is the part of a member that is sorted at present: keyBytes bytes
// of it, padded with zeros, and then one byte with how many there are, or
// keyBytes+1 if the member continues after them.
type memberKey struct {
	key uint64
	at  uint32 // where in the row the member begins
}

const keyBytes = 7

// radixRange is a range of keys, loaded from byte depth of their members.
type radixRange struct{ from, to, depth uint32 }

// member returns the member of a key.
func (s *memberSorter) member(k memberKey) Value {
	v, _ := cut(s.row[k.at:])
	return v
}

// sort sorts the count members of the row, which are all of type t.
func (s *memberSorter) sort(t Type, count int) {
	s.keys = make([]memberKey, 0, count)
	for rest := s.row; len(rest) > 0; {
		s.keys = append(s.keys, memberKey{at: uint32(len(s.row) - len(rest))})
		var m Value
		if m, rest = cut(rest); m.Type() != t {
			panic(fmt.Sprintf("a member of a set of %s is a %s", t, m.Type()))
		}
	}
	s.load(s.keys, 0)
	s.pending = append(s.pending, radixRange{to: uint32(len(s.keys))})
	for len(s.pending) > 0 {
		r := s.pending[len(s.pending)-1]
		s.pending = s.pending[:len(s.pending)-1]
		s.sortRange(r)
	}
}

// sortRange sorts a range, or splits it into ranges that are pending.
func (s *memberSorter) sortRange(r radixRange) {
	keys := s.keys[r.from:r.to]
	if len(keys) <= fewKeys {
		slices.SortFunc(keys, s.compare)
		return
	}
	digit := firstDifference(keys)
	for ; digit > keyBytes; digit = firstDifference(keys) {
		if uint8(keys[0].key) <= keyBytes {
			return // the members are equal
		}
		r.depth += keyBytes
		s.load(keys, r.depth)
	}
	ends := s.distribute(keys, 8*(keyBytes-digit))
	from := uint32(0)
	for _, end := range ends {
		if end-from > 1 {
			s.pending = append(s.pending, radixRange{r.from + from, r.from + end, r.depth})
		}
		from = end
	}
}

// firstDifference returns the first byte in which keys differ, or keyBytes+1 if
// they are equal.
func firstDifference(keys []memberKey) int {
	var differ uint64
	for _, k := range keys {
		differ |= k.key ^ keys[0].key
	}
	return bits.LeadingZeros64(differ) / 8
}

// load sets keys to the bytes of their members from depth.
func (s *memberSorter) load(keys []memberKey, depth uint32) {
	s.reads += len(keys)
	for i := range keys {
		rest := s.member(keys[i]).Sortable()[depth:]
		n := min(len(rest), keyBytes)
		keys[i].key = prefix(rest[:n]) | uint64(min(len(rest), keyBytes+1))
	}
}

// distribute sorts keys by the byte at shift, and returns where the keys of
// each byte end.
func (s *memberSorter) distribute(keys []memberKey, shift int) (ends [256]uint32) {
	for _, k := range keys {
		ends[uint8(k.key>>shift)]++
	}
	var next [256]uint32 // where the next key of each byte goes
	sum := uint32(0)
	for b, n := range ends {
		next[b] = sum
		sum += n
		ends[b] = sum
	}
	for b := range next {
		for next[b] < ends[b] {
			k := keys[next[b]]
			for to := uint8(k.key >> shift); int(to) != b; to = uint8(k.key >> shift) {
				k, keys[next[to]] = keys[next[to]], k
				next[to]++
			}
			keys[next[b]] = k
			next[b]++
		}
	}
	return ends
}

// compare orders two keys of one range.
func (s *memberSorter) compare(a, b memberKey) int {
	if a.key != b.key || uint8(a.key) <= keyBytes {
		return cmp.Compare(a.key, b.key)
	}
	s.reads += 2
	return Compare(s.member(a), s.member(b))
}
