package migrate

import (
	"context"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/model/apply"
)

// unitBudget limits units per second. Requests are paid for after their reply,
// when their units are known.
type unitBudget struct {
	perSecond float64 // 0 for no limit

	mutex sync.Mutex
	used  float64 // of all requests
	free  time.Time
}

// count adds units without waiting.
func (b *unitBudget) count(units float64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.used += units
}

// pay adds units, and waits as long as they take at the limit.
func (b *unitBudget) pay(ctx context.Context, units float64) error {
	b.mutex.Lock()
	b.used += units
	if b.perSecond <= 0 {
		b.mutex.Unlock()
		return nil
	}
	now := time.Now()
	if b.free.Before(now) {
		b.free = now
	}
	b.free = b.free.Add(time.Duration(units / b.perSecond * float64(time.Second)))
	wait := b.free.Sub(now)
	b.mutex.Unlock()
	return apply.Sleep(ctx, wait)
}

// total returns the units of all requests.
func (b *unitBudget) total() float64 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.used
}
