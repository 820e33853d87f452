package meter

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/metrics"
)

var start = time.Date(2026, 11, 18, 10, 0, 30, 0, time.UTC)

func TestMinutes(t *testing.T) {
	r := NewRegistry(start)
	id := ID{Name: ConsumedRead, Table: "T"}
	s := r.Series(id)
	s.Add(0.5)
	s.Add(2)
	r.Advance(start.Add(20 * time.Second))
	s.Add(1)
	r.Advance(start.Add(5 * time.Minute)) // nothing in the minutes between
	s.Add(8)
	r.Advance(start.Add(6 * time.Minute))
	got := r.Points(id, start.Add(-time.Hour), start.Add(time.Hour))
	if len(got) != 2 || got[0].Statistics != (Statistics{3.5, 3, 0.5, 2}) || got[1].Statistics != (Statistics{8, 1, 8, 8}) {
		t.Fatalf("the minutes are %+v", got)
	}
	if at := got[0].Time(); !at.Equal(start.Truncate(time.Minute)) {
		t.Errorf("the first minute is %v", at)
	}
	if at := got[1].Time(); !at.Equal(start.Truncate(time.Minute).Add(5 * time.Minute)) {
		t.Errorf("the second is %v", at)
	}
	if sum := Summarize(got); sum.Statistics != (Statistics{11.5, 4, 0.5, 8}) {
		t.Errorf("the sum is %+v", sum)
	}
	if got := r.Points(id, start.Truncate(time.Minute).Add(time.Second), start.Add(time.Hour)); len(got) != 1 {
		t.Errorf("%d minutes begin after the first one has begun", len(got))
	}
}

func TestSumOfAMinute(t *testing.T) {
	r := NewRegistry(start) // in the middle of a minute
	id := ID{Name: ConsumedRead, Table: "T"}
	r.Series(id).Add(1)
	next := start.Truncate(time.Minute).Add(time.Minute)
	r.Advance(next)
	r.Series(id).Add(2)
	r.Series(id).Add(3)
	if _, ok := r.Sum(id, next); ok {
		t.Error("the present minute is known")
	}
	r.Advance(next.Add(2 * time.Minute))
	for _, c := range []struct {
		name   string
		minute time.Time
		sum    float64
		ok     bool
	}{
		{"that of the start", start, 0, false},
		{"a whole one", next, 5, true},
		{"an idle one", next.Add(time.Minute), 0, true},
		{"the present one", next.Add(2 * time.Minute), 0, false},
	} {
		if sum, ok := r.Sum(id, c.minute); sum != c.sum || ok != c.ok {
			t.Errorf("%s: %v, %v", c.name, sum, ok)
		}
	}
}

func TestQuantiles(t *testing.T) {
	r := NewRegistry(start)
	id := ID{Name: Latency, Table: "T", Operation: "GetItem"}
	for i := range 100 {
		r.Series(id).Add(float64(i + 1)) // 1 to 100 ms
	}
	r.Advance(start.Add(time.Minute))
	s := Summarize(r.Points(id, start.Add(-time.Minute), start.Add(time.Hour)))
	for _, share := range []float64{0.1, 0.5, 0.9, 0.99, 1} {
		// The values are even, so that interpolation is nearly exact.
		if got, ok := s.Quantile(share); !ok || math.Abs(got-100*share) > 1.5 {
			t.Errorf("quantile %v is %v, %v", share, got, ok)
		}
	}
	if _, ok := new(Summary).Quantile(0.5); ok {
		t.Error("no values have a quantile")
	}
}

// Beyond MaxSeries, measurements are added up by name: nothing is lost.
func TestSeriesAreBounded(t *testing.T) {
	r := NewRegistry(start)
	for i := range MaxSeries + 1000 {
		r.Series(ID{Name: ConsumedWrite, Table: fmt.Sprint("T", i)}).Add(1)
	}
	if n := len(r.series); n > MaxSeries+len(definitions) {
		t.Errorf("%d series", n)
	}
	var total float64
	for _, s := range r.series {
		sum, _ := s.sinceStart()
		total += sum.Sum
	}
	if total != MaxSeries+1000 {
		t.Errorf("the sum is %v", total)
	}
	if sum, _ := r.series[ID{Name: ConsumedWrite}].sinceStart(); sum.Sum != 1000 {
		t.Errorf("the sum of the others is %v", sum.Sum)
	}
}

