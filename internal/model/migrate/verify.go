package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stator-db/stator/internal/data/item"
)

// Verification is the result of a comparison of the old and new tables.
type Verification struct {
	Entities     []EntitySum `json:"entities"`
	Compared     int64       `json:"compared"`    // items that were compared one by one
	Moving       int64       `json:"moving"`      // items that changed during each comparison
	Differences  []string    `json:"differences"` // at most maxDifferences
	Repaired     int64       `json:"repaired,omitempty"`
	RepairedKeys []string    `json:"repairedKeys,omitempty"` // the first of them
	Kept         int64       `json:"kept,omitempty"`         // new items of entities that the old model does not have
	DualReads    int64       `json:"dualReads"`              // keys that were read on both sides
	DualDiffers  int64       `json:"dualDiffers"`            // of these, reads that differed at first
}

// EntitySum is the number and the checksum of the items of an entity, on both
// sides.
type EntitySum struct {
	Entity   string `json:"entity"`
	OldItems int64  `json:"oldItems"`
	NewItems int64  `json:"newItems"`
	OldSum   uint64 `json:"oldSum"`
	NewSum   uint64 `json:"newSum"`
}

// OK reports whether the sides are equal.
func (v *Verification) OK() bool { return len(v.Differences) == 0 }

const (
	// Items that changed while they were summed make their buckets differ, and all items of these are
	// read one by one: with few items a bucket, these are few more than those that changed. The
	// sums of both sides take 32 MB.
	checksumBuckets = 1 << 20
	maxDifferences  = 100
)

// checksumSide is the checksums of one side: sums of the hashes of its items,
// which do not depend on the order.
type checksumSide struct {
	mutex    sync.Mutex
	buckets  [checksumBuckets]struct{ items, sum uint64 }
	entities map[string]*[2]uint64 // items and sum
}

func (s *checksumSide) add(entity string, bucket int, sum uint64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.buckets[bucket].items++
	s.buckets[bucket].sum += sum
	e := s.entities[entity]
	if e == nil {
		e = new([2]uint64)
		s.entities[entity] = e
	}
	e[0]++
	e[1] += sum
}

func hashOf(table string, it item.Item) uint64 {
	h := sha256.Sum256([]byte(sourceID(table, it)))
	return binary.BigEndian.Uint64(h[:])
}

func bucketOf(table string, key item.Item) int { return int(hashOf(table, key) % checksumBuckets) }

// verifier compares the two sides of a migration while both are in use.
type verifier struct {
	*phaseRun
	old, new checksumSide
	result   Verification
	mutex    sync.Mutex
	samples  []item.Item // keys for dual reads, with their tables
	tables   []string
	seen     int
	pending  []*itemComparison
}

// verify compares the old and the new tables.
func (r *phaseRun) verify(ctx context.Context) (*Verification, error) {
	v := &verifier{phaseRun: r}
	v.old.entities, v.new.entities = make(map[string]*[2]uint64), make(map[string]*[2]uint64)
	v.result.Differences = []string{}
	plan := r.m.plan
	for _, table := range plan.sourceNames() {
		visit := v.sumOld
		if plan.inPlace(table) {
			visit = v.checkRewritten
		}
		if err := r.scanAll(ctx, table, visit); err != nil {
			return nil, err
		}
	}
	for _, table := range plan.targetNames() {
		if err := r.scanAll(ctx, table, v.sumNew); err != nil {
			return nil, err
		}
	}
	v.sumEntities()
	if err := v.compareBuckets(ctx); err != nil {
		return nil, err
	}
	if err := v.dualReads(ctx); err != nil {
		return nil, err
	}
	return &v.result, v.settle(ctx)
}

// scanAll visits all items of a table.
func (r *phaseRun) scanAll(ctx context.Context, table string, visit func(ctx context.Context, table string, it item.Item) error) error {
	var ended atomic.Int64
	err := parallel(ctx, r.state.Segments, r.state.Segments, func(ctx context.Context, segment int) error {
		var after item.Item
		for {
			page, err := r.m.c.scan(ctx, scanRequest{table: table, segment: segment, segments: r.state.Segments, limit: 4 * pageItems}, after)
			if err != nil {
				return err
			}
			if err := r.forward.read.pay(ctx, page.ConsumedCapacity.CapacityUnits); err != nil {
				return err
			}
			err = parallel(ctx, r.forward.workers, len(page.Items), func(ctx context.Context, i int) error {
				return visit(ctx, table, page.Items[i].Item)
			})
			if err != nil {
				return err
			}
			if page.LastEvaluatedKey == nil {
				ended.Add(1)
				return nil
			}
			after = page.LastEvaluatedKey.Item
		}
	})
	if n := ended.Load(); err == nil && (n == 0 || n != int64(r.state.Segments)) {
		err = fmt.Errorf("%d of %d segments of table %s were read", n, r.state.Segments, table)
	}
	return err
}

