package scaling

import (
	"slices"
	"testing"
)

func TestTrack(t *testing.T) {
	same := func(rate float64, n int) []float64 { return slices.Repeat([]float64{rate}, n) }
	for _, c := range []struct {
		name   string
		target float64
		bounds Bounds
		units  int64
		rates  []float64 // the latest first
		want   int64
		to     Direction
	}{
		{"two periods above", 70, Bounds{1, 100}, 10, []float64{14, 7.5, 2}, 20, Out},
		{"the target itself is not above it", 50, Bounds{1, 100}, 10, same(5, 15), 10, None},
		{"one period above", 70, Bounds{1, 100}, 10, []float64{14, 7, 2}, 10, None},
		{"one period is known", 70, Bounds{1, 100}, 10, []float64{14}, 10, None},
		{"the maximum", 70, Bounds{1, 12}, 10, []float64{14, 14}, 12, Out},
		{"above the maximum", 70, Bounds{1, 8}, 10, []float64{14, 14}, 10, None},
		{"fifteen periods below", 70, Bounds{1, 100}, 10, append(same(0.5, 14), 2), 3, In},
		{"fourteen periods below", 70, Bounds{1, 100}, 10, append(same(0.5, 14), 5), 10, None},
		{"fourteen periods are known", 70, Bounds{1, 100}, 10, same(0.5, 14), 10, None},
		{"the minimum", 70, Bounds{5, 100}, 10, same(0, 15), 5, In},
		{"below the minimum", 70, Bounds{5, 100}, 3, same(0, 15), 3, None},
		{"a low target", 20, Bounds{1, 100}, 10, same(0.9, 15), 5, In},
		{"between the thresholds of a low target", 20, Bounds{1, 100}, 10, same(1, 15), 10, None},
		{"no unit for an error of rounding", 70, Bounds{1, 100}, 10, same(2.1, 15), 3, In},
		{"more than there can be", 70, Bounds{1, 40000}, 10, []float64{1e18, 1e18}, 40000, Out},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, to := c.bounds.Track(c.target, c.units, c.rates); got != c.want || to != c.to {
				t.Errorf("%d units in direction %d, want %d in %d", got, to, c.want, c.to)
			}
		})
	}
}
