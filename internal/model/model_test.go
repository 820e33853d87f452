package model

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func app(t testing.TB, name string) *Model {
	t.Helper()
	file := fmt.Sprintf("../../apps/%s/%s.model.yaml", name, name)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var apps = []string{"taskqueue", "downloads", "goals", "documents"}

// The four models have no fault.
func TestAppsPass(t *testing.T) {
	for _, name := range apps {
		for _, f := range app(t, name).Check(DefaultPrices()).Faults {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// The figures that the descriptions of the four systems state, computed exactly.
// docs/model.md explains the differences.
func TestDocumentsFigures(t *testing.T) {
	for _, c := range []struct {
		app, group string
		perDay     bool
		want       Units
	}{
		// The description: 60 read and 33 write units a day. It counts only the
		// tables, not the three indexes.
		{"downloads", "daily run", true, Units{TableRead: 60, TableWrite: 33, IndexWrite: 105}},
		// The description: about 1 read unit for a request; 100 requests a second.
		{"goals", "request", false, Units{TableRead: 100}},
		// The description: 1,500 write units a second. It counts only the table.
		{"taskqueue", "submission", false, Units{TableWrite: 1500, IndexWrite: 500}},
		// The rest of its peak of 3,500: three writes that it lists, and the one
		// that completes a task, which it does not list. A completed task enters
		// the index again, under its last status.
		{"taskqueue", "processing", false, Units{TableWrite: 2000, IndexWrite: 1000}},
		// The writes that it does not count at all.
		{"taskqueue", "claims", false, Units{TableRead: 1, TableWrite: 1001, IndexWrite: 1}},
	} {
		found := false
		for _, g := range app(t, c.app).Cost(DefaultPrices()).Groups {
			if g.Name != c.group {
				continue
			}
			found = true
			got := g.PerSecond
			if c.perDay {
				got = g.PerDay
			}
			if !near(got.TableRead, c.want.TableRead) || !near(got.TableWrite, c.want.TableWrite) ||
				!near(got.IndexRead, c.want.IndexRead) || !near(got.IndexWrite, c.want.IndexWrite) {
				t.Errorf("%s, %s: %+v, want %+v", c.app, c.group, got, c.want)
			}
		}
		if !found {
			t.Errorf("%s has no group %s", c.app, c.group)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// The same seed and ordinal make the same item, another ordinal makes another
// item, and all items of an entity have the same size unless values are listed.
func TestGeneratorIsDeterministic(t *testing.T) {
	for _, name := range apps {
		for _, e := range app(t, name).Entities {
			first := Generator{}.Item(e, 0)
			if !first.Equal(Generator{}.Item(e, 0)) {
				t.Errorf("%s: one ordinal makes two different items", e.Name)
			}
			if first.Equal(Generator{}.Item(e, 1)) {
				t.Errorf("%s: two ordinals make the same item", e.Name)
			}
			if err := e.table.schema.CheckItem(first); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
			for ordinal := range 200 {
				it := Generator{}.Item(e, ordinal)
				if e.Name != "pending" && e.Name != "job" && it.Size() != first.Size() {
					t.Errorf("%s: the item of ordinal %d has %d bytes, the first has %d", e.Name, ordinal, it.Size(), first.Size())
					break
				}
			}
		}
	}
}

// Two runs of a pattern have no item in common.
func TestRunsAreApart(t *testing.T) {
	for _, name := range apps {
		m := app(t, name)
		for _, p := range m.Patterns {
			plan := m.Plan(p)
			seen := make(map[string]int)
			for run := range 20 {
				s, err := m.Scenario(plan, Generator{}, run)
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range s.Before {
					table, _ := m.Table(b.Table)
					key := b.Table + string(table.schema.Key.Of(b.Item))
					if last, twice := seen[key]; twice && last != run {
						t.Fatalf("%s, %q: runs %d and %d share an item", name, p.Name, last, run)
					}
					seen[key] = run
				}
			}
		}
	}
}

// ShardsFor returns the smallest sufficient number of shards: with one less, a
// shard is still at its limit.
func TestShardsFor(t *testing.T) {
	for _, c := range []struct {
		share, allowed float64
		want           int
	}{
		{0, 1, 1}, {0.5, 1, 1}, {0.999, 1, 1}, {1, 1, 2}, {1.5, 1, 2}, {2, 1, 3}, {2.5, 1, 3}, {10, 1, 11},
		{0.5, 0.5, 1}, {0.6, 0.5, 2}, {1, 0.5, 2}, {1, 0.8, 2}, {1, 0.3, 4}, {5, 0.8, 7},
	} {
		if got := ShardsFor(c.share, c.allowed); got != c.want {
			t.Errorf("a share of %v, of which %v is allowed, needs %d shards, want %d", c.share, c.allowed, got, c.want)
		}
	}
}

// Auto scaling keeps the utilization at the target, within its bounds; without
// it the units are fixed.
func TestProvision(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity *Capacity
		used     float64
		want     float64
	}{
		{"the default target is 70 percent", nil, 70, 100},
		{"at least one unit", nil, 0, 1},
		{"a target", &Capacity{Min: 5, Max: 1000, Target: 50}, 100, 200},
		{"not below the minimum", &Capacity{Min: 50, Max: 1000}, 7, 50},
		{"not above the maximum", &Capacity{Min: 5, Max: 80}, 700, 80},
		{"fixed", &Capacity{Units: 33}, 700, 33},
	} {
		if got := c.capacity.Provision(c.used); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// An index entry that moves costs twice, and an index without the changed
// attributes costs nothing, as in the server's own code.
func TestWriteAmplification(t *testing.T) {
	for _, p := range app(t, "downloads").Cost(DefaultPrices()).Patterns {
		want := map[string]Units{
			"write new job": {TableWrite: 1, IndexWrite: 2},
			"claim file":    {TableWrite: 1, IndexWrite: 4},
			"poll file":     {TableRead: 1},
		}
		if w, ok := want[p.Name]; ok && p.Run != w {
			t.Errorf("%s: %+v, want %+v", p.Name, p.Run, w)
		}
	}
}

// Compare reports what changes, and leaves out what stays the same.
func TestCompare(t *testing.T) {
	text, err := os.ReadFile("../../apps/downloads/downloads.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before := app(t, "downloads").Cost(DefaultPrices())
	if d := Compare(before, before); len(d.Changes) != 1 || d.Changes[0].Change != "same" {
		t.Errorf("nothing changed, but the difference is %+v", d.Changes[0])
	}
	m, err := Parse("x", []byte(strings.Replace(string(text), "PresignedURL: {size: 330,", "PresignedURL: {size: 1500,", 1)))
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	for _, c := range Compare(before, m.Cost(DefaultPrices())).Changes {
		if c.What == "pattern" {
			changes = append(changes, fmt.Sprintf("%s %v -> %v", c.Name, c.Before.Write, c.After.Write))
		}
	}
	if got := strings.Join(changes, ", "); !strings.Contains(got, "claim file 5 -> 15") || strings.Contains(got, "create batch") {
		t.Errorf("a larger item changes %s", got)
	}
}

// The cost of a stream is that of the programs that poll it.
func TestStreamReaders(t *testing.T) {
	const text = "{model: 1, tables: {shop: {key: {partition: id}, stream: KEYS_ONLY%s}}, entities: {order: {attributes: {id: S}}}, patterns: []}"
	dollars := func(readers string) float64 {
		m, err := Parse("x", fmt.Appendf(nil, text, readers))
		if err != nil {
			t.Fatal(err)
		}
		return m.Cost(DefaultPrices()).Tables[0].StreamDollars
	}
	one, none, three := dollars(""), dollars(", readers: 0"), dollars(", readers: 3")
	// Three readers share the free reads.
	if one == 0 || none != 0 || three < 3*one || one != dollars(", readers: 1") {
		t.Errorf("one reader costs %v, none %v, three %v", one, none, three)
	}
}

// A price file can be replaced, and is read as strictly as a model.
func TestPrices(t *testing.T) {
	double := strings.Replace(string(embedded), "readRequestUnits: 0.125", "readRequestUnits: 0.25", 1)
	p, err := ParsePrices("mine.yaml", []byte(double))
	if err != nil {
		t.Fatal(err)
	}
	m := app(t, "goals")
	was, is := m.Cost(DefaultPrices()).Patterns[0].Dollars, m.Cost(p).Patterns[0].Dollars
	if !near(is, 2*was) || was == 0 {
		t.Errorf("reads at twice the price cost %v, before %v", is, was)
	}
	_, err = ParsePrices("mine.yaml", []byte(strings.Replace(double, "storageGBMonth", "storageGBMonht", 1)))
	if err == nil || !strings.Contains(err.Error(), "mine.yaml:13:1: unknown field storageGBMonht; did you mean storageGBMonth?") {
		t.Errorf("a misspelt price: %v", err)
	}
}

// Any text is either a model or a fault with a position, never a panic.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/faults/*.model.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("model: 1\na: &a [*a, *a]\nb: &b [*a, *a]\n"))
	f.Add([]byte(strings.Repeat("- ", 1000)))
	f.Add([]byte(strings.Repeat("[", 1000)))
	f.Add([]byte("? ? ? a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse("x", text)
		if err != nil {
			return
		}
		r := m.Check(DefaultPrices())
		for _, p := range r.Patterns {
			if p.Status == StatusOK && !p.Plan.Served() {
				t.Errorf("%q is ok, but cannot be executed", p.Name)
			}
		}
	})
}

// A text that would overflow the parser's stack, exhaust memory or take very
// long is rejected before it is parsed.
func TestBombs(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"brackets", strings.Repeat("[", 100_000), "x:1:513: lists and mappings are nested more than 32 levels deep"},
		{"dashes", strings.Repeat("- ", 100_000), "x:1:1025: lists and mappings are nested more than 32 levels deep"},
		{"lines", strings.Repeat("-\n", 500_000), "x: the file has 500000 lines; the limit is 10000"},
		{"bytes", strings.Repeat("x", 2<<20), "x: the file has a size of 2 MB; the limit is 1 MB"},
		{"aliases", "model: 1\nname: &a [x, x]\ntables: {t: [*a, *a]}\n", "x:2:7: anchors, aliases and merges are not supported: write the value out in full"},
		{"levels", "model: 1\ntables: " + strings.Repeat("{a: ", 40) + "1" + strings.Repeat("}", 40), "unknown field a"},
		{"merges", "model: 1\ntables: {<<: {a: 1}}", "a field name must be plain text"},
	} {
		_, err := Parse("x", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// many returns a model with n patterns.
func many(n int) []byte {
	var b strings.Builder
	b.WriteString("model: 1\ntables:\n  shop:\n    key: {partition: PK, sort: SK}\n    indexes:\n")
	for i := range 10 {
		fmt.Fprintf(&b, "      GSI%d: {partition: GSI%dPK, sort: GSI%dSK}\n", i, i, i)
	}
	b.WriteString("entities:\n")
	for i := range 50 {
		fmt.Fprintf(&b, "  e%d:\n    keys:\n      PK: \"E%d#{a}\"\n      SK: \"S#{b}\"\n", i, i)
		fmt.Fprintf(&b, "      GSI%dPK: \"E%d#{c}\"\n      GSI%dSK: \"{d}\"\n", i%10, i, i%10)
		b.WriteString("    attributes: {a: {format: uuid}, b: {format: uuid}, c: {size: 8}, d: {format: iso8601}, e: {size: 300}}\n    count: 1000\n")
	}
	b.WriteString("patterns:\n")
	for i := range n {
		e := i % 50
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, "  - {name: p%d, get: e%d, given: [a, b], rate: 1/s}\n", i, e)
		case 1:
			fmt.Fprintf(&b, "  - {name: p%d, query: e%d, given: [c], order: d desc, matches: 20, rate: 1/s}\n", i, e)
		case 2:
			fmt.Fprintf(&b, "  - {name: p%d, put: e%d, condition: attribute_not_exists(PK), rate: 1/s}\n", i, e)
		case 3:
			fmt.Fprintf(&b, "  - {name: p%d, update: e%d, given: [a, b], set: {d: \"{d}\"}, rate: 1/s}\n", i, e)
		}
	}
	return []byte(b.String())
}

// 500 patterns are all served; BenchmarkCheck500 measures how fast.
func TestManyPatterns(t *testing.T) {
	m, err := Parse("x", many(500))
	if err != nil {
		t.Fatal(err)
	}
	r := m.Check(DefaultPrices())
	if len(r.Patterns) != 500 {
		t.Errorf("%d patterns of 500", len(r.Patterns))
	}
	for _, f := range r.Faults {
		if f.Code != "unused" {
			t.Error(f)
		}
	}
}

// BenchmarkCheck500 parses and checks a model of 500 patterns, which takes less
// than a second.
func BenchmarkCheck500(b *testing.B) {
	text := many(500)
	for b.Loop() {
		m, err := Parse("x", text)
		if err != nil {
			b.Fatal(err)
		}
		m.Check(DefaultPrices())
	}
}

// The word NULL without quotes is a type, and not the absence of a value.
func TestTypeNull(t *testing.T) {
	for attribute, want := range map[string]string{
		"{type: NULL}": "NULL", `{type: "NULL"}`: "NULL", "{type: null}": "NULL", "NULL": "NULL", "null": "S", "": "S",
	} {
		m := parsed(t, []byte("model: 1\ntables: {abc: {key: {partition: id}}}\n"+
			"entities: {b: {attributes: {id: {size: 4}, c: "+attribute+"}}}\npatterns: []\n"))
		if m == nil {
			t.Errorf("%q is invalid", attribute)
			continue
		}
		if f, _ := m.Entities[0].Field("c"); f.Type.String() != want {
			t.Errorf("%q has the type %s, want %s", attribute, f.Type, want)
		}
	}
}
