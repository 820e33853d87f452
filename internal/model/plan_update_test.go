package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

// After an update, each key of an item is what its template gives for the item's
// attributes, and the item has the attributes whose when holds, whatever state the item
// was in before.
func TestUpdatesKeepKeys(t *testing.T) {
	states := 0
	for name, text := range correctModels(t) {
		n, wrong := staleKeys(t, parsed(t, text))
		states += n
		for _, w := range wrong {
			t.Errorf("%s: %s", name, w)
		}
	}
	t.Logf("%d updates", states)
	if states < 50 {
		t.Errorf("only %d updates were tested", states)
	}
}

// The test above finds an update that leaves a key as it was.
func TestStaleKeysAreFound(t *testing.T) {
	m := parsed(t, []byte(ticketModel))
	for _, p := range m.Patterns {
		plan := m.Plan(p)
		if p.verb != Update {
			continue
		}
		s := plan.Steps[0]
		s.edits = slices.DeleteFunc(s.edits, func(e edit) bool { return e.derived })
		if wrong := staleKeysOf(t, m, plan); len(wrong) == 0 {
			t.Errorf("%s: nothing is wrong without the changes of keys", p.Name)
		}
	}
}

const ticketModel = `
model: 1
tables:
  tab: {key: {partition: PK}, indexes: {GSI1: {partition: GSI1PK, sort: at}}}
entities:
  ticket:
    keys: {PK: "TICKET#{id}", GSI1PK: "STATUS#{status}"}
    attributes:
      id: {format: uuid}
      status: {values: [NEW, OPEN, CLOSED], mix: {CLOSED: 0.9}}
      at: {format: iso8601}
patterns:
  - {name: close, update: ticket, given: [id], set: {status: CLOSED}, rate: 1/s}
  - {name: change, update: ticket, given: [id], set: {status: "{status}"}, rate: 1/s}
  - {name: forget, update: ticket, given: [id], remove: [status], rate: 1/s}
`

