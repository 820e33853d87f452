package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/data/item"
)

// scanDone is stored as the position of a segment that was read to its end.
const scanDone = "done"

// pageItems is how many items a request of a scan reads.
const pageItems = 250

// backfill copies the existing items of all source tables.
func (r *phaseRun) backfill(ctx context.Context) error {
	type part struct {
		table   string
		segment int
	}
	var parts []part
	for _, table := range r.m.plan.sourceNames() {
		for segment := range r.state.Segments {
			parts = append(parts, part{table, segment})
		}
	}
	positions, err := r.store.positions(ctx, scanKind)
	if err != nil {
		return err
	}
	return parallel(ctx, max(1, len(parts)), len(parts), func(ctx context.Context, i int) error {
		p := parts[i]
		name := fmt.Sprintf("%s#%d", p.table, p.segment)
		return r.backfillSegment(ctx, scanRequest{table: p.table, segment: p.segment, segments: r.state.Segments, limit: pageItems}, name, positions[name])
	})
}

// backfillSegment copies the items of one segment from a position on.
func (r *phaseRun) backfillSegment(ctx context.Context, scan scanRequest, name, at string) error {
	var after item.Item
	switch at {
	case scanDone:
		return nil
	case "":
	default:
		var key itemJSON
		if err := json.Unmarshal([]byte(at), &key); err != nil {
			return fmt.Errorf("decode the position %s: %w", name, err)
		}
		after = key.Item
	}
	var saved time.Time
	for {
		next, err := r.backfillPage(ctx, scan, after)
		if err != nil {
			return err
		}
		if next == nil {
			return r.store.setPosition(ctx, scanKind+name, scanDone)
		}
		after = next
		if time.Since(saved) > time.Second {
			text, err := json.Marshal(itemJSON{after})
			if err != nil {
				return err
			}
			if err := r.store.setPosition(ctx, scanKind+name, string(text)); err != nil {
				return err
			}
			saved = time.Now()
		}
	}
}

// backfillPage copies one page and returns the key to continue after, nil at the
// end.
func (r *phaseRun) backfillPage(ctx context.Context, scan scanRequest, after item.Item) (item.Item, error) {
	keys := &r.forward.keys
	mark := keys.begin()
	defer func() { keys.end(mark) }()
	page, err := r.m.c.scan(ctx, scan, after)
	if err != nil {
		return nil, err
	}
	if err := r.forward.read.pay(ctx, page.ConsumedCapacity.CapacityUnits); err != nil {
		return nil, err
	}
	err = parallel(ctx, r.forward.workers, len(page.Items), func(ctx context.Context, i int) error {
		if r.m.plan.inPlace(scan.table) {
			units, err := r.rewrite(ctx, scan.table, page.Items[i].Item)
			return errors.Join(err, r.forward.write.pay(ctx, units))
		}
		return r.forward.copyScanned(ctx, scan.table, page.Items[i].Item, mark)
	})
	if err != nil || page.LastEvaluatedKey == nil {
		return nil, err
	}
	return page.LastEvaluatedKey.Item, nil
}