// A series that no value was added to does not exist.
func TestLazySeries(t *testing.T) {
	r := NewRegistry(start)
	var used, idle LazySeries
	used.Of(r, ID{Name: ConsumedRead, Table: "used"})
	idle.Of(r, ID{Name: ConsumedRead, Table: "idle"})
	for range 3 {
		used.Add(2)
	}
	if len(r.series) != 1 || r.series[ID{Name: ConsumedRead, Table: "used"}].sum.Load() != 6000 {
		t.Errorf("the series are %v", r.series)
	}
	if n := testing.AllocsPerRun(100, func() { used.Add(1) }); n != 0 {
		t.Errorf("a value takes %v allocations", n)
	}
}

// Gauges have a bound of their own: those of tables that are not used leave room for the
// counters of others.
func TestGaugesAreBounded(t *testing.T) {
	r := NewRegistry(start)
	r.Sample = func(add func(ID, float64)) {
		for i := range MaxGauges + 10 {
			add(ID{Name: ProvisionedRead, Table: fmt.Sprint("T", i)}, 5)
		}
	}
	r.Advance(start.Add(time.Minute))
	if len(r.series) != MaxGauges || r.gauges != MaxGauges {
		t.Errorf("%d series, %d gauges", len(r.series), r.gauges)
	}
	used := ID{Name: ConsumedRead, Table: "used"}
	r.Series(used).Add(1)
	if r.series[used] == nil {
		t.Error("a counter has no series")
	}
	r.Forget("T7")
	if r.gauges != MaxGauges-1 {
		t.Errorf("%d gauges after a table was deleted", r.gauges)
	}
}

// A gauge that does not change is one point in memory, and one of each minute for
// readers.
func TestUnchangedGauges(t *testing.T) {
	r := NewRegistry(start)
	id, value := ID{Name: ProvisionedRead, Table: "T"}, 5.0
	r.Sample = func(add func(ID, float64)) { add(id, value) }
	minute := func(n int) time.Time { return start.Truncate(time.Minute).Add(time.Duration(n) * time.Minute) }
	for n := range 20 {
		if n == 10 {
			value = 7
		}
		r.Advance(minute(n + 1))
	}
	if r.points != 2 {
		t.Errorf("%d points are kept, want 2", r.points)
	}
	for _, c := range []struct{ from, to, n, sum int }{
		{0, 20, 20, 120}, {0, 5, 5, 25}, {8, 12, 4, 24}, {9, 10, 1, 5}, {10, 11, 1, 7}, {15, 99, 5, 35}, {20, 30, 0, 0}, {5, 5, 0, 0},
	} {
		got := r.Points(id, minute(c.from), minute(c.to))
		if sum := Summarize(got); len(got) != c.n || sum.Sum != float64(c.sum) || sum.Count != int64(c.n) {
			t.Errorf("from %d to %d: %d points with the sum %v, want %d with %d", c.from, c.to, len(got), sum.Sum, c.n, c.sum)
		}
		for i, p := range got {
			if !p.Time().Equal(minute(c.from + i)) {
				t.Errorf("from %d to %d: point %d is at %v", c.from, c.to, i, p.Time())
			}
		}
	}
	r.remove(minute(3).Unix() / 60)
	if got := r.Points(id, minute(0), minute(20)); len(got) != 17 || r.points != 2 || !got[0].Time().Equal(minute(3)) {
		t.Errorf("%d points after the first three minutes were removed", len(got))
	}
	r.remove(minute(12).Unix() / 60)
	if got := r.Points(id, minute(0), minute(20)); len(got) != 8 || r.points != 1 {
		t.Errorf("%d points after the first twelve minutes were removed", len(got))
	}
}