// The changes of an update are those that any state before it needs.
func TestEditsOfUpdates(t *testing.T) {
	const job = `
model: 1
tables:
  tab: {key: {partition: PK}, indexes: {GSI1: {partition: GPK, sort: GSK}, GSI2: {partition: kind, sort: rank}, GSI3: {partition: all}}, types: {rank: N}}
entities:
  job:
    keys:
      PK: "JOB#{id}"
      all: "JOBS"
      GPK: {template: "Q#{status}", when: {status: [READY, RETRY]}}
      GSK: {template: "{due}", when: {status: [READY, RETRY]}}
      rank: "{points}"
    attributes:
      id: {format: uuid}
      status: {values: [READY, RUNNING, RETRY, DONE], mix: {DONE: 0.9}}
      due: {format: iso8601}
      leased: {format: iso8601, when: {status: [RUNNING]}}
      kind: {values: [a, b]}
      points: N
patterns:
  - {name: x, update: job, given: [id], rate: 1/s, %s}
`
	for _, c := range []struct{ action, edits, states string }{
		{`set: {status: DONE}`, "SET status, REMOVE GPK, REMOVE GSK, REMOVE leased", "READY RUNNING RETRY DONE"},
		{`set: {status: DONE}, condition: "#status = :s", values: {":s": RUNNING}, from: {status: RUNNING}`, "SET status, REMOVE leased", "RUNNING"},
		{`set: {status: DONE}, condition: "#status <> :s", values: {":s": RUNNING}, from: {status: READY}`, "SET status, REMOVE GPK, REMOVE GSK", "READY RETRY DONE"},
		{`set: {status: RUNNING, leased: "{leased}"}, condition: "#status = :s", values: {":s": READY}, from: {status: READY}`, "SET status, SET leased, REMOVE GPK, REMOVE GSK", "READY"},
		{`set: {status: RUNNING}, condition: "#status = :s", values: {":s": RUNNING}, from: {status: RUNNING}`, "SET status", ""},
		{`set: {status: RETRY}, remove: [leased], condition: "#status = :s", values: {":s": RUNNING}, from: {status: RUNNING}`, "SET status, REMOVE leased, SET GPK, SET GSK", "RUNNING"},
		{`set: {status: RETRY}`, "SET status, SET GPK, SET GSK, REMOVE leased", "DONE READY RUNNING RETRY"},
		{`set: {status: RETRY}, condition: "#status = :s", values: {":s": READY}, from: {status: READY}`, "SET status, SET GPK", "READY"},
		{`set: {status: RETRY}, condition: "#status IN (:a, :b)", values: {":a": READY, ":b": RUNNING}, from: {status: READY}`, "SET status, SET GPK, SET GSK, REMOVE leased", "READY RUNNING"},
		{`set: {status: RETRY}, condition: "#status = :a OR #status = :b AND #leased < :t", values: {":a": READY, ":b": RUNNING, ":t": "2026-01-01T00:00:00Z"}, from: {status: READY}`, "SET status, SET GPK, SET GSK, REMOVE leased", "READY"},
		{`set: {due: "{due}"}, condition: "#status = :s", values: {":s": READY}, from: {status: READY}`, "SET due, SET GSK", "READY"},
		{`set: {due: "{due}"}, condition: "attribute_exists(GSK)", from: {status: READY}`, "SET due, SET GSK", "READY RETRY"},
		{`set: {due: "{due}"}, condition: "#status = :s", values: {":s": DONE}, from: {status: DONE}`, "SET due", ""},
		{`remove: [due], condition: attribute_exists(PK)`, "REMOVE due, REMOVE GSK", "DONE READY RUNNING RETRY"},
		{`remove: [status], condition: attribute_exists(PK)`, "REMOVE status, REMOVE GPK, REMOVE GSK, REMOVE leased", "DONE READY RUNNING RETRY"},
		{`add: {points: 3}`, "ADD points, ADD rank", ""},
		{`set: {points: 3}`, "SET points, SET rank", ""},
		{`set: {kind: a}`, "SET kind", ""},
		{`set: {status: READY}, condition: "#leased <= :leased", from: {status: RUNNING}`, "SET status, SET GPK, SET GSK, REMOVE leased", "RUNNING"},
		{`set: {due: "{due}"}, condition: "#leased <= :leased", from: {status: RUNNING}`, "SET due", ""},
		{`creates: true, set: {status: DONE}`, "SET status, SET all", ""},
		{`creates: true, set: {status: READY}`, "SET status, SET all, SET GPK", ""},
		{`creates: true, set: {status: READY, due: "{due}", points: 1, kind: a}`, "SET status, SET due, SET points, SET kind, SET all, SET GPK, SET GSK, SET rank", ""},
	} {
		m := parsed(t, fmt.Appendf(nil, job, c.action))
		plan := m.Plan(m.Patterns[0])
		for _, f := range plan.Faults {
			t.Errorf("%s: %v", c.action, f)
		}
		var edits, states []string
		for _, e := range plan.Steps[0].edits {
			edits = append(edits, e.verb+" "+e.field.Name)
		}
		for _, s := range plan.Steps[0].states {
			states = append(states, plain(s["status"]))
		}
		if got := strings.Join(edits, ", "); got != c.edits {
			t.Errorf("%s: changes %q, expected %q", c.action, got, c.edits)
		}
		if got := strings.Join(states, " "); got != c.states {
			t.Errorf("%s: the states before are %q, expected %q", c.action, got, c.states)
		}
		for _, wrong := range staleKeysOf(t, m, plan) {
			t.Error(wrong)
		}
	}
}

// staleKeys returns the keys that updates of a model leave wrong, and how many updates
// it tried.
func staleKeys(t *testing.T, m *Model) (tried int, wrong []string) {
	for _, p := range m.Patterns {
		plan := m.Plan(p)
		if !plan.Served() || p.Batch != nil {
			continue
		}
		wrong = append(wrong, staleKeysOf(t, m, plan)...)
		for _, s := range plan.Steps {
			if s.Action.verb == Update {
				tried += plan.States()
			}
		}
	}
	return tried, wrong
}

func staleKeysOf(t *testing.T, m *Model, plan *Plan) (wrong []string) {
	t.Helper()
	for state := range plan.States() {
		d, err := m.buildScenario(plan, Generator{}, 0, state)
		if err != nil {
			t.Fatalf("%s: %v", plan.Pattern.Name, err)
		}
		for i, s := range plan.Steps {
			if s.Action.verb != Update || s.Action.Creates {
				continue
			}
			w, err := d.buildWrite(s, i)
			if err != nil {
				t.Fatal(err)
			}
			wrong = append(wrong, staleKeysAfter(s, w)...)
		}
	}
	return wrong
}

