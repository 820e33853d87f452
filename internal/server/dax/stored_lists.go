package dax

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// listStore keeps the lists that clients have defined for as long as the database, for all its servers.
type listStore interface {
	DAXList(ctx context.Context, id int64) ([]byte, error)
	ChangeDAXList(ctx context.Context, id int64, change func(before []byte) (after []byte, err error)) error
	DAXLists(ctx context.Context, each func(id int64, value []byte)) error
}

// A stored list is the format number, the day on which it was used last, as a number of days since 1970, and the
// names, each with its length.
const formatList = 1

func encodeList(day uint64, key string) []byte {
	return append(binary.AppendUvarint([]byte{formatList}, day), key...)
}

func decodeList(value []byte) (day uint64, key string, ok bool) {
	if len(value) == 0 || value[0] != formatList {
		return 0, "", false
	}
	day, n := binary.Uvarint(value[1:])
	if n <= 0 {
		return 0, "", false
	}
	key = string(value[1+n:])
	_, ok = namesOf(key)
	return day, key, ok
}

func (a *attributeLists) today() uint64 {
	return uint64(max(0, a.now().Unix()) / int64(24*time.Hour/time.Second))
}

// load reads a list from the store; nil if it is not there, or cannot be decoded.
func (a *attributeLists) load(ctx context.Context, id int64) (*attributeList, error) {
	if a.store == nil {
		return nil, nil
	}
	value, err := a.store.DAXList(ctx, id)
	if err != nil {
		return nil, err
	}
	day, key, ok := decodeList(value)
	if !ok {
		return nil, nil
	}
	if day < a.today() {
		if err := a.saveAs(ctx, id, key); err != nil {
			return nil, err
		}
	}
	return newAttributeList(key), nil
}

// save stores a list, and returns its id.
func (a *attributeLists) save(ctx context.Context, key string) (id int64, err error) {
	if a.store == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		for id = a.hash(key); a.lists[id] != nil && a.lists[id].key != key; id++ {
		}
		return id, nil
	}
	if err := a.prune(ctx); err != nil {
		return 0, err
	}
	for id = a.hash(key); ; id++ {
		if err := a.saveAs(ctx, id, key); !errors.Is(err, errOtherList) {
			return id, err
		}
	}
}

// errOtherList is returned for an id that another list has.
var errOtherList = errors.New("another list of attribute names has this id")

// saveAs stores a list with its last use, unless another list has its id.
func (a *attributeLists) saveAs(ctx context.Context, id int64, key string) error {
	return a.store.ChangeDAXList(ctx, id, func(before []byte) ([]byte, error) {
		if _, other, ok := decodeList(before); ok && other != key {
			return nil, errOtherList
		}
		return encodeList(a.today(), key), nil
	})
}

// prune bounds what is stored, once in a process, which itself stores no more than maxDefined: of more than maxStored
// bytes, the lists that were not used for the longest time are removed until there is half of it.
func (a *attributeLists) prune(ctx context.Context) error {
	a.pruning.Lock()
	defer a.pruning.Unlock()
	if a.pruned {
		return nil
	}
	type storedList struct {
		id    int64
		day   uint64
		bytes int
	}
	var all []storedList
	total := 0
	err := a.store.DAXLists(ctx, func(id int64, value []byte) {
		day, _, _ := decodeList(value)
		all = append(all, storedList{id, day, len(value) + listOverhead})
		total += len(value) + listOverhead
	})
	if err != nil {
		return err
	}
	if total > a.maxStored {
		slices.SortFunc(all, func(x, y storedList) int { return cmp.Or(cmp.Compare(x.day, y.day), cmp.Compare(x.id, y.id)) })
		for _, l := range all {
			if total <= a.maxStored/2 {
				break
			}
			remove := func([]byte) ([]byte, error) { return nil, nil }
			if err := a.store.ChangeDAXList(ctx, l.id, remove); err != nil {
				return err
			}
			total -= l.bytes
		}
	}
	a.pruned = true
	return nil
}
