//go:build linux && cluster

package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Servers on one cluster share the units of a table: together they admit what one would. Three
// that do not share would admit three times as much.
func TestServersShareTheirLimits(t *testing.T) {
	const units, writers, long = 100, 4, 30 * time.Second
	servers := serve(t, 3, engineURL(t), "--throttle")
	keyed(t, servers[0], "Limited", object{
		"BillingMode":           "PROVISIONED",
		"ProvisionedThroughput": object{"ReadCapacityUnits": units, "WriteCapacityUnits": units},
	})
	var admitted, throttled atomic.Int64
	began := time.Now()
	var running sync.WaitGroup
	for i, s := range servers {
		for w := range writers {
			running.Go(func() {
				for n := 0; time.Since(began) < long; n++ {
					err := s.call(t.Context(), "PutItem", object{"TableName": "Limited", "Item": object{"id": str(fmt.Sprint(i, w, n))}}, nil)
					switch {
					case err == nil:
						admitted.Add(1)
					case codeOf(err) == "ProvisionedThroughputExceededException":
						throttled.Add(1)
						time.Sleep(5 * time.Millisecond)
					case !mayPass(err):
						t.Error(err)
						return
					}
				}
			})
		}
	}
	running.Wait()
	seconds := time.Since(began).Seconds()
	n := admitted.Load()
	t.Logf("%d writes in %.1f s through %d servers, %d throttled; the table has %d units", n, seconds, len(servers), throttled.Load(), units)
	// Servers know of each other up to two seconds late, on a busy machine later.
	if most := int64(units * (seconds + 15)); n > most {
		t.Errorf("%d writes in %.1f s, want at most %d", n, seconds, most)
	}
	if throttled.Load() == 0 {
		t.Errorf("no write was throttled: the load is too small for this test")
	}
}
