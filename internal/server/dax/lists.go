package dax

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"sync"
	"time"

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
// defined is stored, and stays in memory. A principal may define lists only as long as the memory that is
// free is not less than that of its own lists: no principal can take all of it.
//
// A client does not use the id of a list in a reply for requests. If it does not know the
// names, it asks for them when it reads the reply. So lists that were used in replies only, and lists
// that were read from the store, are evicted, the least recently used first.
type attributeLists struct {
	maxDefined, maxBytes int                // of the lists that clients have defined, and of all lists
	maxStored            int                // see prune
	hash                 func(string) int64 // of a key; it is the id, if no other list has it
	store                listStore          // nil: lists end with the process
	now                  func() time.Time

	mu      sync.Mutex
	lists   map[int64]*attributeList
	ids     map[string]*attributeList // by the names, each with its length
	bytes   int
	defined map[string]int // bytes of the lists that a principal has defined
	pinned  int            // sum of defined
	evicted int64
	newest  attributeList // the ring of the lists that can be evicted, by their last use

	pruning sync.Mutex
	pruned  bool // by this process
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

func newAttributeLists(store listStore, now func() time.Time) *attributeLists {
	a := &attributeLists{
		maxDefined: maxListBytes / 2, maxBytes: maxListBytes, maxStored: maxListBytes / 2, hash: hashOfNames, store: store, now: now,
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
func (a *attributeLists) find(ctx context.Context, id int64) ([]string, error) {
	a.mu.Lock()
	l := a.lists[id]
	if l != nil {
		a.touch(l)
	}
	a.mu.Unlock()
	if l != nil {
		return l.names, nil
	}
	l, err := a.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, apierror.Validation("There is no attribute list with the id %d. The client has it from another database: it must be made again.", id)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lists[id] == nil && a.ids[l.key] == nil {
		a.insert(l, id)
		a.touch(l)
	}
	return l.names, nil
}

// id returns the id of a list for a reply, and adds the list if it is new.
func (a *attributeLists) id(names [][]byte) (int64, error) {
	key := keyOf(names)
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.ids[key]
	if l == nil {
		if err := checkList(names); err != nil {
			return 0, err
		}
		id := a.hash(key)
		for a.lists[id] != nil {
			id++
		}
		l = newAttributeList(key)
		a.insert(l, id)
	}
	a.touch(l)
	return l.id, nil
}

// define returns the id of a list that a principal will use for writes, and adds the list if it is new.
func (a *attributeLists) define(ctx context.Context, names [][]byte, principal string) (int64, error) {
	key := keyOf(names)
	id, err := a.mayDefine(key, names, principal)
	if id != 0 || err != nil {
		return id, err
	}
	if id, err = a.save(ctx, key); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.ids[key]
	if l == nil {
		if a.lists[id] != nil {
			return 0, fmt.Errorf("two lists of attribute names have the id %d", id)
		}
		l = newAttributeList(key)
	}
	if !l.pinned {
		if err := a.pin(l, principal); err != nil {
			return 0, err
		}
	}
	if l.id == 0 {
		a.insert(l, id)
	}
	return l.id, nil
}

// mayDefine returns the id of a list that is defined already. Otherwise it returns an error if the list cannot be
// defined.
func (a *attributeLists) mayDefine(key string, names [][]byte, principal string) (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.ids[key]
	switch {
	case l == nil:
		if err := checkList(names); err != nil {
			return 0, err
		}
		l = newAttributeList(key)
	case l.pinned:
		return l.id, nil
	}
	return 0, a.room(l, principal)
}

// keyOf returns the names of a list, each with its length.
func keyOf(names [][]byte) string {
	key := make([]byte, 0, 128)
	for _, name := range names {
		key = append(binary.AppendUvarint(key, uint64(len(name))), name...)
	}
	return string(key)
}

// namesOf returns the names of a key, and shares its memory. It reports false for what is no key.
func namesOf(key string) (names []string, ok bool) {
	for len(key) > 0 {
		size, n := binary.Uvarint([]byte(key[:min(len(key), binary.MaxVarintLen64)]))
		if n <= 0 || size > uint64(len(key)-n) {
			return nil, false
		}
		names = append(names, key[n:n+int(size)])
		key = key[n+int(size):]
	}
	return names, len(names) > 0
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

// newAttributeList returns a list without an id.
func newAttributeList(key string) *attributeList {
	names, _ := namesOf(key)
	l := &attributeList{key: key, names: names, bytes: len(key) + 16*len(names) + listOverhead}
	l.prev, l.next = l, l
	return l
}

// room returns an error if a principal cannot define a list because of its size.
func (a *attributeLists) room(l *attributeList, principal string) error {
	if own := a.defined[principal] + l.bytes; own > a.maxDefined-a.pinned-l.bytes {
		return &apierror.Error{Code: "LimitExceededException", Status: http.StatusBadRequest,
			Message: fmt.Sprintf("You have defined lists of attribute names of %d bytes, as many as the server has memory for. Items whose attributes differ from each other need one list each: use the HTTP API to write them.", a.defined[principal])}
	}
	return nil
}

// pin counts a list as one that a principal has defined, after which it is not evicted.
func (a *attributeLists) pin(l *attributeList, principal string) error {
	if err := a.room(l, principal); err != nil {
		return err
	}
	a.defined[principal] += l.bytes
	a.pinned += l.bytes
	l.pinned = true
	l.unlink()
	return nil
}

// insert gives a list its id, and evicts others if there is no room for it.
func (a *attributeLists) insert(l *attributeList, id int64) {
	l.id = id
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
