package verify

import (
	"bytes"
	"errors"
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// indexSums are the sums, by table and index, of the hashes of the entries that
// the items should have less those of the entries that exist. A sum is zero if
// both are the same, and only then, as far as hashes with a random seed can tell.
// Reading both in their order is several times as fast as looking up each entry,
// but needs one snapshot.
type indexSums map[uint32]map[uint16]uint64

// addsUp reports whether the entries of an index are added up rather than looked
// up. Those of an index that is being built are not complete.
func (p *part) addsUp(x *schema.Index) bool { return !p.w.o.Online && !p.closely && x.State == "" }

func (s indexSums) add(seed maphash.Seed, t *schema.Table, x *schema.Index, key []byte, entry item.Item) {
	if s[t.ID] == nil {
		s[t.ID] = make(map[uint16]uint64)
	}
	s[t.ID][x.ID] += entryHash(seed, key, entry)
}

func (s indexSums) subtract(seed maphash.Seed, t *schema.Table, x *schema.Index, key []byte, entry item.Item) {
	if s[t.ID] == nil {
		s[t.ID] = make(map[uint16]uint64)
	}
	s[t.ID][x.ID] -= entryHash(seed, key, entry)
}

func entryHash(seed maphash.Seed, key []byte, entry item.Item) uint64 {
	high, low := bits.Mul64(maphash.Bytes(seed, key)|1, maphash.Bytes(seed, entry)|1)
	return high ^ low
}

// checkSums looks closely at the tables whose sums are not zero, once.
func (w *Walk) checkSums(p *part) error {
	for _, id := range slices.Sorted(maps.Keys(w.sums)) {
		for _, sum := range w.sums[id] {
			if sum != 0 {
				if err := w.checkEntriesOf(p, id); err != nil {
					return err
				}
				break
			}
		}
	}
	clear(w.sums)
	return nil
}

// checkEntriesOf looks up each index entry of the items of a table, and the item
// of each entry. Other faults of the items were reported before.
func (w *Walk) checkEntriesOf(p *part, id uint32) error {
	t, err := p.table(id)
	if err != nil {
		return err
	}
	p.closely = true
	defer func() { p.closely = false }()
	at, _ := keyspace.IndexSpan(id, 0)
	_, end := keyspace.TableSpan(id)
	for bytes.Compare(at, end) < 0 {
		if at, err = w.checkEntriesFrom(p, t, at, end); err != nil {
			return err
		}
	}
	return nil
}

// checkEntriesFrom is checkEntriesOf for the keys of a range, up to data that cannot be
// read. It returns where to continue.
func (w *Walk) checkEntriesFrom(p *part, t tableState, at, end []byte) (next []byte, err error) {
	for pair, err := range p.snap.Scan(p.ctx, store.Range{Start: at, End: end}) {
		if errors.Is(err, store.ErrCorrupt) {
			return keyspace.PartEnd(at), nil // reported before
		}
		if err != nil {
			return nil, err
		}
		at = append(append(at[:0:0], pair.Key...), 0)
		if err := p.readable(pair.Key, p.checkItemKey(t, pair.Key, pair.Value)); err != nil {
			return nil, err
		}
		w.reports.add(slices.DeleteFunc(p.take(), func(f Finding) bool { return !isOfEntries(f) }))
	}
	return end, nil
}

// isOfEntries reports whether a finding comes from looking up an index entry, or the item
// of one.
func isOfEntries(f Finding) bool {
	return f.Kind == KindIndex || f.Kind == KindUnreadable && f.Key[0] == keyspace.KindItem
}
