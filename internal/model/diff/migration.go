package diff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// Step is a part of the migration from one model to another.
type Step struct {
	Kind   string  `json:"kind"`
	Table  string  `json:"table"`
	Entity string  `json:"entity,omitempty"`
	Text   string  `json:"text"`
	Loses  string  `json:"loses,omitempty"` // what is lost by the step
	Items  float64 `json:"items,omitempty"` // how many items the first model says are stored, of those that the step concerns
}

// The kinds of step.
const (
	Request = "request" // a request that changes a table
	Rewrite = "rewrite" // items are updated in place
	Copy    = "copy"    // items are copied to another key or table
	Drop    = "drop"    // a table that the second model does not have
)

// migration returns the steps from one model to another.
func migration(before, after *model.Model) ([]*Step, error) {
	plan, err := apply.Between(before, after)
	if err != nil {
		return nil, err
	}
	m := &migrator{before: before, after: after, steps: []*Step{}, copied: make(map[string]bool)}
	for _, f := range plan.Faults {
		m.copyTable(f)
	}
	for _, c := range plan.Changes {
		if !m.copied[c.Table] {
			m.steps = append(m.steps, &Step{Kind: Request, Table: c.Table, Text: c.Request.Operation + ": " + c.Text, Loses: c.Loses})
		}
	}
	for _, e := range before.Entities {
		m.entity(e)
	}
	for _, t := range before.Tables {
		if _, ok := after.Table(t.Name); !ok {
			m.steps = append(m.steps, &Step{Kind: Drop, Table: t.Name, Text: "the second model does not have the table", Loses: "its items that are not copied"})
		}
	}
	return m.steps, nil
}

type migrator struct {
	before, after *model.Model
	steps         []*Step
	copied        map[string]bool // tables of which all items are copied
}

// copyTable adds the copy of a table that no request can change, once.
func (m *migrator) copyTable(f *apply.Fault) {
	if m.copied[f.Table] {
		return
	}
	m.copied[f.Table] = true
	t, _ := m.before.Table(f.Table)
	items := 0.0
	for _, e := range m.before.EntitiesOf(t) {
		items += float64(e.Count)
	}
	m.steps = append(m.steps, &Step{Kind: Copy, Table: f.Table, Text: "copy all items to a new table: " + f.Message, Items: items})
}

// entity adds what becomes of the stored items of an entity.
func (m *migrator) entity(old *model.Entity) {
	now, ok := m.after.Entity(old.Name)
	step := &Step{Table: old.TableOf().Name, Entity: old.Name, Items: float64(old.Count)}
	if !ok {
		if _, still := m.after.Table(step.Table); still {
			step.Kind, step.Text = Drop, "the second model does not have the entity"
			m.steps = append(m.steps, step)
		}
		return
	}
	to := now.TableOf()
	if to.Name != step.Table {
		step.Kind, step.Text = Copy, "copy its items to the table "+to.Name
		m.steps = append(m.steps, step)
		return
	}
	if m.copied[to.Name] {
		return
	}
	primary := []string{to.Key.Partition, to.Key.Sort}
	if changed := changedKeys(old, now, primary); len(changed) > 0 {
		step.Kind, step.Text = Copy, "copy its items to other keys: "+strings.Join(changed, "; ")
		m.steps = append(m.steps, step)
		return
	}
	var names []string
	for _, x := range to.Indexes {
		for _, name := range slices.Concat(x.Partition, x.Sort) {
			if !slices.Contains(primary, name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if changed := changedKeys(old, now, names); len(changed) > 0 {
		step.Kind, step.Text = Rewrite, "update its items: "+strings.Join(changed, "; ")
		m.steps = append(m.steps, step)
	}
}

// changedKeys describes the key attributes that an entity builds differently.
func changedKeys(old, now *model.Entity, names []string) (changes []string) {
	for _, name := range names {
		if name == "" {
			continue
		}
		was, is := keyText(old, name), keyText(now, name)
		if was != is {
			changes = append(changes, fmt.Sprintf("%s is %s instead of %s", name, is, was))
		}
	}
	return changes
}

// keyText describes what an entity stores in a key attribute.
func keyText(e *model.Entity, name string) string {
	for _, k := range e.Keys {
		if k.Name != name {
			continue
		}
		text := k.Text
		for _, w := range k.When {
			text += fmt.Sprintf(" when %s is %s", w.Name, strings.Join(w.Value.Texts(), " or "))
		}
		return text
	}
	f, ok := e.Field(name)
	switch {
	case !ok:
		return "absent"
	case f.Attribute != nil && f.Attribute.Template != "":
		return f.Attribute.Template
	}
	return "the attribute itself"
}
