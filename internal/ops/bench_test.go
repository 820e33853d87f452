//go:build unix

package ops

import (
	"syscall"
	"testing"
	"time"
)

// From a request's body to the bytes of its reply, over the engine in memory.
func BenchmarkOperations(b *testing.B) {
	h := newHotTest(b)
	for _, r := range hotRequests {
		b.Run(r.name, func(b *testing.B) {
			h.tb = b
			// Made beforehand, and more of them than fit a cache.
			bodies := make([][]byte, 2000)
			for i := range bodies {
				bodies[i] = []byte(r.body(i))
			}
			b.ReportAllocs()
			size, i, used := 0, 0, cpuTime()
			for b.Loop() {
				body := bodies[i%len(bodies)]
				if r.operation == "TransactWriteItems" {
					setToken(body, i)
				}
				size = len(h.do(r.operation, body))
				i++
			}
			b.SetBytes(int64(size))
			// What is told by a clock depends on who else is at work.
			b.ReportMetric(float64(cpuTime()-used)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is what this process has used of the processors so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
