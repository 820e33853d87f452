package metricmath

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// function is a function with the number of its arguments.
type function struct {
	min, max int
	of       func(*Request, []*node) (Value, error)
}

// functions holds the functions by name.
var functions = map[string]function{
	"ABS": {1, 1, eachOf(math.Abs)}, "CEIL": {1, 1, eachOf(math.Ceil)}, "FLOOR": {1, 1, eachOf(math.Floor)},
	"LOG": {1, 1, eachOf(math.Log)}, "LOG10": {1, 1, eachOf(math.Log10)},
	"AVG": {1, 1, aggregate(average)}, "MAX": {1, 1, aggregate(slices.Max[[]float64])}, "MIN": {1, 1, aggregate(slices.Min[[]float64])},
	"SUM": {1, 1, aggregate(sum)}, "STDDEV": {1, 1, aggregate(deviation)}, "DATAPOINT_COUNT": {1, 1, aggregate(count)},
	"DIFF":      {1, 1, steps(func(a, b Point) float64 { return b.Value - a.Value })},
	"DIFF_TIME": {1, 1, steps(func(a, b Point) float64 { return float64(b.Time - a.Time) })},
	"RATE":      {1, 1, steps(func(a, b Point) float64 { return (b.Value - a.Value) / float64(b.Time-a.Time) })},
	"MINUTE":    {1, 1, timeOf(time.Time.Minute)}, "HOUR": {1, 1, timeOf(time.Time.Hour)}, "DATE": {1, 1, timeOf(time.Time.Day)}, "YEAR": {1, 1, timeOf(time.Time.Year)},
	"DAY":          {1, 1, timeOf(func(t time.Time) int { return (int(t.Weekday())+6)%7 + 1 })}, // 1 is Monday
	"MONTH":        {1, 1, timeOf(func(t time.Time) int { return int(t.Month()) })},
	"EPOCH":        {1, 1, timeOf(func(t time.Time) int { return int(t.Unix()) })},
	"FILL":         {2, 2, fill},
	"FIRST":        {1, 1, pick(func(all []Series) Series { return all[0] })},
	"LAST":         {1, 1, pick(func(all []Series) Series { return all[len(all)-1] })},
	"IF":           {2, 3, choose},
	"METRICS":      {0, 1, metrics},
	"METRIC_COUNT": {1, 1, metricCount},
	"PERIOD":       {1, 1, period},
	"REMOVE_EMPTY": {1, 1, removeEmpty},
	"RUNNING_SUM":  {1, 1, runningSum},
	"SEARCH":       {2, 3, search},
	"SLICE":        {2, 3, slice},
	"SORT":         {3, 4, sorted},
	"TIME_SERIES":  {1, 1, timeSeries},
}

func functionNames() string { return strings.Join(slices.Sorted(maps.Keys(functions)), ", ") }

// eachOf is a function of each value.
func eachOf(f func(float64) float64) func(*Request, []*node) (Value, error) {
	return func(r *Request, args []*node) (Value, error) {
		v, err := r.evaluate(args[0])
		if err != nil {
			return v, err
		}
		return r.each(v, f)
	}
}

// series returns the value of an argument that has series.
func (r *Request) series(name string, n *node) (Value, error) {
	v, err := r.evaluate(n)
	if err == nil && v.Kind == Number {
		err = faulty("%s needs a time series, and not %s", name, v.Kind)
	}
	return v, err
}

// numberOf returns the value of an argument that is a number.
func (r *Request) numberOf(name string, n *node) (float64, error) {
	v, err := r.evaluate(n)
	if err == nil && v.Kind != Number {
		err = faulty("%s needs a number, and not %s", name, v.Kind)
	}
	return v.Number, err
}