// staleKeysAfter compares the keys of the item after an update with what the templates
// give for its attributes.
func staleKeysAfter(s *Step, w *itemWrite) (wrong []string) {
	x := *w.now
	x.fixed = make(map[string]item.Value)
	lacks := make(map[string]bool)
	for _, f := range s.Entity.fields {
		if v, fixed := w.now.fixed[f.Name]; fixed && !f.Stored {
			x.fixed[f.Name] = v
		}
		if f.template != nil || !f.Stored {
			continue
		}
		if v, ok := w.after.Get(f.Name); ok {
			x.fixed[f.Name] = v
		} else {
			lacks[f.Name] = true
		}
	}
	for _, f := range s.Entity.fields {
		if f.template == nil && len(f.when) == 0 || !f.Stored {
			continue
		}
		if f.template == nil && touched(s.namedEdits(), f) && len(changedBy(s.namedEdits(), names(f.requires))) == 0 {
			continue // the caller knows that the item may have it
		}
		uses := slices.Concat(s.Entity.dependencies(f.Name), names(f.when))
		if f.template == nil {
			uses = names(f.when)
		}
		present := x.present(f) && !slices.ContainsFunc(uses, func(name string) bool { return lacks[name] })
		got, ok := w.after.Get(f.Name)
		if ok != present || present && f.template != nil && !item.Equal(got, x.value(f)) {
			wrong = append(wrong, fmt.Sprintf("%s leaves %s of %v as it was", s.Action.Update, f.Name, w.after))
		}
	}
	return wrong
}

// A key of an index that is an attribute with a condition is removed with it, or must be set.
func TestUpdatesOfConditionalKeys(t *testing.T) {
	const text = `
model: 1
tables:
  tab: {key: {partition: id}, indexes: {open: {partition: queue, sort: openSince}}}
entities:
  job:
    attributes:
      id: {format: uuid}
      queue: {size: 4}
      status: {values: [OPEN, DONE]}
      openSince: {format: iso8601, when: {status: [OPEN]}}
      step: {values: [x, y], when: {status: [OPEN]}}
      label: {template: "L#{step}", when: {step: [x]}}
patterns:
  - {name: x, update: job, given: [id], rate: 1/s, %s}
`
	for action, want := range map[string]string{
		`set: {status: DONE}`: "SET status, REMOVE openSince, REMOVE step, REMOVE label",
		`set: {status: OPEN, openSince: "{openSince}"}, from: {status: DONE}, condition: "#status = :s", values: {":s": DONE}`: "openSince",
		`set: {status: OPEN}`: "stale",
		`set: {step: y}, from: {status: OPEN}, condition: "#status = :status"`:  "SET step, REMOVE label",
		`remove: [label], from: {status: OPEN}, condition: "#status = :status"`: "stale",
	} {
		m := parsed(t, fmt.Appendf(nil, text, action))
		plan := m.Plan(m.Patterns[0])
		var got []string
		for _, e := range plan.Steps[0].edits {
			got = append(got, e.verb+" "+e.field.Name)
		}
		for _, f := range plan.Faults {
			got = append(got, f.Code)
		}
		if !strings.Contains(strings.Join(got, ", "), want) {
			t.Errorf("%s: got %q, want %q", action, got, want)
		}
	}
}

