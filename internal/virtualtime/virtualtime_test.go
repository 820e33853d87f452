package virtualtime

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// Timers that several goroutines look at in the same moment do not end the process. With
// synctest.Test in place of Test, the race detector ends it.
func TestTimersOfManyGoroutines(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	for range 10 {
		Test(t, func(*testing.T) {
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					timers := make([]*time.Timer, 100)
					for range 20 {
						for i := range timers {
							timers[i] = time.NewTimer(time.Second)
						}
						time.Sleep(time.Second)
						for _, timer := range timers {
							<-timer.C
						}
					}
				})
			}
			group.Wait()
		})
	}
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("GOMAXPROCS is %d afterwards, want %d", after, before)
	}
}
