package dax

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"sync"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// attributeLists are the lists of attribute names that clients refer to by their ids. Clients
// keep ids for as long as they live, so that no list is ever removed; the memory is bounded.
type attributeLists struct {
	maxBytes int

	mu    sync.RWMutex
	ids   map[string]int64 // by the names, each with its length
	names [][]string       // by id, from firstList
	bytes int
}

const (
	firstList    = 2 // 1 is the list without names
	maxListBytes = 64 << 20
	listOverhead = 200 // of a list, besides its names
	maxListNames = item.MaxSize / 2
)

func newAttributeLists() *attributeLists {
	return &attributeLists{maxBytes: maxListBytes, ids: make(map[string]int64)}
}

// find returns the names of a list.
func (a *attributeLists) find(id int64) ([]string, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if i := id - firstList; i >= 0 && i < int64(len(a.names)) {
		return a.names[i], nil
	}
	return nil, apierror.Validation("There is no attribute list with the id %d. The client has it from another server, or from before a restart: it must connect again.", id)
}

// id returns the id of a list, and adds the list if it is new.
func (a *attributeLists) id(names []string) (int64, error) {
	key := make([]byte, 0, 128)
	for _, name := range names {
		key = append(binary.AppendUvarint(key, uint64(len(name))), name...)
	}
	a.mu.RLock()
	id, ok := a.ids[string(key)]
	a.mu.RUnlock()
	if ok {
		return id, nil
	}
	return a.add(key, names)
}

func (a *attributeLists) add(key []byte, names []string) (int64, error) {
	if len(names) > maxListNames {
		return 0, apierror.Validation("An attribute list has %d names, but no item has more than %d attributes", len(names), maxListNames)
	}
	for _, name := range names {
		if err := item.CheckName(name); err != nil {
			return 0, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if id, ok := a.ids[string(key)]; ok {
		return id, nil
	}
	bytes := 2*len(key) + 16*len(names) + listOverhead
	if a.bytes+bytes > a.maxBytes {
		return 0, &apierror.Error{Code: "LimitExceededException", Status: http.StatusBadRequest,
			Message: fmt.Sprintf("The server has %d lists of attribute names, as many as it has memory for. Items whose attributes differ from each other need one list each: use the HTTP API for them.", len(a.names))}
	}
	a.bytes += bytes
	text := string(key) // the names share its memory
	kept := make([]string, len(names))
	at := 0
	for i, name := range names {
		at += uvarintLen(uint64(len(name)))
		kept[i] = text[at : at+len(name)]
		at += len(name)
	}
	a.names = append(a.names, kept)
	id := int64(len(a.names)-1) + firstList
	a.ids[text] = id
	return id, nil
}

func uvarintLen(v uint64) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutUvarint(b[:], v)
}

// size returns the number of lists, and their memory.
func (a *attributeLists) size() (lists, bytes int) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.names), a.bytes
}
