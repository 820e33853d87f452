package pebble

import (
	"runtime"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// maxCompactions returns how many compactions that write tables may run at a time.
func maxCompactions() int { return max(1, min(4, runtime.GOMAXPROCS(0)/2)) }

// compactionScheduler starts as many compactions at a time as Pebble allows, and none during
// the pause after one that met damaged data. Pebble repeats such a compaction at once, and
// for ever, if its table is of level 0.
type compactionScheduler struct {
	failures *failures
	db       pebble.DBForCompaction // set by Register
	wake     chan struct{}
	stop     chan struct{}
	work     sync.WaitGroup

	offering sync.Mutex // held while Pebble is asked for waiting compactions
	closed   bool

	mu      sync.Mutex // taken while Pebble holds its mutex
	running int
}

var (
	_ pebble.CompactionScheduler   = (*compactionScheduler)(nil)
	_ pebble.CompactionGrantHandle = (*compactionScheduler)(nil)
)

// scheduleInterval is how often waiting compactions are looked for.
const scheduleInterval = 100 * time.Millisecond

func newCompactionScheduler(f *failures) *compactionScheduler {
	return &compactionScheduler{failures: f, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// Register begins to offer compactions to a database.
func (s *compactionScheduler) Register(_ int, db pebble.DBForCompaction) {
	s.db = db
	s.work.Go(func() {
		t := time.NewTicker(scheduleInterval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-s.wake:
			case <-s.stop:
				return
			}
			s.offer()
		}
	})
}

// Unregister ends that.
func (s *compactionScheduler) Unregister() {
	close(s.stop)
	s.work.Wait()
	s.end()
}

// end stops offering: a compaction that waits does not begin any more. One that Pebble has just
// picked still may.
func (s *compactionScheduler) end() {
	s.offering.Lock()
	defer s.offering.Unlock()
	s.closed = true
}

// TrySchedule reports whether a compaction may begin, which counts as running then.
func (s *compactionScheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !s.take(1) {
		return false, nil
	}
	return true, s
}

// take reports whether another compaction may run, and counts n as running if so.
func (s *compactionScheduler) take(n int) bool {
	if s.failures.pausing() {
		return false
	}
	allowed := min(s.db.GetAllowedWithoutPermission(), maxCompactions())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running >= allowed {
		return false
	}
	s.running += n
	return true
}

// release counts one compaction less as running.
func (s *compactionScheduler) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// UpdateGetAllowedWithoutPermission is called when more compactions may be allowed.
func (s *compactionScheduler) UpdateGetAllowedWithoutPermission() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Done is called when a compaction has ended.
func (s *compactionScheduler) Done() {
	s.release()
	s.offer()
}

// offer has Pebble begin the compactions that wait, as far as they are allowed.
func (s *compactionScheduler) offer() {
	s.offering.Lock()
	defer s.offering.Unlock()
	for !s.closed && s.take(0) {
		if waiting, _ := s.db.GetWaitingCompaction(); !waiting || !s.take(1) {
			return
		}
		if !s.db.Schedule(s) {
			s.release()
			return
		}
	}
}

// Started does nothing.
func (s *compactionScheduler) Started() {}

// MeasureCPU does nothing.
func (s *compactionScheduler) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats does nothing.
func (s *compactionScheduler) CumulativeStats(pebble.CompactionGrantHandleStats) {}