// An attribute with a when that is no key is removed when its when no longer holds, and must
// be set when it begins to. The item afterwards agrees with the model.
func TestUpdatesOfConditionalAttributes(t *testing.T) {
	const text = `
model: 1
tables:
  tab: {key: {partition: id}}
entities:
  job:
    attributes:
      id: {format: uuid}
      state: {values: [OPEN, FAILED, DEAD, DONE]}
      level: {type: N, values: [1, 2]}
      notified: {values: ["yes", "no"], stored: false}
      reason: {size: 20, when: {state: [FAILED, DEAD]}}
      code: {type: N, when: {state: FAILED}}
      notes: {type: L, when: {state: FAILED}}
      hint: {size: 10, when: {level: 2}}
      result: {size: 20, when: {notified: "yes"}}
      loud: {size: 20, when: {state: DONE, notified: "yes"}}
patterns:
  - {name: x, update: job, given: [id], rate: 1/s, %s}
`
	for _, c := range []struct{ name, action, want string }{
		{"what no longer holds is removed", `set: {state: OPEN}, from: {state: FAILED}, condition: "#state = :state"`, "SET state, REMOVE reason, REMOVE code, REMOVE notes"},
		{"by any state that is accepted", `set: {state: OPEN}`, "SET state, REMOVE reason, REMOVE code, REMOVE notes, REMOVE loud"},
		{"what the item never had is not removed", `set: {state: OPEN}, from: {state: DEAD}, condition: "#state = :s", values: {":s": DEAD}`, "SET state, REMOVE reason"},
		{"what still holds stays", `set: {state: DEAD}, from: {state: FAILED}, condition: "#state = :s", values: {":s": FAILED}`, "SET state, REMOVE code, REMOVE notes"},
		{"what begins to hold must be set", `set: {state: DEAD}, from: {state: OPEN}, condition: "#state = :s", values: {":s": OPEN}`,
			"SET state, stale: the item has reason afterwards by its when, and the update does not set it"},
		{"in any state that is accepted", `set: {state: DEAD, reason: "{reason}"}, from: {state: OPEN}`, "SET state, SET reason, REMOVE code, REMOVE notes, REMOVE loud"},
		{"a number may be added to", `set: {state: FAILED, reason: a, notes: [a]}, add: {code: 1}, from: {state: OPEN}, condition: "#state = :s", values: {":s": OPEN}`, "SET state, SET reason, SET notes, ADD code"},
		{"a new value that decides", `set: {state: "{state}"}`, "SET state, stale: whether the item has reason depends on the new value of state, so that no single request is right"},
		{"also if it is set", `set: {state: "{state}", reason: a}`, "SET state, SET reason, stale: whether the item has reason depends on the new value of state, so that no single request is right"},
		{"a sum that decides", `add: {level: 1}`, "ADD level, stale: hint depends on level, but no expression can compute it from the sum"},
		{"also if it is set", `add: {level: 1}, set: {hint: a}`, "SET hint, ADD level, stale: hint depends on level, but no expression can compute it from the sum"},
		{"the attribute that decides is removed", `remove: [state]`, "REMOVE state, REMOVE reason, REMOVE code, REMOVE notes, REMOVE loud"},
		{"an attribute that decides and is not stored", `set: {notified: "no"}, from: {notified: "yes"}`, "REMOVE result, REMOVE loud"},
		{"a value that the item cannot have", `set: {state: DONE, notified: "no", reason: a}, from: {state: OPEN}, condition: "#state = :s", values: {":s": OPEN}`,
			"SET state, SET reason, REMOVE result, stale: it sets reason, which the item does not have afterwards by its when"},
		{"a number that the item cannot have", `set: {state: DEAD, reason: a}, add: {code: 1}, from: {state: OPEN}`,
			"SET state, SET reason, ADD code, REMOVE notes, REMOVE loud, stale: it adds to code, which the item does not have afterwards by its when"},
		{"a list that the item cannot have", `set: {state: DEAD, reason: a}, append: {notes: [a]}, from: {state: OPEN}`,
			"SET state, SET reason, append notes, REMOVE code, REMOVE loud, stale: it appends to notes, which the item does not have afterwards by its when"},
		{"a removal of what the item has", `remove: [reason], from: {state: DEAD}, condition: "#state = :s", values: {":s": DEAD}`,
			"REMOVE reason, stale: it removes reason, which the item still has by its when"},
		{"a removal with the state", `set: {state: OPEN}, remove: [reason], from: {state: DEAD}, condition: "#state = :s", values: {":s": DEAD}`, "SET state, REMOVE reason"},
		{"a state that the update does not change", `set: {reason: a}`, "SET reason"},
		{"a new item", `creates: true, set: {state: OPEN}`, "SET state"},
		{"a new item without what it must have", `creates: true, set: {state: DEAD}`, "SET state, stale: the item has reason afterwards by its when, and the update does not set it"},
		{"a new item with what it must have", `creates: true, set: {state: DEAD, reason: a}`, "SET state, SET reason"},
		{"a new item without any state", `creates: true, set: {level: 1}`, "SET level"},
		{"a new item that begins with a sum", `creates: true, add: {level: 2}`, "ADD level, stale: the item has hint afterwards by its when, and the update does not set it"},
		{"a new item in a state that is not known", `creates: true, set: {state: "{state}"}`, "SET state, stale: whether the item has reason depends on the new value of state, so that no single request is right"},
		{"a new item by an attribute that is not stored", `creates: true, set: {notified: "yes"}`, "stale: the item has result afterwards by its when"},
		{"a new item with what it cannot have", `creates: true, set: {state: OPEN, reason: a}`, "SET state, SET reason, stale: it sets reason, which the item does not have afterwards by its when"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parsed(t, fmt.Appendf(nil, text, c.action))
			plan := m.Plan(m.Patterns[0])
			var got []string
			for _, e := range plan.Steps[0].edits {
				got = append(got, e.verb+" "+e.field.Name)
			}
			for _, f := range plan.Faults {
				got = append(got, "stale: "+f.Message)
			}
			if text := strings.Join(got, ", "); !strings.HasPrefix(text+",", c.want+",") {
				t.Errorf("%s: got\n  %s\nwant\n  %s", c.action, text, c.want)
			}
			if len(plan.Faults) == 0 {
				for _, wrong := range staleKeysOf(t, m, plan) {
					t.Error(wrong)
				}
			} else if !strings.Contains(c.want, "stale: ") {
				t.Error(plan.Faults)
			}
		})
	}
}

