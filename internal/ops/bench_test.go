//go:build unix

package ops

import (
	"syscall"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/cache"
	"github.com/stator-db/stator/internal/language/expr"
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

// BenchmarkHeat compares GetItem with counts by hash range and without. The two take turns, so that
// the load of the machine is the same for both.
func BenchmarkHeat(b *testing.B) {
	var used [2]time.Duration
	var tests [2]*hotTest
	for i := range tests {
		tests[i] = newHotTestWith(b, db.Options{WithoutHeat: i == 1})
	}
	get := hotRequests[0]
	if get.operation != "GetItem" {
		b.Fatal(get.name)
	}
	n := 0
	for b.Loop() {
		for i, h := range tests {
			began := cpuTime()
			for j := range 1000 {
				h.do("GetItem", []byte(get.body(n+j)))
			}
			used[i] += cpuTime() - began
		}
		n += 1000
	}
	b.ReportMetric(float64(used[0])/float64(n), "cpu-ns/get")
	b.ReportMetric(float64(used[1])/float64(n), "cpu-ns/get-without")
}

// BenchmarkCacheHits measures requests that are answered from the cache, as
// BenchmarkOperations measures those that are not.
func BenchmarkCacheHits(b *testing.B) {
	h := newHotTest(b)
	h.service = New(Parts{DB: h.service.DB, Cache: cache.New(cache.Options{Mode: cache.DAX, QueryTTL: time.Hour, Bytes: 256 << 20, Elapsed: h.service.DB.Clock().Elapsed})})
	for _, r := range hotRequests {
		if r.operation != "GetItem" && r.operation != "Query" && r.operation != "BatchGetItem" {
			continue
		}
		b.Run(r.name, func(b *testing.B) {
			bodies := make([][]byte, 2000)
			do := func(i int) {
				ctx := ThroughCache(b.Context())
				if _, err := answer(ctx, h.service, r.operation, bodies[i%len(bodies)], &h.memory); err != nil {
					b.Fatal(err)
				}
				if i >= len(bodies) && CacheUsed(ctx) != CacheHit {
					b.Fatal("a miss")
				}
			}
			for i := range bodies {
				bodies[i] = []byte(r.body(i))
				do(i)
			}
			b.ReportAllocs()
			i, used := len(bodies), cpuTime()
			for b.Loop() {
				do(i)
				i++
			}
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

// BenchmarkShapes measures what counting adds to a request.
func BenchmarkShapes(b *testing.B) {
	h := newHotTest(b)
	condition, names := "#p = :p AND sk > :s", map[string]string{"#p": "gk"}
	key := item.Make(map[string]item.Value{"pk": item.String("CUSTOMER#000001"), "sk": item.String("ORDER#000001")})
	for _, c := range []struct {
		name string
		usage
	}{
		{"GetItem", usage{returned: 1, scanned: 1, unmeasured: true, asked: asked{operation: "GetItem", table: "plain", key: key}}},
		{"PutItem", usage{consumed: capacity.Consumed{Table: 1}, asked: asked{operation: "PutItem", table: "plain", item: key}}},
		{"Query", usage{returned: 10, scanned: 10, consumed: capacity.Consumed{Table: 1}, asked: asked{
			operation: "Query", table: "indexed", index: "group", expressions: [3]*string{&condition}, names: names,
			keys: &expr.KeyRange{Partition: []item.Value{item.String("CUSTOMER#000001")}, Sort: []expr.KeyTest{{Name: "sk", Op: expr.Greater, Values: []item.Value{item.String("ORDER#000001")}}}},
		}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			used := cpuTime()
			for b.Loop() {
				c.count(h.service.counter(&c.asked))
			}
			b.ReportMetric(float64(cpuTime()-used)/float64(b.N), "cpu-ns/op")
		})
	}
}
