package migrate

import (
	"context"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/data/item"
)

// readPair is the result of reading an item on both sides.
type readPair struct {
	source item.Item // nil if it does not exist
	equal  bool
	text   string // how they differ
}

// itemComparison compares an item of the two sides, again and again.
type itemComparison struct {
	compare func(ctx context.Context) (readPair, error)
	differs func(ctx context.Context, last readPair) error // called if the sides do differ
	last    readPair
	since   time.Time // when the source was first seen as it is
	same    int       // times in a row that the source had not changed
	changes int       // times that it had
}

// maxPending bounds the items that wait to be compared again. Each wait takes as long as
// the followers need for all records, so the items that changed meanwhile wait together.
const maxPending = 10_000

// check compares an item. If it differs it is compared again later, together with
// others: the followers may take long to read all records.
func (v *verifier) check(ctx context.Context, c *itemComparison) (err error) {
	v.count(&v.result.Compared)
	if c.last, err = c.compare(ctx); err != nil || c.last.equal {
		return err
	}
	c.since = time.Now()
	v.mutex.Lock()
	v.pending = append(v.pending, c)
	full := len(v.pending) >= maxPending
	v.mutex.Unlock()
	if full {
		return v.settle(ctx)
	}
	return nil
}

// settle repeats the comparisons that wait until the sides are equal, or differ
// although the source did not change for as long as a record may take, and the
// followers have read all records in between. An item whose source changes each
// time is moving.
func (v *verifier) settle(ctx context.Context) error {
	v.mutex.Lock()
	open := v.pending
	v.pending = nil
	v.mutex.Unlock()
	for len(open) > 0 {
		if err := v.followers.catchUp(ctx); err != nil {
			return err
		}
		var mutex sync.Mutex
		var rest []*itemComparison
		err := parallel(ctx, v.m.options.Workers, len(open), func(ctx context.Context, i int) error {
			settled, err := open[i].again(ctx, v.m.options.Delay)
			switch {
			case settled:
			case open[i].changes >= maxTries:
				v.count(&v.result.Moving)
			default:
				mutex.Lock()
				defer mutex.Unlock()
				rest = append(rest, open[i])
			}
			return err
		})
		if err != nil {
			return err
		}
		open = rest
	}
	return nil
}

// again repeats a comparison, and reports whether its result is clear.
func (c *itemComparison) again(ctx context.Context, delay time.Duration) (settled bool, err error) {
	before := c.last
	c.last, err = c.compare(ctx)
	switch {
	case err != nil || c.last.equal:
		return true, err
	case !before.source.Equal(c.last.source):
		c.same, c.since = 0, time.Now()
		c.changes++
	default:
		c.same++
	}
	if c.same < 2 || time.Since(c.since) < delay {
		return false, nil
	}
	return true, c.differs(ctx, c.last)
}