// aggregate is a function that returns a number of a series, and a series of a list. There is
// no number of a series without values, so that what is computed from it has no values either.
func aggregate(f func([]float64) float64) func(*Request, []*node) (Value, error) {
	return func(r *Request, args []*node) (Value, error) {
		v, err := r.series("the function", args[0])
		if err != nil {
			return v, err
		}
		if v.Kind == List {
			return r.across(v.Series, f)
		}
		return Value{Number: overTime(v.Series[0], f)}, r.countAll(v.Series)
	}
}

// overTime applies a function to the values of a series.
func overTime(s Series, f func([]float64) float64) float64 {
	if len(s.Points) == 0 {
		return math.NaN()
	}
	values := make([]float64, len(s.Points))
	for i, p := range s.Points {
		values[i] = p.Value
	}
	return f(values)
}

func sum(all []float64) (n float64) {
	for _, v := range all {
		n += v
	}
	return n
}

func count(all []float64) float64   { return float64(len(all)) }
func average(all []float64) float64 { return sum(all) / float64(len(all)) }

// deviation is the standard deviation of a population.
func deviation(all []float64) float64 {
	mean, squares := average(all), 0.0
	for _, v := range all {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(all)))
}

// mapped is a function of each series.
func mapped(name string, f func(Series) Series) func(*Request, []*node) (Value, error) {
	return func(r *Request, args []*node) (Value, error) {
		v, err := r.series(name, args[0])
		if err != nil {
			return v, err
		}
		return r.mapSeries(v, f)
	}
}

// steps is a function of each value and the one before it.
func steps(f func(before, now Point) float64) func(*Request, []*node) (Value, error) {
	return mapped("the function", func(s Series) Series {
		out := Series{Period: s.Period}
		for i := 1; i < len(s.Points); i++ {
			out.Points = append(out.Points, Point{s.Points[i].Time, f(s.Points[i-1], s.Points[i])})
		}
		return out
	})
}

// timeOf is a function of the times of a series.
func timeOf(f func(time.Time) int) func(*Request, []*node) (Value, error) {
	return mapped("the function", func(s Series) Series {
		out := Series{Period: s.Period}
		for _, p := range s.Points {
			out.Points = append(out.Points, Point{p.Time, float64(f(time.Unix(p.Time, 0).UTC()))})
		}
		return out
	})
}

func runningSum(r *Request, args []*node) (Value, error) {
	return mapped("RUNNING_SUM", func(s Series) Series {
		out, total := Series{Period: s.Period}, 0.0
		for _, p := range s.Points {
			total += p.Value
			out.Points = append(out.Points, Point{p.Time, total})
		}
		return out
	})(r, args)
}

// fill adds the values that a series does not have: a number, those of another series, the one
// before (REPEAT), or those on the line between the ones before and after (LINEAR).
func fill(r *Request, args []*node) (Value, error) {
	v, err := r.series("FILL", args[0])
	if err != nil {
		return v, err
	}
	how, with := "", Value{}
	if args[1].kind == keyword {
		if how = args[1].text; how != "REPEAT" && how != "LINEAR" {
			return v, faulty("FILL knows REPEAT and LINEAR, and not %s", how)
		}
	} else if with, err = r.evaluate(args[1]); err != nil {
		return v, err
	} else if with.Kind == List {
		return v, faulty("FILL needs a number or a time series, and not %s", with.Kind)
	}
	for _, s := range v.Series {
		if err := r.fits(s.Period); err != nil {
			return v, err
		}
	}
	return r.mapSeries(v, func(s Series) Series { return r.filled(s, how, with) })
}

// fits reports an *Error if a series with a value in each period would have too many.
func (r *Request) fits(period int64) error {
	if period <= 0 {
		return faulty("the period of the values is not known: set Period")
	}
	if n := (r.To - r.From) / period; n > MaxPoints {
		return r.Count(MaxPoints + 1)
	}
	return nil
}

