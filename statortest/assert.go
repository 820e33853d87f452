package statortest

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/match"
	"github.com/stator-db/stator/internal/workload"
)

// Units are capacity units.
type Units struct{ Read, Write float64 }

// Total is the sum of both.
func (u Units) Total() float64 { return u.Read + u.Write }

// Requests is how often the requests of one kind succeeded, which differ in values only.
type Requests struct {
	Operation, Table, Index string

	Text    string // says what they have in common
	Pattern string // the access pattern of Model; empty if there is none

	Count             int64
	Returned, Scanned int64 // items; those scanned and not returned were left out by a filter

	// Units is about what they consumed. If sizes differ it is an estimate: some of many
	// requests are measured. Usage.Units is exact.
	Units float64
}

// Usage is what requests did.
type Usage struct {
	Units    Units
	Tables   []stator.Consumption // with their global indexes
	Requests []Requests           // most units first
}

// testDatabase is a database of a test.
type testDatabase struct {
	db    *stator.DB
	model *model.Model // nil without one; not changed, as several tests may use the database concurrently
}

// databases has those of the tests that are running, by the names of the tests.
var databases struct {
	sync.Mutex
	of map[string][]*testDatabase
}

// remember makes a database known to the assertions of a test, until it ends.
func remember(t testing.TB, db *stator.DB) *testDatabase {
	d := &testDatabase{db: db}
	databases.Lock()
	defer databases.Unlock()
	if databases.of == nil {
		databases.of = make(map[string][]*testDatabase)
	}
	name := t.Name()
	databases.of[name] = append(databases.of[name], d)
	t.Cleanup(func() {
		databases.Lock()
		defer databases.Unlock()
		if databases.of[name] = slices.DeleteFunc(databases.of[name], func(other *testDatabase) bool { return other == d }); len(databases.of[name]) == 0 {
			delete(databases.of, name)
		}
	})
	return d
}

// databasesOf returns the databases that a test has started, or else the test that it is a part of.
func databasesOf(t testing.TB) []*testDatabase {
	t.Helper()
	databases.Lock()
	defer databases.Unlock()
	for name := t.Name(); ; {
		if found := databases.of[name]; len(found) > 0 {
			return slices.Clone(found)
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			t.Fatalf("the test has no database: call statortest.Start or Fork, or another function that starts one, first")
			return nil
		}
		name = name[:i]
	}
}

// Use returns a function that returns what requests did since the call of Use, in the databases
// of the test, or of the test that it is a part of.
func Use(t testing.TB) func() Usage {
	t.Helper()
	all := databasesOf(t)
	before := make([]counts, len(all))
	for i, d := range all {
		before[i] = d.counts(t)
	}
	return func() (u Usage) {
		t.Helper()
		for i, d := range all {
			d.add(&u, before[i], d.counts(t))
		}
		slices.SortStableFunc(u.Requests, func(a, b Requests) int { return cmp.Compare(b.Units, a.Units) })
		return u
	}
}

// counts is what was counted until a moment.
type counts struct {
	shapes   map[workload.Shape]workload.ShapeCount
	other    workload.ShapeCount
	consumed []stator.Consumption
}

func (d *testDatabase) counts(t testing.TB) counts {
	t.Helper()
	r, err := requestCounts(d.db)
	if err != nil {
		t.Fatalf("read the request counts: %v", err)
	}
	c := counts{make(map[workload.Shape]workload.ShapeCount), r.Other, d.db.Consumed()}
	for _, s := range r.Shapes {
		c.shapes[s.Shape] = s
	}
	return c
}

// add adds what was counted between two moments.
func (d *testDatabase) add(u *Usage, before, after counts) {
	known := make(map[string]bool)
	for _, c := range after.consumed {
		known[c.Table] = true
		for _, was := range before.consumed {
			if was.Table == c.Table && was.Index == c.Index && was.Read <= c.Read && was.Write <= c.Write { // else it was made again
				c.Read, c.Write = c.Read-was.Read, c.Write-was.Write
			}
		}
		if c.Read+c.Write > 0 {
			u.Tables = append(u.Tables, c)
			u.Units.Read, u.Units.Write = u.Units.Read+c.Read, u.Units.Write+c.Write
		}
	}
	var matcher *match.Matcher
	if d.model != nil {
		matcher = match.New(d.model)
	}
	of := func(s workload.ShapeCount, was workload.ShapeCount) {
		if s.Requests == was.Requests {
			return
		}
		r := Requests{
			Operation: s.Operation, Table: s.Table, Index: s.Index, Text: s.Text(),
			Count: s.Requests - was.Requests, Returned: s.Returned - was.Returned, Scanned: s.Scanned - was.Scanned, Units: s.Units - was.Units,
		}
		if matcher != nil {
			if found := matcher.Find(s.Shape); len(found) > 0 {
				r.Pattern = found[0].Pattern.Name
			}
		}
		u.Requests = append(u.Requests, r)
		if s.Table != "" && !known[s.Table] { // the table was deleted, and what it consumed with it
			if writes(s.Operation) {
				u.Units.Write += r.Units
			} else {
				u.Units.Read += r.Units
			}
		}
	}
	for shape, s := range after.shapes {
		of(s, before.shapes[shape])
	}
	of(after.other, before.other)
	slices.SortFunc(u.Requests, func(a, b Requests) int { return cmp.Compare(a.Text, b.Text) })
}

