package throttle

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/schema"
)

// world is a table with a clock that the test moves.
type world struct {
	*testing.T
	*Table
	now   time.Duration
	bytes map[uint16]int64
}

func newWorld(t *testing.T, def schema.Table) *world {
	w := &world{T: t, now: 24 * time.Hour, bytes: make(map[uint16]int64)}
	w.Table = New(&def, w.now, func(index uint16) int64 { return w.bytes[index] })
	return w
}

func provisioned(read, write int64) schema.Table {
	return schema.Table{Throughput: schema.Throughput{Read: read, Write: write}, Warm: schema.Throughput{Read: read, Write: write}}
}

// take sends requests of one unit until one is throttled, or most have been
// executed. It returns how many were, and why the next one was not.
func (w *world) take(kind Kind, at Place, most int) (n int, why string) {
	w.Helper()
	for ; n < most; n++ {
		if err := w.Admit(w.now, kind, at); err != nil {
			var e *Exceeded
			if !errors.As(err, &e) {
				w.Fatal(err)
			}
			return n, e.Reason()
		}
		w.Charge(w.now, kind, at, 1)
	}
	return n, ""
}

func (w *world) expect(kind Kind, at Place, most, want int, wantWhy string) {
	w.Helper()
	if n, why := w.take(kind, at, most); n != want || why != wantWhy {
		w.Errorf("at %v %d requests, then %q; want %d, then %q", w.now, n, why, want, wantWhy)
	}
}

// A table begins with the units of a second, and keeps those of 300 seconds.
func TestBurst(t *testing.T) {
	w := newWorld(t, provisioned(5, 2))
	w.expect(Read, Place{}, 100, 5, "TableReadProvisionedThroughputExceeded")
	w.expect(Write, Place{}, 100, 2, "TableWriteProvisionedThroughputExceeded")
	w.now += time.Second
	w.expect(Read, Place{}, 100, 5, "TableReadProvisionedThroughputExceeded")
	w.now += 100 * time.Second
	w.expect(Read, Place{}, 10_000, 500, "TableReadProvisionedThroughputExceeded")
	w.now += time.Hour
	w.expect(Read, Place{}, 10_000, 300*5, "TableReadProvisionedThroughputExceeded")
	w.expect(Write, Place{}, 10_000, 300*2, "TableWriteProvisionedThroughputExceeded")
}

// What a request costs is known afterwards: it may take more than there is, which
// those after it wait for.
func TestOneRequestMayExceed(t *testing.T) {
	w := newWorld(t, provisioned(5, 5))
	w.Charge(w.now, Write, Place{}, 25)
	w.expect(Write, Place{}, 1, 0, "TableWriteProvisionedThroughputExceeded")
	w.now += 4 * time.Second
	w.expect(Write, Place{}, 1, 0, "TableWriteProvisionedThroughputExceeded")
	w.now += time.Second
	w.expect(Write, Place{}, 100, 5, "TableWriteProvisionedThroughputExceeded")
}

// A partition may use all units of its table, up to the maximum of a partition.
func TestAdaptiveCapacity(t *testing.T) {
	w := newWorld(t, provisioned(6000, 4000))
	if n := w.Partitions(0); n != 4 {
		t.Fatalf("%d partitions", n)
	}
	const hash = 1 << 61
	w.expect(Write, Place{Hash: hash}, 10_000, 1000, "TableWriteKeyRangeThroughputExceeded")
	w.expect(Read, Place{Hash: hash}, 10_000, 3000, "TableReadKeyRangeThroughputExceeded")
	w.expect(Write, Place{Hash: 1 << 62}, 10_000, 1000, "TableWriteKeyRangeThroughputExceeded")
	w.now += time.Hour // the maximum of a partition does not burst
	w.expect(Write, Place{Hash: hash}, 10_000, 1000, "TableWriteKeyRangeThroughputExceeded")
}

// The same load with write sharding: ten values in different partitions are not
// throttled where one is.
func TestWriteSharding(t *testing.T) {
	w := newWorld(t, provisioned(1, 10_000))
	if n := w.Partitions(0); n != 10 {
		t.Fatalf("%d partitions", n)
	}
	w.expect(Write, Place{Hash: 7}, 5000, 1000, "TableWriteKeyRangeThroughputExceeded")
	w.now += time.Second
	for shard := range uint64(10) {
		w.expect(Write, Place{Hash: shard*(math.MaxUint64/10) + 7}, 500, 500, "")
	}
}

// Global indexes have limits of their own, local ones share those of the table.
func TestIndexes(t *testing.T) {
	def := provisioned(5, 5)
	def.Indexes = []schema.Index{{Name: "local", ID: 1}, {Name: "global", ID: 2, Global: true, Throughput: schema.Throughput{Read: 3, Write: 3}}}
	w := newWorld(t, def)
	w.expect(Read, Place{Index: 2}, 100, 3, "IndexReadProvisionedThroughputExceeded")
	w.expect(Read, Place{Index: 1}, 100, 5, "TableReadProvisionedThroughputExceeded")
	w.expect(Read, Place{}, 100, 0, "TableReadProvisionedThroughputExceeded")

	def.Indexes = def.Indexes[:1]
	w.Configure(&def, w.now)
	w.now += time.Second
	w.expect(Read, Place{Index: 2}, 100, 5, "TableReadProvisionedThroughputExceeded") // it does not exist
}

