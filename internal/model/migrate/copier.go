package migrate

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model/apply"
)

// copier writes the placements of source items. It handles one source key at a
// time, so that an older state of an item never follows a newer one.
type copier struct {
	c           *endpointClient
	m           *mapping
	workers     int
	read, write *unitBudget
	counts      *copyCounts
	patience    time.Duration // how long two items may have one new key, since applications change a key by a put and a delete

	seed   maphash.Seed
	locks  [1024]sync.Mutex
	keys   handledKeys
	doubts doubtfulWrites
}

// copyCounts counts the work of the copiers of a process.
type copyCounts struct{ copied, records, followed atomic.Int64 }

// CollisionError is returned when two source items have the same new key.
type CollisionError struct {
	Table       string // the new table
	Key         item.Item
	FirstTable  string
	First       item.Item
	SecondTable string
	Second      item.Item
}

func (e *CollisionError) Error() string {
	return fmt.Sprintf("two items have the new key %s of table %s: %s of table %s, and %s of table %s",
		keyText(e.Key), e.Table, keyText(e.First), e.FirstTable, keyText(e.Second), e.SecondTable)
}

// lock locks a source key and returns the function that unlocks it.
func (k *copier) lock(id string) func() {
	mutex := &k.locks[maphash.String(k.seed, id)%uint64(len(k.locks))]
	mutex.Lock()
	return mutex.Unlock
}

func sourceID(table string, key item.Item) string { return table + "\x00" + string(key) }

// copyScanned writes the placement of an item that a scan returned. The page was
// requested at the given mark.
func (k *copier) copyScanned(ctx context.Context, table string, it item.Item, mark uint64) error {
	units, err := k.putScanned(ctx, table, it, mark)
	if err != nil {
		return err
	}
	// The key is not locked any more: the follower does not wait for the limit.
	return k.write.pay(ctx, units)
}

func (k *copier) putScanned(ctx context.Context, table string, it item.Item, mark uint64) (units float64, err error) {
	key := k.m.sources[table].Schema().Key.Of(it)
	id := sourceID(table, key)
	defer k.lock(id)()
	if k.keys.handledSince(id, mark) {
		return 0, nil
	}
	p, err := k.m.place(table, it)
	if err != nil {
		return 0, err
	}
	if units, err = k.put(ctx, table, key, p); err != nil {
		return 0, err
	}
	k.counts.copied.Add(1)
	return units, nil
}

// follow handles the records of a page. Records of one item are handled
// together.
func (k *copier) follow(ctx context.Context, table string, records []changeRecord) error {
	images := make(map[string][]item.Item)
	byID := make(map[string]item.Item)
	for _, r := range records {
		id := sourceID(table, r.keys)
		byID[id] = r.keys
		if r.old != nil {
			images[id] = append(images[id], r.old)
		} else if !r.inserted {
			images[id] = append(images[id], r.keys) // the stream has no old images
		}
	}
	ids := slices.Collect(maps.Keys(byID))
	return parallel(ctx, k.workers, len(ids), func(ctx context.Context, i int) error {
		return k.sync(ctx, table, byID[ids[i]], images[ids[i]])
	})
}

// sync makes the new item of a source key equal to the placement of the source
// item, and removes the placements of its earlier images.
func (k *copier) sync(ctx context.Context, table string, key item.Item, images []item.Item) error {
	id := sourceID(table, key)
	defer k.lock(id)()
	current, units, err := k.c.get(ctx, table, key)
	k.read.count(units)
	if err != nil {
		return err
	}
	var want *placement
	if current != nil {
		if want, err = k.m.place(table, current); err != nil && !errors.Is(err, errIgnored) {
			return err
		}
	}
	for _, image := range images {
		p, err := k.m.placeKey(table, image)
		if err != nil {
			continue // it had no placement
		}
		if p.entity == "" && k.m.checkUnmatched(p) != nil {
			continue // it was not copied: the key may be that of another item
		}
		if want != nil && p.table == want.table && p.key.Equal(want.key) {
			continue
		}
		if err := k.remove(ctx, table, key, p); err != nil {
			return err
		}
	}
	if want != nil {
		// The new item is not read before: almost always it differs, since its source
		// has changed.
		units, err := k.put(ctx, table, key, want)
		k.write.count(units)
		if err != nil {
			return err
		}
		k.counts.followed.Add(1)
	}
	k.keys.add(id)
	return nil
}

// remove deletes a placement if the new item comes from the same source item.
func (k *copier) remove(ctx context.Context, table string, key item.Item, p *placement) error {
	cond := p.owner
	for try := range maxTries {
		// The condition of an unmatched item is empty. That of another one has failed: the
		// new item is of another source item, or lacks an attribute that its key contains.
		if p.entity == "" && cond.text == "" || try > 0 {
			is, source, err := k.occupant(ctx, p)
			if isUnmatched(err) || errors.Is(err, errIgnored) {
				return nil // it comes from no source item
			}
			if err != nil || source == nil || source.table != table || !source.key.Equal(key) || source.entity == "" && p.entity != "" {
				return err
			}
			if source.entity != "" {
				cond = k.m.named(table, source.entity).ownedAs(is)
			}
		}
		reply, err := k.c.write(ctx, "DeleteItem", map[string]any{"TableName": p.table, "Key": itemJSON{p.key}}, cond)
		k.write.count(reply.units)
		k.doubt(reply, table, key, p)
		if err == nil {
			k.counts.followed.Add(1)
			return nil
		}
		if !isFault(err, "ConditionalCheckFailedException") {
			return fmt.Errorf("delete %s of table %s: %w", keyText(p.key), p.table, err)
		}
	}
	return fmt.Errorf("delete %s of table %s: it changes all the time", keyText(p.key), p.table)
}

