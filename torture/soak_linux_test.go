package torture

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store/pebble"
)

// soakSample is what a server takes after a round of a soak.
type soakSample struct {
	hours            float64 // since the first sample
	megabytes, files int
	threads          int
	p99              time.Duration
	acked            int
}

// A server that works for a long time takes no more memory, files and threads, and
// answers no more slowly, than after its start. -torture.for is the length of the
// soak; memory and latency are compared in soaks of an hour and more, since a cache
// that fills looks like a leak in a short one.
func TestSoak(t *testing.T) {
	g := newRig(t)
	s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error")
	createWork(t, s.door)
	all := crew(workers, g.Uint64())
	span := 200 * time.Millisecond
	if *long {
		span = min(*longTime/30, 5*time.Minute)
	}
	var samples []soakSample
	for range g.rounds(3) {
		samples = append(samples, soakRound(g, s, all, span))
	}
	if last := samples[len(samples)-1]; last.megabytes == 0 || last.files == 0 || last.threads == 0 || last.acked == 0 {
		t.Errorf("the last sample is %+v", last)
	}
	g.reportSoak(samples)
	s.kill()
}

// soakRound lets all workers work for a while, checks their items, and takes a sample.
func soakRound(g *rig, s *process, all []*worker, span time.Duration) soakSample {
	g.Helper()
	var stopped atomic.Bool
	until := door(func(target string, body []byte) (int, []byte, error) {
		if stopped.Load() {
			return 0, nil, errSoakRound
		}
		return s.door(target, body)
	})
	var times []time.Duration
	work(all, until, func() {
		defer stopped.Store(true)
		times = goodClients(g, s.door, span)
	})
	acked, faults := settleAll(g, all, s.door)
	reportFaults(g, faults)
	g.count("rounds", 1)
	g.count("acknowledged", acked)
	return soakSample{
		hours: time.Since(g.began).Hours(), acked: acked, p99: times[len(times)*99/100],
		megabytes: s.memory(g, "VmRSS"), files: entries(g, s, "fd"), threads: entries(g, s, "task"),
	}
}

var errSoakRound = errors.New("the round is over")

// entries returns the number of entries of a folder in /proc of a server.
func entries(t testing.TB, s *process, folder string) int {
	t.Helper()
	found, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", s.cmd.Process.Pid, folder))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// reportSoak records the trends of the second half of the samples, and fails for
// those that a soak of this length proves.
func (g *rig) reportSoak(samples []soakSample) {
	g.Helper()
	first, last := samples[len(samples)/2], samples[len(samples)-1]
	memory := soakTrend(samples[len(samples)/2:], func(s soakSample) float64 { return float64(s.megabytes) })
	// Of a third of the samples each, so that one slow moment does not count.
	third := max(1, len(samples)/3)
	drift := 100 * (soakMean(samples[len(samples)-third:])/soakMean(samples[:third]) - 1)
	g.count("MB at the end", last.megabytes)
	g.count("files at the end", last.files)
	g.count("threads at the end", last.threads)
	if last.hours < 1 {
		return // a cache that fills looks like a leak
	}
	g.goal("% more memory per hour", 1, memory, false)
	g.goal("% later p99 at the end", 20, drift, false)
	g.goal("more files", 8, float64(last.files-first.files), false)
	g.goal("more threads", 4, float64(last.threads-first.threads), false)
	if memory > 1 || drift > 20 || last.files > first.files+8 || last.threads > first.threads+4 {
		g.Errorf("memory grows by %.2f %% an hour, p99 by %.0f %%; files go from %d to %d, threads from %d to %d",
			memory, drift, first.files, last.files, first.threads, last.threads)
	}
}

// soakMean returns the mean of the samples' p99.
func soakMean(samples []soakSample) (sum float64) {
	for _, s := range samples {
		sum += float64(s.p99) / float64(len(samples))
	}
	return sum
}

// soakTrend returns by how many percent of its mean a value grows per hour: the slope
// of the least squares.
func soakTrend(samples []soakSample, value func(soakSample) float64) float64 {
	var x, y, xx, xy float64
	n := float64(len(samples))
	for _, s := range samples {
		v := value(s)
		x, y, xx, xy = x+s.hours, y+v, xx+s.hours*s.hours, xy+s.hours*v
	}
	if spread := n*xx - x*x; spread > 0 && y > 0 {
		return 100 * (n*xy - x*y) / spread / (y / n)
	}
	return 0
}

// The control: growth is found, and values that only vary are not taken for it.
func TestSoakFindsGrowth(t *testing.T) {
	for _, c := range []struct {
		name    string
		perHour float64 // growth of 400 MB, in percent
		noise   int
	}{{"steady", 0, 0}, {"varies", 0, 4}, {"grows", 10, 4}, {"shrinks", -10, 4}} {
		t.Run(c.name, func(t *testing.T) {
			var samples []soakSample
			for i := range 120 {
				hours := float64(i) / 12
				samples = append(samples, soakSample{hours: hours, megabytes: int(400*(1+c.perHour/100*hours)) + c.noise*(i%2)})
			}
			got := soakTrend(samples, func(s soakSample) float64 { return float64(s.megabytes) })
			if want := c.perHour / (1 + c.perHour/100*5); math.Abs(got-want) > 0.5 {
				t.Errorf("the trend is %.2f %% an hour, want %.2f", got, want)
			}
		})
	}
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}

// usualGoroutines returns how many goroutines there are for most of a second. One ends for a
// moment when a WAL file is followed by the next.
func usualGoroutines() (usual int) {
	times := make(map[int]int)
	for range 100 {
		n := runtime.NumGoroutine()
		if times[n]++; times[n] > times[usual] {
			usual = n
		}
		time.Sleep(10 * time.Millisecond)
	}
	return usual
}

// After each round of work as many goroutines are left as after the first.
func TestWorkLeavesNoGoroutines(t *testing.T) {
	g := newRig(t)
	h, err := open(vfs.NewMem(), "d", pebble.Durable, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	createWork(t, h.door)
	all := crew(workers, g.Uint64())
	least := 0
	for n := range g.rounds(3) {
		var stopped atomic.Bool
		gated := door(func(target string, body []byte) (int, []byte, error) {
			if stopped.Load() {
				return 0, nil, errSoakRound
			}
			return h.door(target, body)
		})
		work(all, gated, func() { time.Sleep(loadTime); stopped.Store(true) })
		_, faults := settleAll(t, all, h.door)
		reportFaults(t, faults)
		left := usualGoroutines()
		for deadline := time.Now().Add(time.Minute); n > 0 && left > least && time.Now().Before(deadline); left = runtime.NumGoroutine() {
			time.Sleep(10 * time.Millisecond) // flushes and compactions end
		}
		if n == 0 {
			least = left
		} else if left > least {
			t.Errorf("round %d has left %d goroutines, the first %d:\n%s", n, left, least, stacks())
		}
		g.count("rounds", 1)
	}
	g.count("goroutines at the end", runtime.NumGoroutine())
}