// writes reports whether requests of an operation consume write units.
func writes(operation string) bool {
	switch operation {
	case "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems":
		return true
	}
	return false
}

// String describes the requests, one in a line.
func (u Usage) String() string {
	var text strings.Builder
	for _, r := range u.Requests {
		fmt.Fprintf(&text, "\n    about %6.1f units  %s (%s)", r.Units, r.Text, times(r.Count))
		if r.Pattern != "" {
			fmt.Fprintf(&text, ", access pattern %q", r.Pattern)
		}
		if r.Scanned > r.Returned {
			fmt.Fprintf(&text, ": %d items read, %d returned", r.Scanned, r.Returned)
		}
	}
	return text.String()
}

// times is a number of requests in words.
func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// Budget makes a test fail if the requests from now to its end consume more units, for reads and
// writes together. The databases are those of the test, or of the test that it is a part of.
func Budget(t testing.TB, units float64) {
	t.Helper()
	atEnd(t, func(u Usage) {
		t.Helper()
		if used := u.Units.Total(); used > units {
			t.Errorf("the requests consumed %.1f units (read %.1f, write %.1f), and the budget is %.1f:%s", used, u.Units.Read, u.Units.Write, units, u)
		}
	})
}

// BudgetOf is Budget for reads and writes apart.
func BudgetOf(t testing.TB, most Units) {
	t.Helper()
	atEnd(t, func(u Usage) {
		t.Helper()
		if u.Units.Read > most.Read || u.Units.Write > most.Write {
			t.Errorf("the requests consumed %.1f units for reads and %.1f for writes, and the budget is %.1f and %.1f:%s", u.Units.Read, u.Units.Write, most.Read, most.Write, u)
		}
	})
}

// NoScans makes a test fail if there is a scan from now to its end, also one by PartiQL.
func NoScans(t testing.TB) {
	t.Helper()
	atEnd(t, func(u Usage) {
		t.Helper()
		scans := Usage{Requests: slices.DeleteFunc(slices.Clone(u.Requests), func(r Requests) bool { return r.Operation != "Scan" })}
		if len(scans.Requests) > 0 {
			t.Errorf("there are scans, which read whole tables or indexes; a query needs a key or an index that begins with what is searched for (stator model check proposes one):%s", scans)
		}
	})
}

// MatchesModel makes a test fail for each kind of request from now to its end, to the tables of a
// model file, that is none of its access patterns. Model does so from the beginning.
func MatchesModel(t testing.TB, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read the model: %v", err)
	}
	m, err := model.Parse(file, text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	all := databasesOf(t)
	before := make([]counts, len(all))
	for i, d := range all {
		before[i] = d.counts(t)
	}
	t.Cleanup(func() {
		t.Helper()
		for i, d := range all {
			for _, fault := range unmatched(m, before[i].until(d.counts(t))) {
				t.Errorf("%s: %s", file, fault)
			}
		}
	})
}

// until returns what was counted until another moment.
func (c counts) until(after counts) (r workload.Report) {
	for shape, s := range after.shapes {
		if s.Requests -= c.shapes[shape].Requests; s.Requests > 0 {
			r.Shapes = append(r.Shapes, s)
		}
	}
	slices.SortFunc(r.Shapes, func(a, b workload.ShapeCount) int { return cmp.Compare(a.Text(), b.Text()) })
	r.Other.Requests = after.other.Requests - c.other.Requests
	return r
}

// atEnd calls a function with what requests did until the end of the test.
func atEnd(t testing.TB, check func(Usage)) {
	t.Helper()
	used := Use(t)
	t.Cleanup(func() { // before the database is closed
		t.Helper()
		check(used())
	})
}
