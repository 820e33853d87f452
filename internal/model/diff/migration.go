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
	now := m.successor(old)
	step := &Step{Table: old.TableOf().Name, Entity: old.Name, Items: float64(old.Count)}
	if now == nil {
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
	keys, others := changedKeys(old, now, primary), changedKeys(old, now, indexKeys(to))
	others = append(others, missingExpiry(old, now)...)
	switch {
	case len(keys) > 0:
		step.Kind, step.Text = Copy, "copy its items to other keys: "+strings.Join(append(keys, others...), "; ")
	case len(others) > 0:
		step.Kind, step.Text = Rewrite, "update its items: "+strings.Join(others, "; ")
	default:
		return
	}
	m.steps = append(m.steps, step)
}

// successor returns the entity of the second model whose items are those of an entity of
// the first: the one with its name, or a new one with the same keys; nil if there is none.
func (m *migrator) successor(old *model.Entity) *model.Entity {
	if now, ok := m.after.Entity(old.Name); ok {
		return now
	}
	from := old.TableOf()
	for _, now := range m.after.Entities {
		to := now.TableOf()
		if _, had := m.before.Entity(now.Name); had || to.Name != from.Name || to.Key.Partition != from.Key.Partition || to.Key.Sort != from.Key.Sort {
			continue
		}
		if len(changedKeys(old, now, []string{from.Key.Partition, from.Key.Sort})) == 0 {
			return now
		}
	}
	return nil
}

// indexKeys returns the key attributes of a table's indexes that are not in its own key.
func indexKeys(t *model.Table) (names []string) {
	for _, x := range t.Indexes {
		for _, name := range slices.Concat(x.Partition, x.Sort) {
			if name != t.Key.Partition && name != t.Key.Sort && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// missingExpiry describes that stored items lack the attribute by which new ones expire.
func missingExpiry(old, now *model.Entity) []string {
	ttl := now.TableOf().TTL
	if _, has := now.Field(ttl); !has {
		return nil
	}
	if _, had := old.Field(ttl); had {
		return nil
	}
	return []string{fmt.Sprintf("they have no %s, and do not expire without it", ttl)}
}

// changedKeys describes the key attributes that an entity builds differently.
func changedKeys(old, now *model.Entity, names []string) (changes []string) {
	for _, name := range names {
		if name == "" {
			continue
		}
		if was, is := keyText(old, name), keyText(now, name); was != is {
			changes = append(changes, fmt.Sprintf("%s is %s instead of %s", name, is, was))
			continue
		}
		for _, leaf := range now.Leaves(name) {
			before, ok := old.Field(leaf.Name)
			if was, is, changed := changedForm(before, leaf); ok && changed {
				changes = append(changes, fmt.Sprintf("%s contains %s, which is %s instead of %s", name, leaf.Name, is, was))
			}
		}
	}
	return changes
}

// keyText describes what an entity stores in a key attribute.
func keyText(e *model.Entity, name string) string {
	f, ok := e.Field(name)
	switch {
	case !ok:
		return "absent"
	case !f.Templated():
		return "the attribute itself"
	}
	text := f.FullTemplate()
	if f.Key != nil {
		for _, w := range f.Key.When {
			text += fmt.Sprintf(" when %s is %s", w.Name, strings.Join(w.Value.Texts(), " or "))
		}
	}
	return text
}

// changedForm describes how the text of an attribute changes in keys. A format that is
// added or removed says more or less about the same text, except for a sequence, which is
// padded.
func changedForm(was, is *model.Field) (before, after string, changed bool) {
	if was == nil || was.Attribute == nil || is.Attribute == nil {
		return "", "", false
	}
	a, b := was.Attribute, is.Attribute
	switch {
	case a.Shards > 0 || b.Shards > 0:
		before, after = shardsText(a), shardsText(b)
	case a.Format == "sequence" || b.Format == "sequence":
		before, after = sequenceText(a), sequenceText(b)
	case a.Format == "" || b.Format == "":
	case a.Format != b.Format:
		before, after = a.Format, "of the format "+b.Format
	case (a.Format == "ulid" || a.Format == "ksuid") && a.Size != b.Size:
		before, after = lengthText(a), lengthText(b)
	}
	return before, after, before != after
}

func shardsText(a *model.Attribute) string {
	switch {
	case a.Shards == 0:
		return "no shard number"
	case a.Of == "":
		return fmt.Sprintf("one of %d shards at random", a.Shards)
	}
	return fmt.Sprintf("one of %d shards by %s", a.Shards, a.Of)
}

func sequenceText(a *model.Attribute) string {
	switch {
	case a.Format == "":
		return "text"
	case a.Format != "sequence":
		return "of the format " + a.Format
	}
	return fmt.Sprintf("a sequence of %d digits", a.Size)
}

func lengthText(a *model.Attribute) string {
	if a.Size == 0 {
		return "a whole " + a.Format
	}
	return fmt.Sprintf("%d bytes of a %s", a.Size, a.Format)
}
