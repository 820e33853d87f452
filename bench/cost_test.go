package main

import (
	"math"
	"strings"
	"testing"
)

func TestParseCostTarget(t *testing.T) {
	for _, c := range []struct{ text, name, group string }{{"a=/x/b", "a", ""}, {"a=/x/b:throttle", "a", "throttle"}} {
		if got, err := parseCostTarget(c.text); err != nil || got.name != c.name || got.binary != "/x/b" || got.group != c.group {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
	}
	for _, text := range []string{"", "a", "=b", "a="} {
		if _, err := parseCostTarget(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestParseCostOutput(t *testing.T) {
	out := []byte("==1== Events\ngoos: linux\nBenchmarkAnswer/GetItem \t 2000\t 20134 ns/op\t 7010 cpu-ns/op\t 369 B/op\t 7 allocs/op\nPASS\n==1== Collected : 606219821\n")
	r, err := parseBenchLine(out)
	if err != nil || r["cpu-ns/op"] != 7010 || r["B/op"] != 369 || r["allocs/op"] != 7 {
		t.Errorf("%v, %v", r, err)
	}
	if n, err := parseCollected(out); err != nil || n != 606219821 {
		t.Errorf("%v, %v", n, err)
	}
	if _, err := parseBenchLine([]byte("PASS\n")); err == nil {
		t.Error("a run without a benchmark is accepted")
	}
	if _, err := parseCollected([]byte("PASS\n")); err == nil {
		t.Error("a run without a count is accepted")
	}
}

// The interval has the median, is that value if all are equal, and is narrower with more values.
func TestResampled(t *testing.T) {
	if x := resampled([]float64{2, 2, 2}); x != (interval{2, 2, 2}) {
		t.Errorf("%+v", x)
	}
	var few, many []float64
	for i := range 400 {
		v := 1 + math.Mod(float64(i)*0.618, 1)
		if i < 10 {
			few = append(few, v)
		}
		many = append(many, v)
	}
	a, b := resampled(few), resampled(many)
	if a.low > a.median || a.median > a.high || b.high-b.low >= (a.high-a.low)/2 || b.low > 1.5 || b.high < 1.5 {
		t.Errorf("of 10 values %+v, of 400 %+v", a, b)
	}
}

func TestCostIsPrinted(t *testing.T) {
	c := &costs{targets: []costTarget{{name: "before"}, {name: "after"}}}
	var out strings.Builder
	err := c.print(&out, []*costCell{
		{operation: "GetItem", target: c.targets[0], nanoseconds: []float64{1000, 2000}, bytes: 400, allocations: 8},
		{operation: "GetItem", target: c.targets[1], nanoseconds: []float64{900, 1800}, bytes: 360, allocations: 7},
	})
	if err != nil || !strings.Contains(out.String(), "0.900  0.900 to 0.900    360            7") {
		t.Errorf("%v:\n%s", err, &out)
	}
}