// New units take effect at once; what was saved up remains.
func TestConfigure(t *testing.T) {
	def := provisioned(10, 10)
	w := newWorld(t, def)
	w.now += 9 * time.Second // 100 units are saved up
	more := provisioned(100, 1)
	w.Configure(&more, w.now)
	w.expect(Read, Place{}, 1000, 100, "TableReadProvisionedThroughputExceeded")
	w.expect(Write, Place{}, 1000, 100, "TableWriteProvisionedThroughputExceeded")
	w.now += time.Second
	w.expect(Read, Place{}, 1000, 100, "TableReadProvisionedThroughputExceeded")
	w.expect(Write, Place{}, 1000, 1, "TableWriteProvisionedThroughputExceeded")

	onDemand := more
	onDemand.OnDemand = true
	w.Configure(&onDemand, w.now)
	w.now += time.Second
	if n := w.Partitions(0); n != 4 {
		t.Errorf("%d partitions after the change to on-demand", n)
	}
	w.Configure(&more, w.now)
	if n := w.Partitions(0); n != 4 {
		t.Errorf("%d partitions after the change back", n)
	}
}

// load consumes units evenly in each second of some minutes, in all partitions.
func (w *world) load(perSecond float64, minutes int) {
	const places = 16
	for range minutes * 60 {
		for i := range uint64(places) {
			w.Charge(w.now, Write, Place{Hash: i << 60}, perSecond/places)
		}
		w.now += time.Second
	}
}

// served is how many units of a second are served, spread over all partitions.
func (w *world) served(perSecond int) (n int) {
	w.now += 2 * time.Second
	for i := range perSecond {
		at := Place{Hash: uint64(i%64) << 58}
		if w.Admit(w.now, Write, at) == nil {
			w.Charge(w.now, Write, at, 1)
			n++
		}
	}
	return n
}

// A new on-demand table serves 4,000 writes, then twice the peak of the time before
// the last 30 minutes.
func TestOnDemandDoubles(t *testing.T) {
	w := newWorld(t, schema.Table{OnDemand: true})
	if n := w.served(10_000); n != 4000 {
		t.Errorf("a new table serves %d", n)
	}
	w.load(3500, 5)
	if n := w.served(10_000); n != 4000 {
		t.Errorf("minutes after a peak of 3,500 it serves %d", n)
	}
	w.load(1, 31)
	if n := w.served(10_000); n != 7000 {
		t.Errorf("31 minutes after a peak of 3,500 it serves %d", n)
	}
	if n := w.Partitions(0); n != 7 {
		t.Errorf("%d partitions", n)
	}
	w.load(1, 600)
	if n := w.served(10_000); n != 7000 {
		t.Errorf("hours later it serves %d", n)
	}
	w.load(30_000, 2)
	w.load(1, 31)
	if level := w.resource(0).kinds[Write].rate.rate.Load(); level != maxOnDemand {
		t.Errorf("the level is %d", level)
	}
}

// A pause that is longer than what is remembered does not lose the peak.
func TestOnDemandAfterPause(t *testing.T) {
	w := newWorld(t, schema.Table{OnDemand: true})
	w.load(3000, 3)
	w.now += 7 * time.Hour
	w.load(1, 1)
	w.now += time.Minute
	if n := w.served(10_000); n < 6000 || n > 6010 {
		t.Errorf("it serves %d", n)
	}
}

// The maximum of an on-demand table.
func TestOnDemandMaximum(t *testing.T) {
	w := newWorld(t, schema.Table{OnDemand: true, MaxRequests: schema.Throughput{Write: 10}})
	w.expect(Write, Place{}, 100, 10, "TableWriteMaxOnDemandThroughputExceeded")
	w.expect(Read, Place{}, 1000, 1000, "")
	w.now += time.Hour
	w.expect(Write, Place{}, 1000, 1000, "") // bursts pass
}

// The level of an on-demand table does not rise above the account's quota.
func TestAccountLimit(t *testing.T) {
	warm := schema.Throughput{Read: 12_000, Write: 40_000}
	w := newWorld(t, schema.Table{OnDemand: true, Warm: warm})
	spread := func(i int) Place { return Place{Hash: uint64(i) * 0x9e3779b97f4a7c15} } // even
	for i := range 40_000 {
		w.Charge(w.now, Write, spread(i), 1)
	}
	w.expect(Write, spread(1), 10, 0, "TableWriteAccountLimitExceeded")
	if e, ok := w.AdmitAfter(w.now+time.Second/2, Write, spread(1), 50_000).(*Exceeded); !ok || e.Limit != Account {
		t.Errorf("after other writes of a batch: %v", e)
	}
	w.expect(Read, Place{}, 100, 100, "")
	for i := range 12_000 {
		w.Charge(w.now, Read, spread(i), 1)
	}
	w.expect(Read, spread(1), 10, 0, "TableReadKeyRangeThroughputExceeded") // it can still rise
}

