// Package verify checks that what a database has stored is consistent.
//
// A Walk reads every stored key once, in parts, and checks each with what
// belongs to it. The same code verifies a folder, a running server, and data at
// rest in the background; they differ in the snapshots that they take and in
// their rate.
package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// Options configures a Walk.
type Options struct {
	// Snapshot takes a snapshot of the database.
	Snapshot func(context.Context) (store.Snapshot, error)

	// Online takes a snapshot for each part instead of one for all, so that none
	// lives long, and checks each finding again in a later one: a range that is
	// being deleted may be seen in part.
	Online bool

	// Recount counts the items of a table, or the entries of an index, and
	// returns the saved count of the same moment. It is called when the counts
	// of a walk differ. Without it, an online walk does not compare counts.
	Recount func(ctx context.Context, table string, index uint16) (saved, actual codec.Count, err error)

	// Found is called with each finding.
	Found func(Finding)

	PartKeys   int // the most keys of a part; defaults to 1000
	MaxTracked int // the most items whose changes are followed at a time; defaults to 1,000,000
}

// partBytes is the size of the values after which a part ends.
const partBytes = 4 << 20

// Walk is one pass over all stored data. It is not safe for concurrent use.
type Walk struct {
	o       Options
	seed    maphash.Seed
	whole   *part      // the only part of a walk that is not online
	at      []byte     // the next key
	changes *slotCheck // the check of changes in progress, or nil
	keys    int64      // read so far

	sums     indexSums                         // of a walk in one snapshot
	names    map[uint32]string                 // of the tables, by id
	actual   map[uint32]map[uint16]codec.Count // counted by this walk
	compared map[uint32]bool                   // tables whose saved counts were found
	reports  *reports
}

// New returns a walk that has not read anything yet.
func New(o Options) *Walk {
	if o.PartKeys == 0 {
		o.PartKeys = 1000
	}
	if o.MaxTracked == 0 {
		o.MaxTracked = 1_000_000
	}
	return &Walk{
		o: o, seed: maphash.MakeSeed(), at: []byte{0},
		sums:     make(indexSums),
		names:    make(map[uint32]string),
		actual:   make(map[uint32]map[uint16]codec.Count),
		compared: make(map[uint32]bool),
		reports:  newReports(o.Found),
	}
}

// Reports returns what was found so far: a report for each table, in the order of
// their names, and a last one, without a name, for what belongs to no table.
func (w *Walk) Reports() []Report { return w.reports.sorted() }

// Found adds a finding that was made outside of the walk.
func (w *Walk) Found(f Finding) { w.reports.add([]Finding{f}) }

// Position returns the table whose keys are read next, or "" for none, and how
// many keys were read.
func (w *Walk) Position() (table string, keys int64) {
	at := w.at
	if w.changes != nil {
		at = w.changes.at
	}
	return w.tableAt(at), w.keys
}

// tableAt returns the name of the table that a key, or the beginning of one,
// belongs to.
func (w *Walk) tableAt(key []byte) string {
	if id, ok := keyspace.TablePrefix(key); ok {
		return w.names[id]
	}
	return ""
}

// Close releases the snapshot.
func (w *Walk) Close() {
	if w.whole != nil {
		w.whole.snap.Close()
		w.whole = nil
	}
}

// Step reads the next part. It returns how many keys it has read, and whether the
// walk is complete.
func (w *Walk) Step(ctx context.Context) (keys int, done bool, err error) {
	p, err := w.part(ctx)
	if err != nil {
		return 0, false, err
	}
	defer func() {
		w.keys += int64(keys)
		p.release()
	}()
	switch {
	case w.changes != nil:
		end, err := w.changes.step(p)
		if err != nil {
			return p.keys, false, err
		}
		if end != nil {
			w.changes, w.at = nil, end
		}
	default:
		if done, err = w.scan(p); err == nil && done {
			err = p.readable(nil, w.compareMissing(p))
			w.reports.add(p.take())
		}
	}
	return p.keys, done, err
}

// part takes the snapshot of the next part.
func (w *Walk) part(ctx context.Context) (*part, error) {
	if w.whole != nil {
		w.whole.ctx, w.whole.keys = ctx, 0
		return w.whole, nil
	}
	snap, err := w.o.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	p := &part{ctx: ctx, w: w, snap: snap, tables: make(map[uint32]tableState)}
	if !w.o.Online {
		w.whole = p
	}
	return p, nil
}

