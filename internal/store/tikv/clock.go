package tikv

import (
	"log/slog"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/store"
)

const (
	// maxRoundTrip is how long a timestamp may take to say what the time is.
	maxRoundTrip = time.Second

	// maxDifference is how far the wall clock of this machine may be from the
	// cluster's.
	maxDifference = 5 * time.Second
)

// clusterClock is the time of the cluster, which the timestamps of heartbeats show.
// Between them, and while the cluster does not answer, it runs at the rate of the
// monotonic clock.
type clusterClock struct {
	log *slog.Logger

	mu      sync.Mutex
	at      time.Time // of the cluster
	read    time.Time // then, with the monotonic clock of this machine; zero if there was no timestamp yet
	differs bool      // the wall clock of this machine is wrong, or that of the cluster
}

// observe compares the clocks with a timestamp that was requested and received at two
// times.
func (c *clusterClock) observe(ts uint64, requested, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := received.Sub(requested)
	if took > maxRoundTrip && !c.read.IsZero() {
		return
	}
	c.at, c.read = store.Stamp(ts).Time(), requested.Add(took/2)
	ahead := c.read.Round(0).Sub(c.at)
	switch differs := ahead.Abs() > maxDifference; {
	case differs && !c.differs:
		c.log.Warn("the wall clock of this machine differs from that of the cluster: the time of the cluster is used", "ahead", ahead.Round(time.Millisecond))
	case !differs && c.differs:
		c.log.Info("the wall clock of this machine agrees with that of the cluster again")
	}
	c.differs = ahead.Abs() > maxDifference
}

// time returns the time of the cluster at a time of this machine.
func (c *clusterClock) time(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.Add(now.Sub(c.read))
}

// SharedTime returns the time of the cluster, which does not depend on the wall clock
// of this machine.
func (e *Engine) SharedTime() time.Time { return e.clock.time(time.Now()) }