func (v *verifier) sumOld(_ context.Context, table string, it item.Item) error {
	p, err := v.m.plan.forward.place(table, it)
	if err != nil {
		return err
	}
	key := v.m.plan.forward.sources[table].Schema().Key.Of(it)
	v.old.add(p.entity, bucketOf(table, key), hashOf(p.table, p.item))
	v.sample(table, key)
	return nil
}

// sample keeps a random selection of keys.
func (v *verifier) sample(table string, key item.Item) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.seen++
	n := v.m.options.Samples
	if len(v.samples) < n {
		v.samples, v.tables = append(v.samples, slices.Clone(key)), append(v.tables, table)
	} else if i := rand.IntN(v.seen); i < n {
		v.samples[i], v.tables[i] = slices.Clone(key), table
	}
}

func (v *verifier) sumNew(ctx context.Context, table string, it item.Item) error {
	p, err := v.m.plan.forward.back.placeKey(table, it)
	if errors.Is(err, errIgnored) {
		v.count(&v.result.Kept)
		return nil
	}
	if err != nil {
		return v.checkNew(ctx, table, it)
	}
	v.new.add(p.entity, bucketOf(p.table, p.key), hashOf(table, it))
	return nil
}

func (v *verifier) sumEntities() {
	names := make(map[string]bool)
	for name := range v.old.entities {
		names[name] = true
	}
	for name := range v.new.entities {
		names[name] = true
	}
	for name := range names {
		s := EntitySum{Entity: name}
		if e := v.old.entities[name]; e != nil {
			s.OldItems, s.OldSum = int64(e[0]), e[1]
		}
		if e := v.new.entities[name]; e != nil {
			s.NewItems, s.NewSum = int64(e[0]), e[1]
		}
		v.result.Entities = append(v.result.Entities, s)
	}
	slices.SortFunc(v.result.Entities, func(a, b EntitySum) int {
		if a.Entity < b.Entity {
			return -1
		}
		return 1
	})
}

func (v *verifier) differs(bucket int) bool { return v.old.buckets[bucket] != v.new.buckets[bucket] }

// compareBuckets compares the items of the buckets that differ, from both sides.
func (v *verifier) compareBuckets(ctx context.Context) error {
	if v.old.buckets == v.new.buckets {
		return nil
	}
	plan := v.m.plan
	for _, table := range plan.sourceNames() {
		if plan.inPlace(table) {
			continue
		}
		err := v.scanAll(ctx, table, func(ctx context.Context, table string, it item.Item) error {
			key := plan.forward.sources[table].Schema().Key.Of(it)
			if !v.differs(bucketOf(table, key)) {
				return nil
			}
			return v.checkOld(ctx, table, key)
		})
		if err != nil {
			return err
		}
	}
	for _, table := range plan.targetNames() {
		err := v.scanAll(ctx, table, func(ctx context.Context, table string, it item.Item) error {
			p, err := plan.forward.back.placeKey(table, it)
			if errors.Is(err, errIgnored) || err == nil && !v.differs(bucketOf(p.table, p.key)) {
				return nil
			}
			return v.checkNew(ctx, table, it)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// difference records a difference. With the option Repair the source item is
// copied again.
func (v *verifier) difference(ctx context.Context, table string, key item.Item, images []item.Item, format string, args ...any) error {
	if v.repair && table != "" {
		v.repaired(table, key)
		return v.forward.sync(ctx, table, key, images)
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if len(v.result.Differences) == maxDifferences {
		return fmt.Errorf("more than %d items differ; the first: %s", maxDifferences, v.result.Differences[0])
	}
	v.result.Differences = append(v.result.Differences, shorten(fmt.Sprintf(format, args...)))
	return nil
}

// maxRepairedKeys is how many keys of repaired items a verification has.
const maxRepairedKeys = 10

// repaired counts an item that is about to be repaired.
func (v *verifier) repaired(table string, key item.Item) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.result.Repaired++
	if len(v.result.RepairedKeys) < maxRepairedKeys {
		v.result.RepairedKeys = append(v.result.RepairedKeys, shorten(fmt.Sprintf("%s of table %s", keyText(key), table)))
	}
}

// maxText is how long a text of the stored state may be: an item has 400 KB.
const maxText = 1000

// shorten cuts a long text.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + " …"
}

func (v *verifier) count(n *int64) {
	v.mutex.Lock()
	*n++
	v.mutex.Unlock()
}