// scan checks the keys of a part one by one. It ends early where the changes of a
// slot begin, and where keys are skipped.
func (w *Walk) scan(p *part) (done bool, err error) {
	size, last := 0, bytes.Clone(w.at)
	for pair, err := range p.snap.Scan(p.ctx, store.Range{Start: w.at}) {
		if err != nil {
			w.at = last
			return w.unreadable(p, err)
		}
		last = append(append(last[:0], pair.Key...), 0)
		if pair.Key[0] > keyspace.KindItem {
			if err := w.checkSums(p); err != nil {
				return false, err
			}
		}
		skipTo, err := w.checkPair(p, pair)
		if err != nil {
			return false, err
		}
		if p.keys++; skipTo != nil || w.changes != nil {
			w.at = skipTo
			return false, nil
		}
		if size += len(pair.Value); p.keys >= w.o.PartKeys || size >= partBytes {
			w.at = last
			return false, nil
		}
	}
	return true, w.checkSums(p)
}

// checkPair checks one key, and reports what it finds. It returns the key to
// continue at if that is not the next.
func (w *Walk) checkPair(p *part, pair store.Pair) (skipTo []byte, err error) {
	skipTo, err = p.check(pair.Key, pair.Value)
	if err = p.readable(pair.Key, err); err != nil {
		return nil, err
	}
	found := p.take()
	if len(found) > 0 && w.o.Online {
		if found, err = w.checkAgain(p.ctx, pair.Key); err != nil {
			return nil, err
		}
	}
	w.reports.count(p, pair)
	w.reports.add(found)
	return skipTo, nil
}

// checkAgain checks a key in a later snapshot.
func (w *Walk) checkAgain(ctx context.Context, key []byte) ([]Finding, error) {
	p, err := w.part(ctx)
	if err != nil {
		return nil, err
	}
	defer p.release()
	value, ok, err := p.get(key)
	if ok && value != nil {
		_, err = p.check(key, value)
		err = p.readable(key, err)
	}
	return p.take(), err
}

// unreadable reports data that the engine cannot read, and continues after the
// part of the keys in which it is. Other errors end the walk.
func (w *Walk) unreadable(p *part, err error) (done bool, _ error) {
	if !errors.Is(err, store.ErrCorrupt) {
		return false, err
	}
	p.fault(KindUnreadable, w.tableAt(w.at), w.at, "the data from %x on cannot be read: %v", w.at, err)
	w.reports.add(p.take())
	w.at = keyspace.PartEnd(w.at)
	return w.at == nil, nil
}

// part is the keys that are checked in one snapshot.
type part struct {
	ctx    context.Context
	w      *Walk
	snap   store.Snapshot
	tables map[uint32]tableState
	listed bool // whether the whole catalog was read
	keys   int  // read so far

	// Of the key that is being checked: what was found, and the item's size.
	found []Finding
	size  int64

	collection []byte // the last that was looked up
	closely    bool   // look up index entries instead of adding them up
}

func (p *part) release() {
	if p.w.whole != p {
		p.snap.Close()
	}
}

func (p *part) fault(kind Kind, table string, key []byte, format string, args ...any) {
	p.found = append(p.found, Finding{Kind: kind, Table: table, Key: bytes.Clone(key), Text: fmt.Sprintf(format, args...)})
}

func (p *part) note(kind Kind, table string, key []byte, format string, args ...any) {
	p.fault(kind, table, key, format, args...)
	p.found[len(p.found)-1].Note = true
}

// take returns what was found since the last call.
func (p *part) take() []Finding {
	found := p.found
	p.found = nil
	return found
}

// get reads a key. It is not ok if the value cannot be read, which it reports.
func (p *part) get(key []byte) (value []byte, ok bool, err error) {
	values, err := p.snap.Get(p.ctx, key)
	if err != nil {
		return nil, false, p.readable(key, err)
	}
	return values[0], true, nil
}

// readable reports an error that says that the engine cannot read what belongs to
// a key. It returns other errors.
func (p *part) readable(key []byte, err error) error {
	if !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	p.fault(KindUnreadable, p.w.tableAt(key), key, "the data of %x cannot be read: %v", key, err)
	return nil
}
