package dax

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"sync"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// attributeLists are the lists of attribute names that clients refer to by their ids.
//
// A client keeps the ids that it knows when it connects again, to this server after a restart or to
// another one at the same address. So an id is the hash of the names: whoever assigns it, it never
// means another list, but for a collision, where the list that comes later gets the next
// id.
//
// A client keeps the id of a list that it has defined for as long as it lives, writes items with
// it, and does not recover from an id that the server no longer knows. So a list that was
// defined is never removed, and a principal may define lists only as long as the memory that is
// free is not less than that of its own lists: no principal can take all of it.
//
// A client does not use the id of a list in a reply for requests. If it does not know the
// names, it asks for them when it reads the reply. So lists that were used in replies only are
// evicted, the least recently used first.
type attributeLists struct {
	maxDefined, maxBytes int                // of the lists that clients have defined, and of all lists
	hash                 func(string) int64 // of a key; it is the id, if no other list has it

	mu      sync.Mutex
	lists   map[int64]*attributeList
	ids     map[string]*attributeList // by the names, each with its length
	bytes   int
	defined map[string]int // bytes of the lists that a principal has defined
	pinned  int            // sum of defined
	evicted int64
	newest  attributeList // the ring of the lists that can be evicted, by their last use
}

// attributeList is one list. It is in the ring unless a client has defined it.
type attributeList struct {
	id         int64
	key        string // the names, each with its length
	names      []string
	bytes      int
	pinned     bool
	prev, next *attributeList // used before and after this one
}

const (
	maxListBytes = 64 << 20
	listOverhead = 300 // of a list, besides its names
	maxListNames = item.MaxSize / 2
)

func newAttributeLists() *attributeLists {
	a := &attributeLists{
		maxDefined: maxListBytes / 2, maxBytes: maxListBytes, hash: hashOfNames,
		lists: make(map[int64]*attributeList), ids: make(map[string]*attributeList), defined: make(map[string]int),
	}
	a.newest.prev, a.newest.next = &a.newest, &a.newest
	return a
}

// hashOfNames returns a number from 2^52 to 2^53: JavaScript knows no integers beyond that, and 1 is the
// list without names.
func hashOfNames(key string) int64 {
	sum := sha256.Sum256([]byte(key))
	return 1<<52 | int64(binary.BigEndian.Uint64(sum[:])>>12)
}

// find returns the names of a list.
func (a *attributeLists) find(id int64) ([]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.lists[id]; l != nil {
		a.touch(l)
		return l.names, nil
	}
	return nil, apierror.Validation("There is no attribute list with the id %d. The client has it from another server, or from before a restart: it must be made again.", id)
}

// id returns the id of a list for a reply, and adds the list if it is new.
func (a *attributeLists) id(names [][]byte) (int64, error) { return a.add(names, "", false) }

// define returns the id of a list that a principal will use for writes, and adds the list if it is new.
func (a *attributeLists) define(names [][]byte, principal string) (int64, error) {
	return a.add(names, principal, true)
}

func (a *attributeLists) add(names [][]byte, principal string, pin bool) (int64, error) {
	key := make([]byte, 0, 128)
	for _, name := range names {
		key = append(binary.AppendUvarint(key, uint64(len(name))), name...)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.ids[string(key)]
	if l == nil {
		if err := checkList(names); err != nil {
			return 0, err
		}
		l = newAttributeList(string(key), names)
	}
	if pin && !l.pinned {
		if err := a.pin(l, principal); err != nil {
			return 0, err
		}
	}
	if l.id == 0 {
		a.insert(l)
	}
	a.touch(l)
	return l.id, nil
}

func checkList(names [][]byte) error {
	if len(names) > maxListNames {
		return apierror.Validation("An attribute list has %d names, but no item has more than %d attributes", len(names), maxListNames)
	}
	for _, name := range names {
		if err := item.CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

// newAttributeList returns a list without an id, whose names share the memory of its key.
func newAttributeList(key string, names [][]byte) *attributeList {
	l := &attributeList{key: key, names: make([]string, len(names)), bytes: len(key) + 16*len(names) + listOverhead}
	l.prev, l.next = l, l
	at := 0
	for i, name := range names {
		at += uvarintLen(uint64(len(name)))
		l.names[i] = key[at : at+len(name)]
		at += len(name)
	}
	return l
}

func uvarintLen(v uint64) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutUvarint(b[:], v)
}

// pin counts a list as one that a principal has defined, after which it is not evicted.
func (a *attributeLists) pin(l *attributeList, principal string) error {
	if own := a.defined[principal] + l.bytes; own > a.maxDefined-a.pinned-l.bytes {
		return &apierror.Error{Code: "LimitExceededException", Status: http.StatusBadRequest,
			Message: fmt.Sprintf("You have defined lists of attribute names of %d bytes, as many as the server has memory for. Items whose attributes differ from each other need one list each: use the HTTP API to write them.", a.defined[principal])}
	}
	a.defined[principal] += l.bytes
	a.pinned += l.bytes
	l.pinned = true
	l.unlink()
	return nil
}

// insert gives a list its id, and evicts others if there is no room for it.
func (a *attributeLists) insert(l *attributeList) {
	for l.id = a.hash(l.key); a.lists[l.id] != nil; l.id++ {
	}
	a.lists[l.id], a.ids[l.key] = l, l
	a.bytes += l.bytes
	for a.bytes > a.maxBytes && a.newest.next != &a.newest {
		oldest := a.newest.next
		oldest.unlink()
		delete(a.lists, oldest.id)
		delete(a.ids, oldest.key)
		a.bytes -= oldest.bytes
		a.evicted++
	}
}

// touch makes a list the one that was used last.
func (a *attributeLists) touch(l *attributeList) {
	if l.pinned {
		return
	}
	l.unlink()
	l.prev, l.next = a.newest.prev, &a.newest
	l.prev.next, l.next.prev = l, l
}

func (l *attributeList) unlink() {
	l.prev.next, l.next.prev = l.next, l.prev
	l.prev, l.next = l, l
}

// size returns the number of lists, their memory, and how many were evicted.
func (a *attributeLists) size() (lists, bytes int, evicted int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.lists), a.bytes, a.evicted
}