// An attribute that is not stored can decide which keys an item has. It is not written.
func TestUpdatesOfUnstoredAttributes(t *testing.T) {
	const text = `
model: 1
tables:
  tab: {key: {partition: PK}, indexes: {open: {partition: GPK}}}
entities:
  job:
    keys: {PK: "JOB#{id}", GPK: {template: "Q#{status}", when: {listed: "yes"}}}
    attributes:
      id: {format: uuid}
      status: {values: [OPEN, FAILED]}
      listed: {values: ["yes", "no"], stored: false}
patterns:
  - {name: x, update: job, given: [id], rate: 1/s, %s}
`
	for action, want := range map[string]string{
		`from: {status: FAILED, listed: "yes"}, set: {listed: "no"}, condition: "#status = :s", values: {":s": FAILED}`: "REMOVE GPK",
		`set: {status: FAILED, listed: "yes"}, from: {status: OPEN}, condition: "#status = :s", values: {":s": OPEN}`:   "SET status, SET GPK",
	} {
		m := parsed(t, fmt.Appendf(nil, text, action))
		plan := m.Plan(m.Patterns[0])
		var got []string
		for _, e := range plan.Steps[0].edits {
			got = append(got, e.verb+" "+e.field.Name)
		}
		for _, f := range plan.Faults {
			got = append(got, f.Error())
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %q, want %q", action, got, want)
		}
		for _, wrong := range staleKeysOf(t, m, plan) {
			t.Error(wrong)
		}
	}
}