func TestPointsAreBounded(t *testing.T) {
	r := NewRegistry(start)
	const tables = 2000
	now := start
	for range MaxPoints/tables + 100 {
		for i := range tables {
			r.Series(ID{Name: ConsumedWrite, Table: fmt.Sprint("T", i)}).Add(1)
		}
		now = now.Add(time.Minute)
		r.Advance(now)
	}
	kept := 0
	for _, s := range r.series {
		kept += len(s.points)
	}
	if kept != r.points || kept > MaxPoints || kept < MaxPoints/2 {
		t.Errorf("%d points are kept, %d counted", kept, r.points)
	}
	if got := r.Points(ID{Name: ConsumedWrite, Table: "T7"}, now.Add(-time.Minute).Truncate(time.Minute), now); len(got) != 1 {
		t.Errorf("%d of the newest points", len(got))
	}
	r.Advance(now.Add(Retention + time.Hour))
	if r.points != 0 {
		t.Errorf("%d points after the retention", r.points)
	}
}

// When there are so many series that the points of less than an hour are kept, the newest
// remain, and the minutes of the others are not known: they are not idle.
func TestPointsOfManySeries(t *testing.T) {
	r := NewRegistry(start)
	var all []*Series
	for i := range MaxSeries {
		all = append(all, r.Series(ID{Name: ConsumedWrite, Table: fmt.Sprint("T", i)}))
	}
	now := start
	for minute := range 30 {
		for _, s := range all {
			s.Add(1)
		}
		now = now.Add(time.Minute)
		r.Advance(now)
		for back := range min(minute, 12) {
			if sum, ok := r.Sum(ID{Name: ConsumedWrite, Table: "T7"}, now.Add(-time.Duration(back+1)*time.Minute)); sum != 1 || !ok {
				t.Fatalf("in minute %d, the sum of %d minutes before is %v, %v", minute, back+1, sum, ok)
			}
		}
	}
	if sum, ok := r.Sum(ID{Name: ConsumedWrite, Table: "T7"}, start.Add(2*time.Minute)); ok {
		t.Errorf("the sum of a minute that is not kept is %v", sum)
	}
}

// A series without a value has the sum 0, unless it may be one of those that are added up by name.
func TestSumOfUnknownSeries(t *testing.T) {
	r := NewRegistry(start)
	for minute := range 10 {
		r.Advance(start.Add(time.Duration(1+minute) * time.Minute))
	}
	id := ID{Name: ConsumedRead, Table: "T"}
	for minute, want := range map[int]bool{5: true, 9: true, 10: false} {
		if sum, ok := r.Sum(id, start.Add(time.Duration(minute)*time.Minute)); ok != want || sum != 0 {
			t.Errorf("minute %d has %v, known: %v, want %v", minute, sum, ok, want)
		}
	}
	for i := range MaxSeries {
		r.Series(ID{Name: ConsumedRead, Table: fmt.Sprint("other", i)})
	}
	if _, ok := r.Sum(id, start.Add(5*time.Minute)); ok {
		t.Error("the sum of a series that there is no room for is known")
	}
}

// Minutes in which the clock was set are not known.
func TestSumAfterTheClockWasSet(t *testing.T) {
	id := ID{Name: ConsumedRead, Table: "T"}
	for _, c := range []struct {
		name  string
		times []int // of Advance, in minutes
		known map[int]bool
	}{
		{"a busy machine", []int{1, 2, 5, 6}, map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: false}},
		{"forward", []int{1, 2, 3, 60, 61, 62, 63}, map[int]bool{2: false, 3: false, 30: false, 60: false, 61: true, 62: true, 63: false}},
		{"back", []int{1, 2, 30, 31, 32, 20, 25, 31, 32, 33, 34}, map[int]bool{31: false, 32: false, 33: true, 34: false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRegistry(start)
			s := r.Series(id)
			for _, minute := range c.times {
				r.Advance(start.Add(time.Duration(minute) * time.Minute))
				s.Add(1)
			}
			for minute, want := range c.known {
				if sum, ok := r.Sum(id, start.Add(time.Duration(minute)*time.Minute)); ok != want {
					t.Errorf("the sum of minute %d is %v, %v, want %v", minute, sum, ok, want)
				}
			}
		})
	}
}

func TestForget(t *testing.T) {
	r := NewRegistry(start)
	r.Series(ID{Name: ConsumedWrite, Table: "A"}).Add(1)
	r.Series(ID{Name: ConsumedWrite, Table: "B"}).Add(1)
	r.Advance(start.Add(time.Minute))
	r.Forget("A")
	if ids := r.IDs(); len(ids) != 1 || ids[0].Table != "B" || r.points != 1 {
		t.Errorf("%v remain, %d points", ids, r.points)
	}
}

