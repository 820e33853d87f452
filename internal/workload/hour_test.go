package workload

import (
	"testing"
	"time"
)

// The counts of the last hour are those since a mark that is about an hour old.
func TestLastHour(t *testing.T) {
	start := time.Date(2026, 11, 18, 10, 0, 0, 0, time.UTC)
	r := NewRecorder(start)
	get, put := r.Counter(Shape{Operation: "GetItem", Table: "T"}), r.Counter(Shape{Operation: "PutItem", Table: "T"})
	put.Observe(0, 0)
	put.AddUnits(2)
	if hour := r.LastHour(start); !hour.Since.Equal(start) || len(hour.Shapes) != 2 { // also GetItem, without requests
		t.Errorf("before the first mark the counts are %+v", hour)
	}
	now := start
	for range 180 {
		now = now.Add(time.Minute)
		get.Observe(1, 1)
		get.AddUnits(0.5)
		r.Mark(now)
	}
	hour := r.LastHour(now)
	if age := now.Sub(hour.Since); age < 55*time.Minute || age > 65*time.Minute {
		t.Errorf("the hour is since %v", age)
	}
	minutes := int64(now.Sub(hour.Since) / time.Minute)
	if len(hour.Shapes) != 1 || hour.Shapes[0].Requests != minutes || hour.Shapes[0].Units != float64(minutes)/2 {
		t.Errorf("the counts of %d minutes are %+v", minutes, hour.Shapes)
	}
	if n := len(r.current.Load().marks.all); n > 14 {
		t.Errorf("there are %d marks", n)
	}
	r.Mark(now.Add(-time.Hour)) // the clock was set
	if hour := r.LastHour(now); hour.Since.After(now) || hour.Shapes == nil {
		t.Errorf("after the clock was set the counts are %+v", hour)
	}
	r.Reset(now)
	if hour := r.LastHour(now); len(hour.Shapes) != 0 || !hour.Since.Equal(now) {
		t.Errorf("after a reset the counts are %+v", hour)
	}
}

// A shape whose requests of the hour were not measured has the mean units of those before.
func TestLastHourUnmeasured(t *testing.T) {
	start := time.Date(2026, 11, 18, 10, 0, 0, 0, time.UTC)
	r := NewRecorder(start)
	c := r.Counter(Shape{Operation: "GetItem", Table: "T"})
	c.Observe(1, 1)
	c.AddUnits(3)
	r.Mark(start.Add(time.Minute))
	c.Observe(1, 1)
	c.Observe(1, 1)
	if hour := r.LastHour(start.Add(time.Hour)); len(hour.Shapes) != 1 || hour.Shapes[0].Requests != 2 || hour.Shapes[0].Units != 6 {
		t.Errorf("the counts are %+v", hour)
	}
}
