package wire

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// processorTime returns the time that a processor works on f, without the time that
// other programs take: the least of five runs.
func processorTime(t *testing.T, f func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID; getrusage counts in ticks
		var at syscall.Timespec
		if _, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&at)), 0); failed != 0 {
			t.Fatal(failed)
		}
		return time.Duration(at.Nano())
	}
	least := time.Duration(1<<63 - 1)
	for range 5 {
		began := used()
		f()
		least = min(least, used()-began)
	}
	return least
}

// isLinear reports whether f(n) costs about n, and not n squared. It compares the costs
// of n and 16 n, so that neither a slow nor a busy machine matters.
func isLinear(t *testing.T, n int, f func(n int)) bool {
	t.Helper()
	small, large := processorTime(t, func() { f(n) }), processorTime(t, func() { f(16 * n) })
	t.Logf("%v for %d, %v for %d", small, n, large, 16*n)
	return large <= 64*max(small, 100*time.Microsecond)
}

// The cost of a deeply nested body is linear, wherever the nesting is.
func TestDepthIsCheap(t *testing.T) {
	for name, body := range map[string]func(levels int) string{
		"an item": func(n int) string { return `{"TableName": "abc", "Item": {"a": ` + nested(`{"L": [`, `]}`, n) + `}}` },
		"an item of maps": func(n int) string {
			return `{"TableName": "abc", "Item": {"a": ` + nested(`{"M": {"a": `, `}}`, n) + `}}`
		},
		"an unknown member":             func(n int) string { return `{"x": ` + nested(`[{"a": `, `}]`, n) + `}` },
		"a value's unknown member":      func(n int) string { return `{"Item": {"a": {"x": ` + nested(`[`, `]`, n) + `}}}` },
		"a body that never ends":        func(n int) string { return `{"x": ` + strings.Repeat(`[`, 2*n) },
		"a list of lists":               func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) },
		"a request within requests":     func(n int) string { return strings.Repeat(`{"Item": `, n) },
		"values of values without ends": func(n int) string { return `{"Item": {"a": ` + strings.Repeat(`{"M": {"a": `, n) },
		"a name of escapes":             func(n int) string { return `{"` + strings.Repeat(`\u0041`, n) + `": 1}` },
	} {
		t.Run(name, func(t *testing.T) {
			if !isLinear(t, 12_500, func(n int) { decode(t, "PutItem", body(n)) }) {
				t.Error("the cost is not linear")
			}
		})
	}
}

// The control: a cost that is not linear is found.
func TestQuadraticCostIsFound(t *testing.T) {
	const n = 1000
	text := make([]byte, 16*n)
	sum := 0
	quadratic := func(n int) { // as a decoder that reads the rest again at each level
		for i := range n {
			for _, c := range text[i:n] {
				sum += int(c)
			}
		}
	}
	if isLinear(t, n, quadratic) {
		t.Error("a quadratic cost was taken for linear")
	}
}
