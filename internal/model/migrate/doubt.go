package migrate

import (
	"context"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model/apply"
)

// doubtfulWrites is the writes of which a request was given up. The server may
// execute it after the request that replaced it, and after later writes of the
// item.
type doubtfulWrites struct {
	mutex sync.Mutex
	open  []*doubtfulWrite
}

type doubtfulWrite struct {
	table     string
	key       item.Item
	placement *placement
	since     time.Time
}

// doubtPeriod is the time after which an item with a doubtful write is compared
// again. A server that executes a request later than that is not expected.
const doubtPeriod = 20 * time.Second

// doubt records a write if it is doubtful.
func (k *copier) doubt(reply writeReply, table string, key item.Item, p *placement) {
	if !reply.doubtful {
		return
	}
	k.doubts.mutex.Lock()
	defer k.doubts.mutex.Unlock()
	k.doubts.open = append(k.doubts.open, &doubtfulWrite{table, key, p, time.Now()})
}

// doubtful returns the writes that are in doubt, the oldest first.
func (k *copier) doubtful() []*doubtfulWrite {
	k.doubts.mutex.Lock()
	defer k.doubts.mutex.Unlock()
	return k.doubts.open[:len(k.doubts.open):len(k.doubts.open)]
}

// resolveDoubts copies the items of doubtful writes again, until the context ends.
func (k *copier) resolveDoubts(ctx context.Context, poll time.Duration) error {
	for {
		for _, d := range k.doubtful() {
			if time.Since(d.since) < doubtPeriod {
				break
			}
			if err := k.resolveDoubt(ctx, d); err != nil {
				return err
			}
		}
		if err := apply.Sleep(ctx, max(poll, time.Millisecond)); err != nil {
			return err
		}
	}
}

func (k *copier) resolveDoubt(ctx context.Context, d *doubtfulWrite) error {
	if err := k.sync(ctx, d.table, d.key, nil); err != nil {
		return err
	}
	if err := k.removeExtra(ctx, &placement{table: d.table, key: d.key}, d.placement.table, d.placement.key); err != nil {
		return err
	}
	k.doubts.mutex.Lock()
	defer k.doubts.mutex.Unlock()
	k.doubts.open = k.doubts.open[1:] // only this goroutine removes writes
	return nil
}

// waitDoubts waits until the writes that are doubtful now are resolved.
func (k *copier) waitDoubts(ctx context.Context, poll time.Duration) error {
	began := time.Now()
	for {
		open := k.doubtful()
		if len(open) == 0 || open[0].since.After(began) {
			return nil
		}
		if err := apply.Sleep(ctx, max(poll, time.Millisecond)); err != nil {
			return context.Cause(ctx)
		}
	}
}