// occupant returns the item that has the key of a placement, and where it comes
// from, nil if there is none.
func (k *copier) occupant(ctx context.Context, p *placement) (is item.Item, source *placement, err error) {
	is, units, err := k.c.get(ctx, p.table, p.key)
	k.read.count(units)
	if err != nil || is == nil {
		return nil, nil, err
	}
	source, err = k.m.back.placeKey(p.table, is)
	return is, source, err
}

// maxTries is how often a write is tried whose condition fails.
const maxTries = 10

// put writes a placement, unless another source item has the same one.
func (k *copier) put(ctx context.Context, table string, key item.Item, p *placement) (units float64, err error) {
	cond := p.owner.orAbsent(p.key)
	for try := 0; ; try++ {
		var reply writeReply
		reply, err = k.c.write(ctx, "PutItem", map[string]any{"TableName": p.table, "Item": itemJSON{p.item}}, cond)
		k.doubt(reply, table, key, p)
		units = reply.units
		if !isFault(err, "ConditionalCheckFailedException") {
			break
		}
		if try == maxTries {
			err = fmt.Errorf("its condition failed %d times, since other items take the key: %w", try, err)
			break
		}
		if cond, err = k.contendPatiently(ctx, table, key, p); err != nil {
			break
		}
	}
	if errors.Is(err, errMoved) {
		return units, nil
	}
	var collision *CollisionError
	if err != nil && !errors.As(err, &collision) {
		err = fmt.Errorf("write %s of table %s: %w", keyText(p.key), p.table, err)
	}
	return units, err
}

// errMoved is returned when a source item does not have the placement any more
// that is about to be written. Its next record leads to the right one.
var errMoved = errors.New("the item has another placement now")

// contendPatiently repeats contend for a while if two items belong to one place:
// the application may be about to delete one of them.
func (k *copier) contendPatiently(ctx context.Context, table string, key item.Item, p *placement) (expression, error) {
	until := time.Now().Add(k.patience)
	for {
		cond, err := k.contend(ctx, table, key, p)
		var collision *CollisionError
		if !errors.As(err, &collision) || !time.Now().Before(until) {
			return cond, err
		}
		if err := apply.Sleep(ctx, k.patience/100); err != nil {
			return cond, err
		}
	}
}

// contend returns the condition with which a placement may replace the item
// that another source item left there. It returns a CollisionError if both
// source items belong there at the same time.
func (k *copier) contend(ctx context.Context, table string, key item.Item, p *placement) (expression, error) {
	is, source, err := k.occupant(ctx, p)
	if err != nil || is == nil {
		return p.owner.orAbsent(p.key), err
	}
	if source.entity == "" {
		return expression{}, &CollisionError{Table: p.table, Key: p.key, FirstTable: table, First: key, SecondTable: source.table, Second: source.key}
	}
	taken := k.m.named(source.table, source.entity).ownedAs(is).orAbsent(p.key)
	if source.table == table && source.key.Equal(key) {
		return taken, nil
	}
	mine, other, err := k.c.getBoth(ctx, table, key, source.table, source.key)
	switch {
	case err != nil:
		return expression{}, err
	case !k.m.leadsTo(table, mine, p):
		return expression{}, errMoved
	case k.m.leadsTo(source.table, other, p):
		return expression{}, &CollisionError{Table: p.table, Key: p.key, FirstTable: table, First: key, SecondTable: source.table, Second: source.key}
	}
	return taken, nil
}

// leadsTo reports whether an item has the same new key as a placement.
func (m *mapping) leadsTo(table string, it item.Item, p *placement) bool {
	if it == nil {
		return false
	}
	q, err := m.placeKey(table, it)
	return err == nil && q.table == p.table && q.key.Equal(p.key)
}

// orAbsent returns the condition that there is no item, or that it fulfils x.
func (x expression) orAbsent(key item.Item) expression {
	if x.text == "" {
		return x
	}
	either := expression{names: maps.Clone(x.names), values: x.values}
	for name := range key.All() {
		either.text = "attribute_not_exists(" + either.name(name) + ") OR (" + x.text + ")"
		break
	}
	return either
}

// handledKeys remembers which source keys were handled while pages of a scan
// were in work.
type handledKeys struct {
	mutex sync.Mutex
	last  uint64
	at    map[string]uint64
	marks map[uint64]int // of the pages in work
}

// begin returns the mark of a page that is about to be requested.
func (h *handledKeys) begin() uint64 {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.marks == nil {
		h.marks, h.at = make(map[uint64]int), make(map[string]uint64)
	}
	h.marks[h.last]++
	return h.last
}

// end forgets a page, and the keys that no page needs any more.
func (h *handledKeys) end(mark uint64) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.marks[mark]--; h.marks[mark] == 0 {
		delete(h.marks, mark)
	}
	if len(h.marks) == 0 {
		clear(h.at)
		return
	}
	oldest := slices.Min(slices.Collect(maps.Keys(h.marks)))
	if oldest > mark {
		maps.DeleteFunc(h.at, func(_ string, at uint64) bool { return at <= oldest })
	}
}

// add records that a key was handled.
func (h *handledKeys) add(id string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.last++
	if len(h.marks) > 0 {
		h.at[id] = h.last
	}
}

// handledSince reports whether a key was handled after a mark.
func (h *handledKeys) handledSince(id string, mark uint64) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.at[id] > mark
}
