// Package metricmath evaluates the expressions of CloudWatch's metric math over time series.
//
// It does not know where the series come from.
package metricmath

import (
	"fmt"
	"math"
	"slices"
)

// Error is a fault of an expression.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

func faulty(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// Point is a value of a series.
type Point struct {
	Time  int64 // the beginning of its period, in seconds since 1970
	Value float64
}

// Series is values in the order of their times.
type Series struct {
	Points []Point
	Period int64 // seconds
	Source any   // where the values come from, for whoever asked for them; nil if they are computed from several
}

// Value is what an expression yields: a number, a series or a list of series.
type Value struct {
	Number float64
	Series []Series
	Kind   Kind
}

// Kind is the kind of a Value.
type Kind byte

// The kinds of values.
const (
	Number Kind = iota
	Single      // one series
	List        // of any number of series
)

func (k Kind) String() string {
	return [...]string{"a number", "a time series", "a list of time series"}[k]
}

// MaxPoints is how many points the expressions of a request read and make at most.
const MaxPoints = 2_000_000

// Request is what expressions are evaluated for.
type Request struct {
	// From and To are the times that FILL and TIME_SERIES yield values for, and Period is that
	// of TIME_SERIES; in seconds. Period is 0 if it is not known.
	From, To, Period int64
	// Query returns the value of another query.
	Query func(id string) (Value, error)
	// Metrics returns the metrics of the request whose id contains a text.
	Metrics func(id string) ([]Series, error)
	// Search returns the metrics that a search finds.
	Search func(search, statistic string, period int64) ([]Series, error)

	points int // that were read and made
}

// Count counts points that are read or made. It reports an *Error if there are too many.
func (r *Request) Count(points int) error {
	if r.points += points; r.points > MaxPoints {
		return faulty("the expressions of the request have more than %d values: increase the period, or decrease the time range", MaxPoints)
	}
	return nil
}

// countAll counts the points of some series.
func (r *Request) countAll(all []Series) error {
	n := 0
	for _, s := range all {
		n += len(s.Points)
	}
	return r.Count(n)
}

// Evaluate returns the value of an expression.
func (x *Expression) Evaluate(r *Request) (Value, error) { return r.evaluate(x.root) }

func (r *Request) evaluate(n *node) (Value, error) {
	switch n.kind {
	case number:
		return Value{Number: n.number}, nil
	case identifier:
		return r.Query(n.text)
	case text:
		return Value{}, faulty("the text %q is not expected", n.text)
	case keyword:
		return Value{}, faulty("%s is not expected", n.text)
	}
	if n.of != nil {
		return n.of(r, n.args)
	}
	args, err := r.all(n.args)
	if err != nil {
		return Value{}, err
	}
	if n.text == "negate" {
		return r.each(args[0], func(v float64) float64 { return -v })
	}
	return r.combine(n.text, args[0], args[1])
}

// all returns the values of arguments.
func (r *Request) all(args []*node) ([]Value, error) {
	values := make([]Value, len(args))
	for i, a := range args {
		var err error
		if values[i], err = r.evaluate(a); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func truth(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

// binary holds the operators with two operands.
var binary = map[string]func(a, b float64) float64{
	"+": func(a, b float64) float64 { return a + b },
	"-": func(a, b float64) float64 { return a - b },
	"*": func(a, b float64) float64 { return a * b },
	"/": func(a, b float64) float64 { return a / b },
	"^": math.Pow,

	"==": func(a, b float64) float64 { return truth(a == b) },
	"!=": func(a, b float64) float64 { return truth(a != b) },
	"<":  func(a, b float64) float64 { return truth(a < b) },
	">":  func(a, b float64) float64 { return truth(a > b) },
	"<=": func(a, b float64) float64 { return truth(a <= b) },
	">=": func(a, b float64) float64 { return truth(a >= b) },

	"AND": func(a, b float64) float64 { return truth(a != 0 && b != 0) },
	"&&":  func(a, b float64) float64 { return truth(a != 0 && b != 0) },
	"OR":  func(a, b float64) float64 { return truth(a != 0 || b != 0) },
	"||":  func(a, b float64) float64 { return truth(a != 0 || b != 0) },
}

// combine returns the result of an operator. Of two series there are the times that both have.
func (r *Request) combine(name string, a, b Value) (Value, error) {
	f := binary[name]
	switch {
	case a.Kind == List && b.Kind == List:
		return Value{}, faulty("the operator %s does not combine two lists of time series", name)
	case b.Kind == Number:
		return r.each(a, func(v float64) float64 { return f(v, b.Number) })
	case a.Kind == Number:
		return r.each(b, func(v float64) float64 { return f(a.Number, v) })
	case b.Kind == Single:
		if err := r.Count(len(b.Series[0].Points) * len(a.Series)); err != nil {
			return Value{}, err
		}
		return r.mapSeries(a, func(s Series) Series { return joined(s, b.Series[0], f) })
	}
	if err := r.Count(len(a.Series[0].Points) * len(b.Series)); err != nil {
		return Value{}, err
	}
	return r.mapSeries(b, func(s Series) Series { return joined(a.Series[0], s, f) })
}

// joined combines two series at the times that both have.
func joined(a, b Series, f func(a, b float64) float64) Series {
	out := Series{Period: max(a.Period, b.Period)}
	for i, j := 0, 0; i < len(a.Points) && j < len(b.Points); {
		switch p, q := a.Points[i], b.Points[j]; {
		case p.Time < q.Time:
			i++
		case p.Time > q.Time:
			j++
		default:
			out.Points = append(out.Points, Point{p.Time, f(p.Value, q.Value)})
			i, j = i+1, j+1
		}
	}
	return out
}

// each applies a function to each value.
func (r *Request) each(v Value, f func(float64) float64) (Value, error) {
	if v.Kind == Number {
		return Value{Number: f(v.Number)}, nil
	}
	return r.mapSeries(v, func(s Series) Series {
		out := Series{Period: s.Period, Points: make([]Point, 0, len(s.Points))}
		for _, p := range s.Points {
			out.Points = append(out.Points, Point{p.Time, f(p.Value)})
		}
		return out
	})
}

// mapSeries applies a function to each series, and leaves out values that are no numbers, such as
// those of a division by 0.
func (r *Request) mapSeries(v Value, f func(Series) Series) (Value, error) {
	out := Value{Kind: v.Kind, Series: make([]Series, len(v.Series))}
	for i, s := range v.Series {
		made := f(s)
		made.Points = slices.DeleteFunc(made.Points, func(p Point) bool { return math.IsNaN(p.Value) || math.IsInf(p.Value, 0) })
		made.Source = s.Source
		if err := r.Count(len(s.Points) + len(made.Points)); err != nil {
			return Value{}, err
		}
		out.Series[i] = made
	}
	return out, nil
}

// across returns a series with a number for each time that one of some series has: what f
// computes from their values.
func (r *Request) across(all []Series, f func([]float64) float64) (Value, error) {
	if err := r.countAll(all); err != nil {
		return Value{}, err
	}
	out := Series{}
	at := make([]int, len(all))
	var values []float64
	for _, s := range all {
		out.Period = max(out.Period, s.Period)
	}
	for {
		next := int64(math.MaxInt64)
		for i, s := range all {
			if at[i] < len(s.Points) {
				next = min(next, s.Points[at[i]].Time)
			}
		}
		if next == math.MaxInt64 {
			break
		}
		values = values[:0]
		for i, s := range all {
			if at[i] < len(s.Points) && s.Points[at[i]].Time == next {
				values = append(values, s.Points[at[i]].Value)
				at[i]++
			}
		}
		out.Points = append(out.Points, Point{next, f(values)})
	}
	return Value{Kind: Single, Series: []Series{out}}, r.Count(len(out.Points))
}