func (r *Request) filled(s Series, how string, with Value) Series {
	out := Series{Period: s.Period}
	next, other := 0, 0
	for t := r.From; t < r.To; t += s.Period {
		for next < len(s.Points) && s.Points[next].Time < t {
			next++
		}
		var value float64
		switch {
		case next < len(s.Points) && s.Points[next].Time == t:
			value = s.Points[next].Value
		case how == "REPEAT" && next > 0:
			value = s.Points[next-1].Value
		case how == "LINEAR" && next > 0 && next < len(s.Points):
			a, b := s.Points[next-1], s.Points[next]
			value = a.Value + (b.Value-a.Value)*float64(t-a.Time)/float64(b.Time-a.Time)
		case how != "":
			continue
		case with.Kind == Number:
			value = with.Number
		default:
			filler := with.Series[0].Points
			for other < len(filler) && filler[other].Time < t {
				other++
			}
			if other == len(filler) || filler[other].Time != t {
				continue
			}
			value = filler[other].Value
		}
		out.Points = append(out.Points, Point{t, value})
	}
	return out
}

// pick is a function that returns one series of a list.
func pick(f func([]Series) Series) func(*Request, []*node) (Value, error) {
	return func(r *Request, args []*node) (Value, error) {
		v, err := r.series("the function", args[0])
		if err != nil || len(v.Series) == 0 {
			return Value{Kind: Single, Series: []Series{{}}}, err
		}
		return Value{Kind: Single, Series: []Series{f(v.Series)}}, nil
	}
}

// choose returns values of its second argument where the first is true, and of the third where
// it is not. There are none where the condition has none.
func choose(r *Request, args []*node) (Value, error) {
	values, err := r.all(args)
	if err != nil {
		return Value{}, err
	}
	for _, v := range values {
		if v.Kind == List {
			return v, faulty("IF needs numbers or time series, and not %s", v.Kind)
		}
	}
	if len(values) == 2 {
		values = append(values, Value{Number: math.NaN()})
	}
	condition, yes, no := values[0], values[1], values[2]
	if err := r.countAll(append(slices.Clone(yes.Series), no.Series...)); err != nil {
		return Value{}, err
	}
	if condition.Kind == Number {
		if condition.Number != 0 {
			return yes, nil
		}
		if len(args) == 2 {
			return Value{Kind: Single, Series: []Series{{Period: r.Period}}}, nil
		}
		return no, nil
	}
	return r.mapSeries(condition, func(c Series) Series {
		out := Series{Period: c.Period}
		positions := [2]int{}
		for _, p := range c.Points {
			which, of := 0, yes
			if p.Value == 0 {
				which, of = 1, no
			}
			value := of.Number
			if of.Kind == Single {
				points := of.Series[0].Points
				for positions[which] < len(points) && points[positions[which]].Time < p.Time {
					positions[which]++
				}
				if at := positions[which]; at == len(points) || points[at].Time != p.Time {
					continue
				}
				value = points[positions[which]].Value
			}
			out.Points = append(out.Points, Point{p.Time, value})
		}
		return out
	})
}

func metrics(r *Request, args []*node) (Value, error) {
	id := ""
	if len(args) == 1 {
		if args[0].kind != text {
			return Value{}, faulty("METRICS needs a text in quotes")
		}
		id = args[0].text
	}
	all, err := r.Metrics(id)
	return Value{Kind: List, Series: all}, err
}

func metricCount(r *Request, args []*node) (Value, error) {
	v, err := r.series("METRIC_COUNT", args[0])
	return Value{Number: float64(len(v.Series))}, err
}

func period(r *Request, args []*node) (Value, error) {
	v, err := r.series("PERIOD", args[0])
	if err != nil {
		return v, err
	}
	if v.Kind != Single {
		return v, faulty("PERIOD needs a time series, and not %s", v.Kind)
	}
	return Value{Number: float64(v.Series[0].Period)}, nil
}

func removeEmpty(r *Request, args []*node) (Value, error) {
	v, err := r.series("REMOVE_EMPTY", args[0])
	if err != nil {
		return v, err
	}
	some := []Series{}
	for _, s := range v.Series {
		if len(s.Points) > 0 {
			some = append(some, s)
		}
	}
	return Value{Kind: List, Series: some}, nil
}

