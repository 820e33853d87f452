package prove

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/model"
)

// arrival is the time at which a pattern is due to run.
type arrival struct {
	at      time.Duration
	pattern int
	run     int // index of the prepared run
}

// Rate is the load to send: a multiple of the declared rates, or a total number
// of runs per second.
type Rate struct {
	Times     float64
	PerSecond float64
}

// ParseRate parses a rate such as 1x, 0.1x, 200 or 200/s.
func ParseRate(text string) (Rate, error) {
	number, times := strings.CutSuffix(text, "x")
	if !times {
		number = strings.TrimSuffix(number, "/s")
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0) || n > 1e9 {
		return Rate{}, fmt.Errorf("%q is not a rate: write 1x or 0.1x for a multiple of the declared rates, or a number of runs a second", text)
	}
	if times {
		return Rate{Times: n}, nil
	}
	return Rate{PerSecond: n}, nil
}

// of returns the rates of patterns, per second.
func (r Rate) of(patterns []*model.Pattern) []float64 {
	rates, sum := make([]float64, len(patterns)), 0.0
	for i, p := range patterns {
		rates[i] = p.Rate.PerSecond
		sum += rates[i]
	}
	times := r.Times
	if r.PerSecond > 0 && sum > 0 {
		times = r.PerSecond / sum
	}
	for i := range rates {
		rates[i] *= times
	}
	return rates
}

// maxArrivals bounds the memory that a schedule needs.
const maxArrivals = 1_000_000

// schedule returns when each pattern is due: at random times around its rate,
// independent of the completion of earlier requests.
func schedule(rates []float64, during time.Duration, chance *rand.Rand) ([]arrival, error) {
	sum := 0.0
	for _, rate := range rates {
		sum += rate
	}
	if n := sum * during.Seconds(); n > maxArrivals {
		return nil, fmt.Errorf("that is %.0f runs, and the limit is %d: use a lower rate or a shorter time", n, maxArrivals)
	}
	var all []arrival
	for i, rate := range rates {
		if rate <= 0 {
			continue
		}
		for at := chance.ExpFloat64() / rate; at < during.Seconds(); at += chance.ExpFloat64() / rate {
			all = append(all, arrival{at: time.Duration(at * float64(time.Second)), pattern: i})
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return all, nil
}
