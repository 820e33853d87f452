package inject

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	p, err := Parse("faults.yaml", []byte(`# a comment
seed: 7
identity: operation
consecutive: 2
faults:
  - {fault: throttle, table: "Orders-*", share: 0.25, as: partition}
  - fault: latency
    operations: [Query, DescribeTable]
    delay: 300ms
    from: 10s
    until: 20s
  - {fault: conflict, key: {id: "42"}, count: 1}
`))
	if err != nil {
		t.Fatal(err)
	}
	quarter := 0.25
	want := &Plan{Seed: 7, Identity: IdentityOperation, Consecutive: 2, Rules: []Rule{
		{Fault: Throttle, Table: "Orders-*", Share: &quarter, As: AsPartition},
		{Fault: Latency, Operations: []string{"Query", "DescribeTable"}, Delay: 300 * time.Millisecond, From: 10 * time.Second, Until: 20 * time.Second},
		{Fault: Conflict, Key: map[string]string{"id": "42"}, Count: 1},
	}}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
	again, err := Parse("formatted", p.Format())
	if err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("its text\n%s is parsed as %+v, %v", p.Format(), again, err)
	}
	if p, err := Parse("x", []byte(`{"faults": [{"fault": "throttle"}]}`)); err != nil || len(p.Rules) != 1 {
		t.Errorf("JSON is parsed as %+v, %v", p, err)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an empty file", "", "f.yaml: the file is empty"},
		{"only comments", "# faults:\n# none yet\n", "f.yaml: the file is empty"},
		{"a delay without a unit", "faults:\n  - fault: latency\n    delay: 5\n", `f.yaml:3:12: delay "5" must be a duration such as 300ms or 2s`},
		{"a lag in words", "faults: [{fault: stale-read, lag: soon}]", `f.yaml:1:35: lag "soon" must be a duration such as 300ms or 2s`},
		{"a time that is too long", "faults:\n  - {fault: latency, until: 99999999999h}\n", `f.yaml:2:29: until "99999999999h" must be a duration such as 300ms or 2s`},
		{"an unknown member", "faults:\n  - {fault: throttle, tabel: x}\n", "f.yaml:2:23: unknown field"},
		{"an unknown member of the file", "fault: throttle\n", "f.yaml:1:1: unknown field"},
		{"an unknown fault", "faults:\n  - fault: throtle\n", `f.yaml:2:12: fault "throtle" is not a fault; the faults are conflict,`},
		{"no fault", "faults:\n  - table: x\n", "f.yaml:2:5: fault is missing"},
		{"a share above 1", "faults:\n  - fault: throttle\n    share: 1.5\n", "f.yaml:3:12: share is 1.5, but must be from 0 to 1"},
		{"a share that is no number", "faults:\n  - {fault: throttle, share: .nan}\n", "f.yaml:2:30: share is NaN"},
		{"an operation that cannot have it", "faults:\n  - {fault: unprocessed, operations: [PutItem]}\n", "f.yaml:2:38: operations PutItem cannot have the fault unprocessed, only BatchGetItem, BatchWriteItem"},
		{"a delay of another fault", "faults:\n  - {fault: throttle, delay: 1s}\n", "f.yaml:2:30: delay is for latency only"},
		{"a long delay", "faults:\n  - {fault: latency, delay: 1h}\n", "delay is 1h0m0s, but must be more than 0 and at most 5m0s"},
		{"no delay", "faults:\n  - {fault: latency, delay: 0s}\n", "f.yaml:2:29: delay must be more than 0"},
		{"no lag", "faults:\n  - {fault: stale-read, lag: 0s}\n", "f.yaml:2:30: lag must be more than 0"},
		{"a long lag", "faults:\n  - {fault: stale-read, lag: 1h}\n", "lag is 1h0m0s, but must be more than 0 and at most 10m0s"},
		{"an unknown as", "faults:\n  - {fault: lost-answer, as: nothing}\n", `f.yaml:2:30: as is "nothing", but must be one of internal-error, connection-closed`},
		{"until before from", "faults:\n  - {fault: throttle, from: 2s, until: 1s}\n", "until 1s must be later than from, which is 2s"},
		{"an occurrence of 0", "faults:\n  - {fault: throttle, occurrences: [0]}\n", "occurrences has 0, but the first is 1"},
		{"a seed that replies cannot have", "seed: 9223372036854775808\nfaults: []\n", "f.yaml:1:7: seed is 9223372036854775808, but must be at most 9223372036854775807"},
		{"an unknown identity", "identity: x\nfaults: []\n", `f.yaml:1:11: identity "x" must be key or operation`},
		{"a syntax error", "faults: [\n", "f.yaml:"},
		{"an alias", "faults:\n  - &a {fault: throttle}\n  - *a\n", "f.yaml:2:5: anchors and aliases are not allowed"},
		{"deep brackets", "faults: " + strings.Repeat("[", 1<<20), "nested more than 32 levels deep"},
		{"deep lists", "faults:\n" + strings.Repeat("- ", 1<<20), "nested more than 32 levels deep"},
		{"deep tags", "faults: " + strings.Repeat("!a ", 1<<10), "nested more than 32 levels deep"},
		{"deep tags in lines", "faults:\n" + strings.Repeat(" !a\n", 1<<10), "nested more than 32 levels deep"},
		{"deep tags in brackets", "faults: [" + strings.Repeat("!a ", 1<<10), "nested more than 32 levels deep"},
		{"deep keys in brackets", "faults: [" + strings.Repeat("? ", 1<<10), "nested more than 32 levels deep"},
		{"deep anchors", "faults: [" + strings.Repeat("&a ", 1<<10), "nested more than 32 levels deep"},
		{"many lines", "faults: []" + strings.Repeat("\n", maxPlanLines+1), "the plan has 150001 lines, but at most 150000 are allowed"},
		{"two documents", "faults: []\n---\nfaults: []\n", "a second document is not allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse("f.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// A plan with as many rules as are allowed has no more lines in its own text than are allowed: a tenth of them has a
// tenth of the lines.
func TestFormatOfManyRules(t *testing.T) {
	p := &Plan{Rules: make([]Rule, MaxRules/10)}
	for i := range p.Rules {
		p.Rules[i] = Rule{Fault: StaleRead, Operations: []string{"GetItem"}, Table: "Orders", Request: "1f", Occurrences: []int{1}, Lag: time.Second, Key: map[string]string{"id": "a !b"}}
	}
	text := p.Format()
	if lines := bytes.Count(text, []byte{'\n'}) * 10; lines > maxPlanLines {
		t.Errorf("%d rules have %d lines", MaxRules, lines)
	}
	if _, err := Parse("f.yaml", text); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("seed: 7\nfaults:\n  - {fault: throttle, share: 0.5}\n"))
	f.Add([]byte("faults:\n- fault: latency\n  delay: 1s\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := Parse("f", text); err == nil {
			if _, err := Parse("again", p.Format()); err != nil {
				t.Errorf("%q is parsed, but its text %q is not: %v", text, p.Format(), err)
			}
		}
	})
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"Orders", "Orders", true}, {"Orders", "Orders2", false}, {"*", "Orders", true}, {"Or*", "Orders", true}, {"*rs", "Orders", true},
		{"O*d*s", "Orders", true}, {"O*x*s", "Orders", false}, {"Or*rs", "Ors", false}, {"*a*", "", false}, {"a*a", "a", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("matches(%q, %q) = %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

// at is a request for an item.
func at(operation, key string) Request {
	return Request{Operation: operation, Tables: []string{"Orders"}, Keys: []map[string]string{{"id": key}}}
}

func newInjector(p Plan) (*Injector, *time.Duration) {
	now := new(time.Duration)
	in := New(func() time.Duration { return *now })
	in.Set(p)
	return in, now
}

// decided returns whether each of some requests gets a fault.
func decided(in *Injector, f Fault, requests ...Request) (got []bool) {
	for _, r := range requests {
		_, ok := in.Decide(r).Get(f)
		got = append(got, ok)
	}
	return got
}

func TestRules(t *testing.T) {
	put, other, get := at("PutItem", "a"), at("PutItem", "b"), at("GetItem", "a")
	for _, c := range []struct {
		name string
		rule Rule
		want []bool // of put, other, get, put
	}{
		{"all", Rule{Fault: Throttle}, []bool{true, true, true, true}},
		{"an operation", Rule{Fault: Throttle, Operations: []string{"GetItem"}}, []bool{false, false, true, false}},
		{"a table", Rule{Fault: Throttle, Table: "Cart*"}, []bool{false, false, false, false}},
		{"a key", Rule{Fault: Throttle, Key: map[string]string{"id": "a"}}, []bool{true, false, true, true}},
		{"a key with other attributes", Rule{Fault: Throttle, Key: map[string]string{"id": "a", "n": "1"}}, []bool{false, false, false, false}},
		{"an occurrence", Rule{Fault: Throttle, Occurrences: []int{2}}, []bool{false, false, false, true}},
		{"a count", Rule{Fault: Throttle, Count: 2}, []bool{true, true, false, false}},
		{"no share", Rule{Fault: Throttle, Share: new(float64)}, []bool{false, false, false, false}},
		{"a fault of other operations", Rule{Fault: Unprocessed}, []bool{false, false, false, false}},
		{"conflicts without transactions", Rule{Fault: Conflict}, []bool{false, false, false, false}},
		{"conflicts that are asked for", Rule{Fault: Conflict, Operations: []string{"PutItem"}}, []bool{true, true, false, true}},
		{"later", Rule{Fault: Throttle, From: time.Second}, []bool{false, false, false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, _ := newInjector(Plan{Rules: []Rule{c.rule}})
			if got := decided(in, c.rule.Fault, put, other, get, put); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestRuleTimes(t *testing.T) {
	in, now := newInjector(Plan{Rules: []Rule{{Fault: Throttle, From: time.Second, Until: 3 * time.Second}}})
	var got []bool
	for *now = 0; *now < 5*time.Second; *now += time.Second {
		got = append(got, decided(in, Throttle, at("PutItem", "a"))...)
	}
	if want := []bool{false, true, true, false, false}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A request is rejected in a row at most as often as the plan says, whatever comes in between.
func TestConsecutive(t *testing.T) {
	for _, identity := range []string{IdentityKey, IdentityOperation} {
		in, _ := newInjector(Plan{Identity: identity, Consecutive: 2, Rules: []Rule{{Fault: InternalError}}})
		var got []bool
		for range 6 {
			got = append(got, decided(in, InternalError, at("PutItem", "a"))...)
			decided(in, InternalError, at("PutItem", "b"))
		}
		if want := []bool{true, true, false, true, true, false}; !slices.Equal(got, want) {
			t.Errorf("by %s: got %v, want %v", identity, got, want)
		}
	}
}

// The choice for a request depends on the seed and its number among those like it, not on the
// order in which all come.
func TestDecisionsRepeat(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	share := 0.4
	plan := Plan{Seed: seed, Rules: []Rule{{Fault: Throttle, Share: &share}, {Fault: LostAnswer, Share: &share}}}
	var requests []Request
	for i := range 200 {
		requests = append(requests, at("PutItem", fmt.Sprint(i%40)))
	}
	run := func(p Plan, requests []Request) (log []string) {
		in, _ := newInjector(p)
		for _, r := range requests {
			d := in.Decide(r)
			for _, f := range []Fault{Throttle, LostAnswer} {
				if _, ok := d.Get(f); ok {
					d.Note(f, fmt.Sprint(d.Pick(f, 100)))
				}
			}
		}
		found, total := in.Log(0, Kept)
		if len(found) != total || total == 0 {
			t.Fatalf("%d of %d faults are kept", len(found), total)
		}
		for _, f := range found {
			log = append(log, fmt.Sprint(f.Fault, " ", f.Key, " ", f.Occurrence, " ", f.Detail))
		}
		slices.Sort(log)
		return log
	}
	first := run(plan, requests)
	shuffled := slices.Clone(requests)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if again := run(plan, shuffled); !slices.Equal(first, again) {
		t.Error("the same requests in another order get other faults")
	}
	plan.Seed++
	if other := run(plan, requests); slices.Equal(first, other) {
		t.Error("another seed injects the same faults")
	}
	plan.Seed--

	// A replay of the log injects it again.
	in, _ := newInjector(plan)
	for _, r := range requests {
		if d := in.Decide(r); d != nil {
			d.Note(d.chosen[0].Fault, fmt.Sprint(d.Pick(d.chosen[0].Fault, 100)))
		}
	}
	found, _ := in.Log(0, Kept)
	replay := Plan{Seed: seed}
	for i := range found {
		replay.Rules = append(replay.Rules, found[i].Replay())
	}
	if again := run(replay, shuffled); !slices.Equal(first, again) {
		t.Errorf("the replay injects %v, want %v", again, first)
	}
}

// The log has a bound, and keeps the newest.
func TestLogIsBounded(t *testing.T) {
	in, _ := newInjector(Plan{Rules: []Rule{{Fault: Throttle}}})
	const extra = 25
	for range Kept + extra {
		d := in.Decide(at("PutItem", "a"))
		d.Note(Throttle, "")
		d.Note(Throttle, "again") // is not recorded
	}
	found, total := in.Log(0, 3*Kept)
	if total != Kept+extra || len(found) != Kept || found[0].Number != extra+1 || found[Kept-1].Number != Kept+extra {
		t.Errorf("%d of %d are kept, from %d on", len(found), total, found[0].Number)
	}
	if page, _ := in.Log(total-3, 2); len(page) != 2 || page[0].Number != total-2 {
		t.Errorf("the page after %d is %+v", total-3, page)
	}
}

// Requests are counted in bounded memory, whatever their keys and tables are.
// A fault of a request that began before the plan was replaced is not in the log of the new one.
func TestLogBeginsAgain(t *testing.T) {
	in := New(func() time.Duration { return 0 })
	plan := Plan{Rules: []Rule{{Fault: LostAnswer}}}
	in.Set(plan)
	before := in.Decide(Request{Operation: "PutItem", Tables: []string{"Orders"}})
	in.Set(plan)
	before.Note(LostAnswer, "late")
	if found, total := in.Log(0, Kept); total != 0 || len(found) != 0 {
		t.Errorf("the log has %+v", found)
	}
	in.Decide(Request{Operation: "PutItem", Tables: []string{"Orders"}}).Note(LostAnswer, "")
	if _, total := in.Log(0, Kept); total != 1 {
		t.Errorf("%d faults were injected by the new plan, want 1", total)
	}
}

func TestSeenIsBounded(t *testing.T) {
	in, _ := newInjector(Plan{Consecutive: 1, Rules: []Rule{{Fault: Throttle}}})
	for i := range maxSeen + maxByOperation {
		in.seen[uint64(i)] = new(requests)
	}
	for i := range 4 {
		r := at("PutItem", "a")
		r.Tables = []string{fmt.Sprintf("T%d", i)}
		if got, want := decided(in, Throttle, r)[0], i%2 == 0; got != want {
			t.Errorf("request %d is throttled: %v, want %v", i, got, want)
		}
	}
	if n := len(in.seen); n != maxSeen+maxByOperation {
		t.Errorf("%d ids are kept", n)
	}
}

func TestMinimize(t *testing.T) {
	for _, c := range []struct {
		n     int
		needs []int
	}{{1, []int{0}}, {8, []int{3}}, {50, []int{0, 49}}, {100, []int{7, 8, 60}}, {9, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}}} {
		all := make([]int, c.n)
		for i := range all {
			all[i] = i
		}
		runs := 0
		got := Minimize(all, func(part []int) bool {
			runs++
			for _, need := range c.needs {
				if !slices.Contains(part, need) {
					return false
				}
			}
			return true
		})
		if !slices.Equal(got, c.needs) {
			t.Errorf("%d elements are reduced to %v, want %v", c.n, got, c.needs)
		}
		t.Logf("%d elements to %d: %d runs", c.n, len(c.needs), runs)
	}
}

func TestWriteTimeline(t *testing.T) {
	var b bytes.Buffer
	err := WriteTimeline(&b, []Injected{{At: 1500 * time.Millisecond, Fault: IndexLag, Operation: "Query", Tables: []string{"Orders"}, Index: "by-state", Key: "id=\x1b[31m" + strings.Repeat("x", 100), Occurrence: 3, Detail: "as of 1s ago"}})
	want := "AT      FAULT      OPERATION  TABLE            KEY                                                            NTH  DETAIL\n" +
		"1.500s  index-lag  Query      Orders/by-state  id=?[31m" + strings.Repeat("x", 52) + "…  3    as of 1s ago\n"
	if err != nil || b.String() != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, b.String(), want)
	}
}
