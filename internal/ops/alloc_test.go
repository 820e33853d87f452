//go:build !race

package ops

import (
	"math"
	"testing"
)

// mostAllocs is how often each of the common requests may allocate, from its
// body to the bytes of its reply: a little more than it does now. The commit
// that raises a number says why.
var mostAllocs = map[string]float64{
	"GetItem":                 8, // of an item that is not in the value cache; two fewer if it is
	"PutItem":                 14,
	"PutItem indexed":         19,
	"UpdateItem":              36,
	"DeleteItem":              13,
	"Query of 10":             29,
	"Query of 10 filtered":    49,
	"Query of 10 on GSI":      32,
	"Scan page":               18,
	"BatchGetItem of 25":      100,
	"BatchWriteItem of 25":    100,
	"TransactWriteItems of 4": 98,
}

func TestAllocations(t *testing.T) {
	h := newHotTest(t)
	for _, r := range hotRequests {
		t.Run(r.name, func(t *testing.T) {
			most, ok := mostAllocs[r.name]
			if !ok {
				t.Fatal("the request has no limit")
			}
			const runs, attempts = 100, 3
			bodies := make([][]byte, attempts*(runs+1)) // AllocsPerRun makes one extra run
			for i := range bodies {
				bodies[i] = []byte(r.body(i))
				if r.operation == "TransactWriteItems" {
					setToken(bodies[i], i)
				}
			}
			i := 0
			// The work in the background allocates too, and a garbage collection empties the pools: the
			// attempt that they disturbed least counts.
			got := math.Inf(1)
			for range attempts {
				got = min(got, testing.AllocsPerRun(runs, func() {
					h.do(r.operation, bodies[i])
					i++
				}))
			}
			if got > most {
				t.Errorf("%v allocations, want at most %v", got, most)
			}
			t.Logf("%v of %v", got, most)
		})
	}
}
