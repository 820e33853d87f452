//go:build unix

package ops

import (
	"syscall"
	"testing"
	"time"
)

// BenchmarkOperations measures requests from their body to the bytes of their
// reply, on the in-memory engine.
func BenchmarkOperations(b *testing.B) {
	h := newHotTest(b)
	for _, r := range hotRequests {
		b.Run(r.name, func(b *testing.B) {
			h.tb = b
			// The bodies are made in advance; there are more than a CPU cache holds.
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
			// Unlike elapsed time, CPU time does not depend on the load.
			b.ReportMetric(float64(cpuTime()-used)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime returns the CPU time of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