func search(r *Request, args []*node) (Value, error) {
	if args[0].kind != text || args[1].kind != text {
		return Value{}, faulty("SEARCH needs a search and a statistic in quotes")
	}
	seconds := r.Period
	if len(args) == 3 {
		n, err := r.numberOf("SEARCH", args[2])
		if err != nil {
			return Value{}, err
		}
		if n != math.Trunc(n) || n < 1 || n > math.MaxInt32 {
			return Value{}, faulty("%v is no period", n)
		}
		seconds = int64(n)
	}
	if seconds == 0 {
		return Value{}, faulty("SEARCH needs a period")
	}
	all, err := r.Search(args[0].text, args[1].text, seconds)
	return Value{Kind: List, Series: all}, err
}

// index returns an argument that is a place in a list, or its end.
func (r *Request) index(name string, n *node, length int) (int, error) {
	v, err := r.numberOf(name, n)
	if err != nil {
		return 0, err
	}
	if v != math.Trunc(v) || v < 0 {
		return 0, faulty("%s needs a number of time series, and not %v", name, v)
	}
	return int(min(v, float64(length))), nil
}

// slice returns the series of a list from one place until before another.
func slice(r *Request, args []*node) (Value, error) {
	v, err := r.series("SLICE", args[0])
	if err != nil {
		return v, err
	}
	from, err := r.index("SLICE", args[1], len(v.Series))
	if err != nil {
		return v, err
	}
	to := len(v.Series)
	if len(args) == 3 {
		if to, err = r.index("SLICE", args[2], len(v.Series)); err != nil {
			return v, err
		}
	}
	return Value{Kind: List, Series: v.Series[min(from, to):to]}, nil
}

// sortedBy are the functions of values that SORT knows.
var sortedBy = map[string]func([]float64) float64{"AVG": average, "MAX": slices.Max[[]float64], "MIN": slices.Min[[]float64], "SUM": sum}

// sorted sorts a list by a function of the values of each series; those without values are last.
func sorted(r *Request, args []*node) (Value, error) {
	v, err := r.series("SORT", args[0])
	if err != nil {
		return v, err
	}
	f := sortedBy[args[1].text]
	if args[1].kind != keyword || f == nil {
		return v, faulty("SORT sorts by AVG, MAX, MIN or SUM")
	}
	if args[2].kind != keyword || args[2].text != "ASC" && args[2].text != "DESC" {
		return v, faulty("SORT sorts in the order ASC or DESC")
	}
	if err := r.countAll(v.Series); err != nil {
		return v, err
	}
	n := len(v.Series)
	if len(args) == 4 {
		if n, err = r.index("SORT", args[3], n); err != nil {
			return v, err
		}
	}
	type keyed struct {
		key float64
		of  Series
	}
	all := make([]keyed, len(v.Series))
	for i, s := range v.Series {
		all[i] = keyed{overTime(s, f), s}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		if math.IsNaN(a.key) || math.IsNaN(b.key) {
			return cmp.Compare(truth(math.IsNaN(a.key)), truth(math.IsNaN(b.key)))
		}
		if args[2].text == "DESC" {
			a, b = b, a
		}
		return cmp.Compare(a.key, b.key)
	})
	out := Value{Kind: List, Series: make([]Series, 0, n)}
	for _, k := range all[:n] {
		out.Series = append(out.Series, k.of)
	}
	return out, nil
}

// timeSeries returns a series with the same value in each period.
func timeSeries(r *Request, args []*node) (Value, error) {
	value, err := r.numberOf("TIME_SERIES", args[0])
	if err != nil {
		return Value{}, err
	}
	if err := r.fits(r.Period); err != nil {
		return Value{}, err
	}
	empty := Value{Kind: Single, Series: []Series{{Period: r.Period}}}
	return r.mapSeries(empty, func(s Series) Series { return r.filled(s, "", Value{Number: value}) })
}
