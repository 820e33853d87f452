package metrics

import (
	"math"
	"testing"
)

func TestAppend(t *testing.T) {
	got := string(Append(nil,
		Metric{Name: "up", Help: "a \\ and\na line", Type: Gauge, Samples: Value(1)},
		Metric{Name: "found_total", Help: "By kind.", Type: Counter, Samples: []Sample{{"kind", `a"b\c` + "\n", 1e9}, {"kind", "x", 0.25}, {"kind", "nan", math.NaN()}}},
	))
	want := `# HELP up a \\ and\na line
# TYPE up gauge
up 1
# HELP found_total By kind.
# TYPE found_total counter
found_total{kind="a\"b\\c\n"} 1e+09
found_total{kind="x"} 0.25
found_total{kind="nan"} NaN
`
	if got != want {
		t.Errorf("Append writes\n%s\nwant\n%s", got, want)
	}
}

func TestInvalidNamesPanic(t *testing.T) {
	for _, m := range []Metric{{Name: ""}, {Name: "a b"}, {Name: "1"}, {Name: "a", Samples: []Sample{{Label: "x-y"}}}} {
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
