package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAlign(t *testing.T) {
	got := align([][]string{{"NAME", "OPS/S", "RATIO"}, {"a", "12,345", "1.00"}, nil, {"longer", "-", "10.25"}})
	want := "" +
		"NAME     OPS/S  RATIO\n" +
		"a       12,345   1.00\n" +
		"\n" +
		"longer       -  10.25\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestThousands(t *testing.T) {
	for _, c := range []struct {
		in   float64
		want string
	}{{0, "0"}, {999, "999"}, {1000, "1,000"}, {1234567.8, "1,234,568"}} {
		if got := thousands(c.in); got != c.want {
			t.Errorf("%v is %s, want %s", c.in, got, c.want)
		}
	}
}

// One bad round does not spoil the ratio, since rounds are compared by pairs.
func TestRatio(t *testing.T) {
	first := &cell{rounds: []float64{100, 10, 100}}
	other := &cell{rounds: []float64{50, 5, 40}}
	if got := other.ratio(first); got != 0.5 {
		t.Errorf("got %v", got)
	}
	if got := other.ratio(&cell{rounds: []float64{0}}); got != 0 {
		t.Errorf("relative to no rounds the ratio is %v", got)
	}
}

// The table and the JSON hold the same facts; an unknown figure is a dash in the
// table and absent in the JSON.
func TestReport(t *testing.T) {
	put, _ := workloadNamed("put")
	one := &target{name: "one"}
	two := &target{name: "two"}
	a := &cell{workload: put, connections: 4, target: one, able: true, rounds: []float64{1000, 2000}, cpu: time.Second, cpuKnown: true}
	a.sum = sample{Ops: 3000, Items: 3000, AllOps: 4000}
	a.sum.Latency.record(50)
	b := &cell{workload: put, connections: 4, target: two, able: true, rounds: []float64{0}}
	b.sum = sample{Errors: 20, First: "400 no such thing"}
	r := &report{Date: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Machine: machine{CPUs: 2, System: "linux/amd64", Go: "go1.26"}}
	r.Figures = summarise([]*cell{a, b, {workload: put, target: two}, {workload: put, target: two}}, 2)
	var out bytes.Buffer
	r.print(&out)
	for _, want := range []string{
		"put                 4  one     1,500  1.000       0   1.00       0         0        250  -       -             1,500   1.5       0\n",
		"put                 4  two         -      -       -      -       -         -          -  -       -                 -     -      20\n",
		"two, put: 400 no such thing\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in\n%s", want, &out)
		}
	}
	file := filepath.Join(t.TempDir(), "report.json")
	if err := r.writeJSON(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var back struct{ Workloads []map[string]any }
	if err := json.Unmarshal(text, &back); err != nil || len(back.Workloads) != 2 {
		t.Fatalf("%d lines, %v", len(back.Workloads), err)
	}
	if got := back.Workloads[0]["ops_per_second"]; got != 1500.0 {
		t.Errorf("ops_per_second is %v", got)
	}
	if got, known := back.Workloads[1]["cpu_us_per_op"]; known {
		t.Errorf("cpu_us_per_op is %v, but it is unknown", got)
	}
}
