package metrics

import (
	"math"
	"testing"
	"time"
)

func TestAppend(t *testing.T) {
	got := string(Append(nil,
		Metric{Name: "up", Help: "a \\ and\na line", Type: Gauge, Samples: Value(1)},
		Metric{Name: "found_total", Help: "By kind.", Type: Counter, Samples: []Sample{By("kind", `a"b\c`+"\n", 1e9), By("kind", "x", 0.25), By("kind", "nan", math.NaN())}},
		Metric{Name: "took_seconds", Help: "By table.", Type: Histogram, Samples: HistogramValue{Bounds: []float64{0.001, 1}, Counts: []int64{2, 0, 1}, Sum: 3.5}.Samples(Label{"table", "T"}, Label{"index", "i"})},
	))
	want := `# HELP up a \\ and\na line
# TYPE up gauge
up 1
# HELP found_total By kind.
# TYPE found_total counter
found_total{kind="a\"b\\c\n"} 1e+09
found_total{kind="x"} 0.25
found_total{kind="nan"} NaN
# HELP took_seconds By table.
# TYPE took_seconds histogram
took_seconds_bucket{table="T",index="i",le="0.001"} 2
took_seconds_bucket{table="T",index="i",le="1"} 2
took_seconds_bucket{table="T",index="i",le="+Inf"} 3
took_seconds_sum{table="T",index="i"} 3.5
took_seconds_count{table="T",index="i"} 3
`
	if got != want {
		t.Errorf("Append writes\n%s\nwant\n%s", got, want)
	}
}

func TestInvalidNamesPanic(t *testing.T) {
	for _, m := range []Metric{{Name: ""}, {Name: "a b"}, {Name: "1"}, {Name: "a", Samples: []Sample{By("x-y", "", 0)}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is accepted", m)
				}
			}()
			Append(nil, m)
		}()
	}
}

func TestDurations(t *testing.T) {
	var d Durations
	for _, took := range []time.Duration{0, 100 * time.Microsecond, 101 * time.Microsecond, 11 * time.Second} {
		d.Observe(took)
	}
	h := d.Value()
	if h.Counts[0] != 2 || h.Counts[1] != 1 || h.Counts[len(h.Counts)-1] != 1 || h.Sum != 11.000201 {
		t.Errorf("the value is %+v", h)
	}
}