// What an item that an update creates has by an attribute of its key follows from the value
// that from says, with which the request is sent.
func TestNewItemsByTheirKey(t *testing.T) {
	const text = `
model: 1
tables: {tab: {key: {partition: PK}}}
entities:
  job:
    keys: {PK: "JOB#{id}#{kind}"}
    attributes:
      id: {format: uuid}
      kind: {values: [MAIL, HOOK]}
      level: {values: [LOW, HIGH]}
      hint: {size: 10, when: {kind: MAIL, level: HIGH}}
      side: {values: [LEFT, RIGHT]}
      turn: {size: 10, when: {level: HIGH, side: LEFT}}
      sent: {type: SS, when: {kind: MAIL}}
      both: {size: 10, when: {kind: MAIL, side: [LEFT, RIGHT]}}
patterns:
  - {name: x, update: job, given: [id, kind], creates: true, rate: 1/s, %s}
`
	for _, c := range []struct{ name, action, want string }{
		{"without the attribute", "from: {kind: HOOK}, set: {level: HIGH}", ""},
		{"with it", "from: {kind: MAIL}, set: {level: HIGH, hint: x}", ""},
		{"without what it must have", "from: {kind: MAIL}, set: {level: HIGH}", "the item has hint afterwards by its when, and the update does not set it"},
		{"with what it cannot have", "from: {kind: HOOK}, set: {level: HIGH, hint: x}", "it sets hint, which the item does not have afterwards by its when"},
		{"a later update may set what the key alone decides", "from: {kind: MAIL}, set: {level: LOW}", ""},
		{"the key does not matter", "set: {level: LOW}", ""},
		{"a key that is not known", "set: {level: HIGH}",
			"whether the new item has hint depends on kind in its key, so that no single request is right; declare one pattern for each value of kind, and say with from which it has"},
		{"a new value that is not known", `from: {kind: MAIL}, set: {level: "{level}"}`, "whether the item has hint depends on the new value of level"},
		{"an attribute of which all values do", `set: {side: "{side}", both: x}`, "whether the new item has both depends on kind in its key"},
		{"a value that is not set", "from: {kind: HOOK}, set: {level: HIGH, turn: x}", "whether the new item has turn depends on side, which the update does not set; set side too"},
		{"what is before does not count", "from: {kind: MAIL, level: LOW}, set: {level: HIGH, hint: x}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parsed(t, fmt.Appendf(nil, text, c.action))
			var got []string
			for _, f := range m.Plan(m.Patterns[0]).Faults {
				got = append(got, f.Error())
			}
			if text := strings.Join(got, "\n"); c.want == "" && text != "" || !strings.HasPrefix(text, c.want) || len(got) > 1 {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// An item that an update creates has no state before, however many there are.
func TestManyStatesOfNewItems(t *testing.T) {
	var values []string
	for i := range 17 {
		values = append(values, fmt.Sprintf("V%d", i))
	}
	text := strings.ReplaceAll(`
model: 1
tables: {tab: {key: {partition: id}}}
entities:
  job:
    attributes:
      id: {format: uuid}
      a: {values: [VALUES]}
      b: {values: [VALUES]}
      c: {values: [VALUES]}
      reason: {size: 40, when: {a: V0, b: V0, c: V0}}
patterns:
  - {name: x, update: job, given: [id], creates: true, set: %s, rate: 1/s}
`, "VALUES", strings.Join(values, ", "))
	for _, c := range []struct{ name, set, want string }{
		{"without the attribute", "{a: V1, b: V1, c: V1}", ""},
		{"one value suffices", `{a: "{a}", b: "{b}", c: V1}`, ""},
		{"without what it must have", "{a: V0, b: V0, c: V0}", "the item has reason afterwards by its when, and the update does not set it"},
		{"with what it must have", "{a: V0, b: V0, c: V0, reason: x}", ""},
		{"with what it cannot have", `{a: V0, b: "{b}", c: V1, reason: x}`, "it sets reason, which the item does not have afterwards by its when"},
		{"unknown values", `{a: "{a}", b: "{b}", c: "{c}"}`, "whether the item has reason depends on the new value of a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parsed(t, fmt.Appendf(nil, text, c.set))
			var got string
			for _, f := range m.Plan(m.Patterns[0]).Faults {
				got += f.Message + "\n"
			}
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || strings.Count(got, "\n") > 1 {
				t.Errorf("got %swant %s", got, c.want)
			}
		})
	}
}

// Many attributes on which a key depends do not take long.
func TestManyStates(t *testing.T) {
	var when, set, attributes []string
	for i := range 12 {
		when = append(when, fmt.Sprintf("b%d: [true]", i))
		set = append(set, fmt.Sprintf("b%d: \"{b%d}\"", i, i))
		attributes = append(attributes, fmt.Sprintf("b%d: BOOL", i))
	}
	text := fmt.Sprintf(`
model: 1
tables: {tab: {key: {partition: id}, indexes: {gsi: {partition: GPK}}}}
entities: {job: {keys: {GPK: {template: "G#{id}", when: {%s}}}, attributes: {id: {format: uuid}, %s}}}
patterns: [{name: x, update: job, given: [id], set: {%s}, rate: 1/s}]
`, strings.Join(when, ", "), strings.Join(attributes, ", "), strings.Join(set, ", "))
	m := parsed(t, []byte(text))
	if faults := m.Plan(m.Patterns[0]).Faults; len(faults) != 1 || faults[0].Code != "stale" {
		t.Errorf("the faults are %v", faults)
	}
}
