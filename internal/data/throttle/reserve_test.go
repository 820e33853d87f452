package throttle

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/schema"
)

func TestReserve(t *testing.T) {
	type minute struct {
		rate             int64
		units, exceeding float64
	}
	for _, c := range []struct {
		name    string
		minutes []minute
	}{
		{"a new table has one second", []minute{{10, 610, 0}, {10, 601, 1}}},
		{"300 seconds are kept", []minute{{10, 0, 0}, {10, 0, 0}, {10, 0, 0}, {10, 0, 0}, {10, 0, 0}, {10, 0, 0}, {10, 0, 0}, {10, 3600, 0}, {10, 600.5, 0.5}}},
		{"what exceeds the limit is not owed", []minute{{10, 10_000, 9390}, {10, 600, 0}}},
		{"fewer units keep fewer seconds", []minute{{10, 0, 0}, {10, 0, 0}, {10, 0, 0}, {10, 0, 0}, {10, 0, 0}, {10, 0, 0}, {1, 361, 1}}},
		{"more units keep what there was", []minute{{1, 0, 0}, {10, 662, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Reserve
			for i, m := range c.minutes {
				if got := r.Consume(m.rate, m.units, time.Minute); math.Abs(got-m.exceeding) > 1e-9 {
					t.Errorf("minute %d: %v units exceed the limit, want %v", i, got, m.exceeding)
				}
			}
		})
	}
}

// A reserve exceeds by as much as requests of one unit are throttled, that a table gets in
// equal distances.
func TestReserveIsTheLimitOfATable(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	const rate = 5
	def := &schema.Table{Name: "T", Throughput: schema.Throughput{Read: rate, Write: rate}}
	table := New(def, 0, func(uint16) int64 { return 0 })
	var r Reserve
	for minute := range 200 {
		units := random.IntN(60 * 2 * rate)
		if random.IntN(3) == 0 {
			units /= 10
		}
		throttled := 0
		for i := range units {
			now := time.Duration(minute)*time.Minute + time.Duration(i)*time.Minute/time.Duration(units)
			if table.Admit(now, Read, Place{}) != nil {
				throttled++
				continue
			}
			table.Charge(now, Read, Place{}, 1)
		}
		// A request is admitted as long as something is left: up to one unit of difference.
		if got := r.Consume(rate, float64(units), time.Minute); math.Abs(got-float64(throttled)) > 3 {
			t.Fatalf("seed %d, minute %d: %v of %d units exceed the reserve, and %d are throttled", seed, minute, got, units, throttled)
		}
	}
}

func TestWarmFor(t *testing.T) {
	rates := func(n int, rate float64) []float64 { return slices.Repeat([]float64{60 * rate}, n) }
	for _, c := range []struct {
		name    string
		minutes []float64
		want    float64
	}{
		{"nothing", nil, 0},
		{"a steady load is needed from the first minute", rates(100, 50), 50},
		{"twice as much after thirty minutes", append(rates(32, 50), rates(10, 100)...), 50},
		{"more than twice as much", append(rates(32, 50), rates(10, 101)...), 101},
		{"twice as much too early", append(rates(29, 50), rates(1, 90)...), 90},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := WarmFor(c.minutes); math.Abs(got-c.want) > 1e-9 {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