func TestConcurrentValuesAreAllCounted(t *testing.T) {
	r := NewRegistry(start)
	id := ID{Name: Latency, Operation: "GetItem"}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 1000 {
				r.Series(id).Add(1.5)
			}
		})
	}
	for i := range 20 {
		r.Advance(start.Add(time.Duration(i) * time.Minute))
	}
	wait.Wait()
	r.Advance(start.Add(time.Hour))
	if s := Summarize(r.Points(id, start.Add(-time.Hour), start.Add(time.Hour))); s.Sum != 6000 || s.Count != 4000 || s.Min != 1.5 || s.Max != 1.5 {
		t.Errorf("the statistics are %+v", s)
	}
}

func TestMetrics(t *testing.T) {
	r := NewRegistry(start)
	r.Sample = func(add func(ID, float64)) { add(ID{Name: ProvisionedRead, Table: "T", Index: "by-day"}, 5) }
	r.Series(ID{Name: ConsumedRead, Table: "T"}).Add(1.5)
	r.Advance(start.Add(time.Minute))
	r.Series(ID{Name: ConsumedRead, Table: "T"}).Add(1)
	r.Series(ID{Name: Latency, Table: "T", Operation: "GetItem"}).Add(2)
	r.Series(ID{Name: Latency, Table: "U", Operation: "GetItem"}).Add(20_000)
	text := string(metrics.Append(nil, r.Metrics()...))
	for _, want := range []string{
		`dynamodb_consumed_read_capacity_units_total{table="T"} 2.5`,
		`dynamodb_provisioned_read_capacity_units{table="T",index="by-day"} 5`,
		`dynamodb_successful_request_latency_seconds_bucket{operation="GetItem",le="0.001"} 0`,
		`dynamodb_successful_request_latency_seconds_bucket{operation="GetItem",le="0.0025"} 1`,
		`dynamodb_successful_request_latency_seconds_bucket{operation="GetItem",le="+Inf"} 2`,
		`dynamodb_successful_request_latency_seconds_sum{operation="GetItem"} 20.002`,
		`dynamodb_successful_requests_total{table="U",operation="GetItem"} 1`,
		`dynamodb_successful_request_seconds_total{table="T",operation="GetItem"} 0.002`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
}

// A busy table whose values were added up by name gets a series of its own when other
// tables are deleted; the minutes before that are not known.
func TestSumOfASeriesThatGetsRoom(t *testing.T) {
	r := NewRegistry(start)
	for i := range MaxSeries {
		r.Series(ID{Name: ConsumedRead, Table: fmt.Sprint("other", i)})
	}
	busy, idle := ID{Name: ConsumedRead, Table: "busy"}, ID{Name: ConsumedRead, Table: "idle"}
	var lazy LazySeries
	lazy.Of(r, busy)
	for minute := range 8 {
		lazy.Add(10)
		if minute == 3 {
			for i := range 3 {
				r.Forget(fmt.Sprint("other", i))
			}
			lazy.Add(10)
		}
		r.Advance(start.Add(time.Duration(1+minute) * time.Minute))
	}
	for minute := range 8 {
		at, want := start.Add(time.Duration(minute)*time.Minute), minute > 3
		if sum, ok := r.Sum(busy, at); ok != want || ok && sum != 10 {
			t.Errorf("minute %d of the busy table has %v, known: %v, want %v", minute, sum, ok, want)
		}
		if sum, ok := r.Sum(idle, at); ok != want || sum != 0 {
			t.Errorf("minute %d of the idle table has %v, known: %v, want %v", minute, sum, ok, want)
		}
		if _, ok := r.Sum(ID{Name: ConsumedRead, Table: "other9"}, at); ok != (minute > 0) {
			t.Errorf("minute %d of a table with a series is known: %v", minute, ok)
		}
	}
	if n := testing.AllocsPerRun(100, func() { lazy.Add(1) }); n != 0 {
		t.Errorf("a value takes %v allocations", n)
	}
}
