package rightsize

import (
	"math"
	"sort"
	"time"

	"github.com/stator-db/stator/internal/data/throttle"
)

// throttledBy returns how many units exceed a constant number of provisioned units.
func throttledBy(consumed []float64, units int64) (exceeding float64) {
	var r throttle.Reserve
	for _, n := range consumed {
		exceeding += r.Consume(units, n, time.Minute)
	}
	return exceeding
}

// tolerance is the error of sums that is not throttling, in units.
const tolerance = 1e-6

// smallest returns the smallest constant number of provisioned units of which no more than
// a share of the consumed units would have been throttled. Fewer units throttle at least
// as much, so it can be searched for.
func smallest(consumed []float64, share float64) int64 {
	total, most := 0.0, 0.0
	for _, n := range consumed {
		total, most = total+n, max(most, n)
	}
	enough := max(1, int64(math.Ceil(most/60))) // nothing is throttled
	return 1 + int64(sort.Search(int(enough-1), func(i int) bool {
		return throttledBy(consumed, int64(i)+1) <= share*total+tolerance
	}))
}