// hammer sends as many writes as are admitted, for some minutes, to keys in turn.
func (w *world) hammer(minutes int, hashes ...uint64) (perSecond float64) {
	done := 0
	for range minutes * 60 {
		for i := range 2500 {
			at := Place{Hash: hashes[i%len(hashes)]}
			if w.Admit(w.now, Write, at) == nil {
				w.Charge(w.now, Write, at, 1)
				done++
			}
		}
		w.now += time.Second
	}
	return float64(done) / float64(minutes*60)
}

// A partition that stays hot is split, so that its keys are served by two.
func TestHotPartitionIsSplit(t *testing.T) {
	w := newWorld(t, schema.Table{OnDemand: true})
	keys := []uint64{1 << 40, 2 << 40, 3 << 40, 4 << 40} // in one partition
	if got := w.hammer(1, keys...); got > 1100 {
		t.Fatalf("%.0f a second are served by one partition", got)
	}
	w.hammer(5, keys...)
	if got := w.hammer(1, keys...); got < 1900 {
		t.Errorf("%.0f a second are served after minutes of heat", got)
	}
	if n := w.Partitions(0); n < 5 {
		t.Errorf("%d partitions", n)
	}
}

// A single key cannot be split, nor is a partition split that is not hot.
func TestSingleKeyIsNotSplit(t *testing.T) {
	w := newWorld(t, schema.Table{OnDemand: true})
	if got := w.hammer(10, 1<<40); got > 1010 {
		t.Errorf("%.0f a second are served of one key", got)
	}
	w.load(1000, 10)
	if n := w.Partitions(0); n != 4 {
		t.Errorf("%d partitions", n)
	}
}

// Partitions follow the size of the table.
func TestSize(t *testing.T) {
	w := newWorld(t, provisioned(5, 5))
	w.bytes[0] = 35 << 30
	w.now += 2 * time.Minute
	w.Charge(w.now, Read, Place{}, 1)
	if n := w.Partitions(0); n != 4 {
		t.Errorf("35 GB have %d partitions", n)
	}
}

// Concurrent requests get no more than the limit in sum, and one more each.
func TestConcurrent(t *testing.T) {
	const clients = 8
	w := newWorld(t, provisioned(1, 500))
	var group sync.WaitGroup
	var served [clients]int
	for c := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), 1))
			for i := range 2000 {
				at := Place{Hash: random.Uint64()}
				now := w.now + time.Duration(i)*time.Millisecond
				if w.Admit(now, Write, at) == nil {
					w.Charge(now, Write, at, 1)
					served[c]++
				}
				if i%500 == 0 {
					def := provisioned(1, 500)
					w.Configure(&def, now)
				}
			}
		})
	}
	group.Wait()
	sum := 0
	for _, n := range served {
		sum += n
	}
	if most := 500 + 2*500 + clients; sum > most || sum < 1000 {
		t.Errorf("%d writes were served in two seconds, at most %d are allowed", sum, most)
	}
}

// A change of the billing mode that keeps the rate does not fill the bucket.
func TestModeKeepsUnits(t *testing.T) {
	w := newWorld(t, schema.Table{OnDemand: true})
	w.now += time.Hour
	def := provisioned(12_000, 4000)
	w.Configure(&def, w.now)
	if got := w.resource(0).kinds[Write].rate.units(w.now); got > 4000 {
		t.Errorf("%v units; the on-demand table had saved up 4,000", got)
	}
}

// A maximum of -1 is none.
func TestNoMaximum(t *testing.T) {
	w := newWorld(t, schema.Table{OnDemand: true, MaxRequests: schema.Throughput{Read: -1, Write: -1}})
	w.expect(Write, Place{}, 900, 900, "")
}

// Scans count towards the limits of a partition, but split none.
func TestScansSplitNothing(t *testing.T) {
	w := newWorld(t, schema.Table{OnDemand: true})
	for range 10 * 60 {
		w.Charge(w.now, Read, Place{Scan: true}, 3000)
		w.now += time.Second
	}
	if n := w.Partitions(0); n != 4 {
		t.Errorf("%d partitions", n)
	}
	if _, why := w.take(Read, Place{}, 10_000); why != "TableReadKeyRangeThroughputExceeded" {
		t.Errorf("a partition that is scanned is limited by %q", why)
	}
}

func BenchmarkAdmitAndCharge(b *testing.B) {
	def := schema.Table{OnDemand: true}
	w := New(&def, time.Hour, func(uint16) int64 { return 0 })
	b.RunParallel(func(pb *testing.PB) {
		hash := rand.Uint64()
		for now := time.Hour; pb.Next(); now += time.Microsecond {
			hash *= 6364136223846793005
			_ = w.Admit(now, Read, Place{Hash: hash})
			w.Charge(now, Read, Place{Hash: hash}, 0.5)
		}
	})
}
