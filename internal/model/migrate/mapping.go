package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

// mapping says where the items of some tables go. A migration has one for each
// direction.
type mapping struct {
	entities map[string][]*entityMapping // by source table
	copies   map[string]*model.Table     // tables to which unmatched items go, by source table
	ignored  map[string][]*model.Entity  // entities that have no counterpart, by source table
	sources  map[string]*model.Table
	back     *mapping

	// keysOnly is the source tables whose streams have no old images.
	keysOnly map[string]bool
}

// entityMapping says what becomes of the items of one entity.
type entityMapping struct {
	from, to *model.Entity

	// owner is the attributes of new items that tell, with the new key, which
	// source item they come from. They include those in the new key, since a
	// template such as {a}#{b} may have one text for several values.
	owner []string

	// needsImage is set if the new key depends on more than the source key.
	needsImage bool
}

// placement is what becomes of one item.
type placement struct {
	entity string // "" for an unmatched item
	table  string
	key    item.Item
	item   item.Item // nil if only the key was asked for
	owner  expression
}

// setView sets which images the stream of a table of either side has.
func (m *mapping) setView(table, view string) {
	for _, side := range []*mapping{m, m.back} {
		if _, ok := side.sources[table]; ok {
			side.keysOnly[table] = view != bothImages && view != "OLD_IMAGE"
		}
	}
}

// UnmatchedError is returned for an item that cannot be mapped.
type UnmatchedError struct {
	Table  string
	Key    item.Item
	Reason string
}

func (e *UnmatchedError) Error() string {
	return fmt.Sprintf("table %s: item %s: %s", e.Table, keyText(e.Key), e.Reason)
}

// errIgnored is returned for an item of an entity that has no counterpart.
var errIgnored = errors.New("it has no counterpart")

// place returns what becomes of an item.
func (m *mapping) place(table string, it item.Item) (*placement, error) {
	p, err := m.placeKey(table, it)
	if err != nil {
		return nil, err
	}
	key := m.sources[table].Schema().Key.Of(it)
	if err := m.convert(table, key, it, p); err != nil {
		return nil, &UnmatchedError{table, key, err.Error()}
	}
	return p, nil
}

// convert adds the new item to a placement, and checks that the migration can
// follow it.
func (m *mapping) convert(table string, key, it item.Item, p *placement) (err error) {
	if p.entity == "" {
		p.item = it
		if err := m.checkUnmatched(p); err != nil {
			return err
		}
	} else {
		x := m.named(table, p.entity)
		if p.item, err = x.convert(it); err != nil {
			return err
		}
		p.key = x.to.TableOf().Schema().Key.Of(p.item)
		if err := m.checkSource(key, p); err != nil {
			return err
		}
		if err := x.checkKept(it, p.item); err != nil {
			return err
		}
	}
	if !m.keysOnly[table] {
		return nil
	}
	if q, err := m.placeKey(table, key); err != nil || q.entity != p.entity || q.table != p.table || !q.key.Equal(p.key) {
		return fmt.Errorf("its key alone does not tell the new key, so that a delete could not be followed: the stream of table %s has no old images\n        replace it by one of %s", table, bothImages)
	}
	return nil
}

// checkUnmatched checks that an unmatched item cannot have the new key of an item
// that has an entity.
func (m *mapping) checkUnmatched(p *placement) error {
	entities := slices.Clone(m.back.ignored[p.table])
	for _, x := range m.back.entities[p.table] {
		entities = append(entities, x.from)
	}
	for _, e := range entities {
		if e.MayHaveKey(p.key) {
			return fmt.Errorf("it matches no entity, and its key in table %s may be one of entity %s", p.table, e.Name)
		}
	}
	return nil
}

// checkSource checks that a new item leads back to its source key.
func (m *mapping) checkSource(key item.Item, p *placement) error {
	source, err := m.back.placeKey(p.table, p.item)
	if err == nil && !source.key.Equal(key) {
		err = fmt.Errorf("its new item leads back to %s", keyText(source.key))
	}
	if err != nil {
		return fmt.Errorf("the new item cannot be traced back: %w", err)
	}
	return nil
}

// placeKey returns where an item goes. The item may be a key if the new key
// depends on it alone.
func (m *mapping) placeKey(table string, it item.Item) (*placement, error) {
	key := m.sources[table].Schema().Key.Of(it)
	var found *entityMapping
	var reasons []string
	for _, x := range m.entities[table] {
		switch _, err := x.from.Values(it); {
		case err != nil:
			reasons = append(reasons, x.from.Name+": "+err.Error())
		case found != nil:
			return nil, &UnmatchedError{table, key, fmt.Sprintf("it matches the entities %s and %s", found.from.Name, x.from.Name)}
		default:
			found = x
		}
	}
	if found == nil {
		for _, e := range m.ignored[table] {
			if _, err := e.Values(it); err == nil {
				return nil, errIgnored
			}
		}
		if to, ok := m.copies[table]; ok {
			return &placement{table: to.Name, key: key}, nil
		}
		return nil, &UnmatchedError{table, key, "it matches no entity (" + strings.Join(reasons, "; ") + ")"}
	}
	values, err := found.values(it)
	if err != nil {
		return nil, &UnmatchedError{table, key, err.Error()}
	}
	p := &placement{entity: found.from.Name, table: found.to.TableOf().Name}
	var b item.Builder
	for _, a := range found.to.TableOf().Schema().Key.All() {
		f, _ := found.to.Field(a.Name)
		v, err := f.Value(values)
		if err == nil && v == nil {
			err = fmt.Errorf("it has no %s, which is in the new key", a.Name)
		}
		if err == nil && v.Type() != a.Type {
			err = fmt.Errorf("its %s is of type %s, but that of the new key is %s", a.Name, v.Type(), a.Type)
		}
		if err != nil {
			return nil, &UnmatchedError{table, key, err.Error()}
		}
		b.Add([]byte(a.Name), v)
	}
	p.key = b.Item()
	p.owner = found.ownedBy(values)
	return p, nil
}

func (m *mapping) named(table, entity string) *entityMapping {
	for _, x := range m.entities[table] {
		if x.from.Name == entity {
			return x
		}
	}
	panic(fmt.Sprintf("table %s has no entity %s", table, entity))
}

// values returns the values of a source item that the new item is built from. They
// include those of attributes that only the new model declares, and a shard number
// only if the new one is computed in the same way.
func (x *entityMapping) values(it item.Item) (map[string]item.Value, error) {
	values, err := x.from.Values(it)
	if err != nil {
		return nil, err
	}
	for _, f := range x.to.Fields() {
		old, declared := x.from.Field(f.Name)
		switch {
		case f.Attribute != nil && f.Attribute.Shards > 0:
			if !declared || !old.SameShard(f) {
				delete(values, f.Name)
			}
		case !declared && stores(f):
			if v, ok := it.Get(f.Name); ok {
				values[f.Name] = v
			}
		}
	}
	return values, nil
}

// stores reports whether items have an attribute with a value of its own.
func stores(f *model.Field) bool { return f.Stored && !f.Templated() }

// value returns the value of an attribute of the new item, nil if it has none. An
// item may not tell whether the condition of the attribute holds. It keeps its own
// value then, or has none, if both models build the attribute in the same way.
func (x *entityMapping) value(f *model.Field, it item.Item, values map[string]item.Value) (item.Value, error) {
	name := x.undecided(f, values)
	old, declared := x.from.Field(f.Name)
	switch {
	case !f.Templated() || name == "":
	case declared && f.BuiltLike(old):
		v, _ := it.Get(f.Name)
		return v, nil
	case !x.tells(name):
		return nil, fmt.Errorf("it is not known whether it has %s, which depends on %s", f.Name, name)
	}
	return f.Value(values)
}

// undecided returns an attribute without a value that decides whether the new item
// has another, "" if that is known.
func (x *entityMapping) undecided(f *model.Field, values map[string]item.Value) (name string) {
	for _, w := range f.When() {
		v, ok := values[w.Name]
		g, _ := x.to.Field(w.Name)
		switch {
		case ok && w.Holds(v):
		case ok, x.tells(w.Name) && stores(g):
			return "" // it does not hold
		default:
			name = w.Name
		}
	}
	return name
}

// tells reports whether a source item that has no value of an attribute that the new
// model declares says so that there is none.
func (x *entityMapping) tells(name string) bool {
	f, declared := x.from.Field(name)
	if !declared {
		f, _ = x.to.Field(name)
	}
	return stores(f)
}

// checkConditions checks that source items tell which attributes the new items have
// that are built from others. The names are those of the models.
func (x *entityMapping) checkConditions(from, to string) error {
	for _, f := range x.to.Fields() {
		if old, declared := x.from.Field(f.Name); !f.Templated() || !f.Stored || declared && f.BuiltLike(old) {
			continue
		}
		for _, w := range f.When() {
			if !x.tells(w.Name) && !x.isInKeys(w.Name) {
				return fmt.Errorf("%s of entity %s in the %s model depends on %s, which the %s model does not store: it is not known which items have it\n        give it the same template and condition in both models, or let it depend on a stored attribute", f.Name, x.to.Name, to, w.Name, from)
			}
		}
	}
	return nil
}

// isInKeys reports whether all source items have an attribute in the key, or in
// another attribute that is built from it.
func (x *entityMapping) isInKeys(name string) bool {
	return slices.ContainsFunc(x.from.Fields(), func(f *model.Field) bool {
		return f.Templated() && f.Stored && len(f.When()) == 0 && slices.ContainsFunc(x.from.Leaves(f.Name), func(leaf *model.Field) bool { return leaf.Name == name })
	})
}

// convert returns the new item. Attributes that the new model does not declare
// are kept, except for those that are built from others.
func (x *entityMapping) convert(it item.Item) (item.Item, error) {
	values, err := x.values(it)
	if err != nil {
		return nil, err
	}
	var b item.Builder
	for name, v := range it.All() {
		if !x.drops(name) {
			b.Add([]byte(name), v)
		}
	}
	for _, f := range x.to.Fields() {
		if !f.Stored {
			continue
		}
		v, err := x.value(f, it, values)
		if err != nil {
			return nil, err
		}
		if v != nil {
			b.Add([]byte(f.Name), v)
		}
	}
	return b.Item(), nil
}

// checkKept checks that the new item has all attributes of the source item, or
// contains their values in its keys.
func (x *entityMapping) checkKept(it, converted item.Item) error {
	var values map[string]item.Value // of the new item
	for name, v := range it.All() {
		f, declared := x.from.Field(name)
		if declared && (f.Templated() || f.Attribute != nil && f.Attribute.Shards > 0) {
			continue // it is built from others
		}
		built := false
		if g, ok := x.to.Field(name); ok && !declared {
			built = g.Templated() // a conversion back would leave it out
		}
		if is, ok := converted.Get(name); ok && !built && item.Equal(is, v) {
			continue
		}
		if values == nil {
			var err error
			if values, err = x.to.Values(converted); err != nil {
				return err
			}
		}
		if is, ok := values[name]; !ok || built || !item.Equal(is, v) {
			return attributeLost(name)
		}
	}
	return nil
}

func attributeLost(name string) error {
	return fmt.Errorf("its attribute %s would be lost: the new model does not store it, or builds it from others", name)
}

// drops reports whether a stored attribute is not copied as it is.
func (x *entityMapping) drops(name string) bool {
	if f, ok := x.to.Field(name); ok {
		return f.Templated() || !f.Stored
	}
	f, ok := x.from.Field(name)
	return ok && f.Templated()
}

// ownedBy returns the condition that a new item comes from the source item with
// these values. It is empty if the new key says so already.
func (x *entityMapping) ownedBy(values map[string]item.Value) (cond expression) {
	var parts []string
	for _, name := range x.owner {
		if v, ok := values[name]; ok {
			parts = append(parts, cond.name(name)+" = "+cond.value(v))
		}
	}
	cond.text = strings.Join(parts, " AND ")
	return cond
}

// ownedAs returns the condition that a new item comes from the same source item
// as the given one.
func (x *entityMapping) ownedAs(is item.Item) (cond expression) {
	var parts []string
	for _, name := range x.owner {
		if v, ok := is.Get(name); ok {
			parts = append(parts, cond.name(name)+" = "+cond.value(v))
		} else {
			parts = append(parts, "attribute_not_exists("+cond.name(name)+")")
		}
	}
	cond.text = strings.Join(parts, " AND ")
	return cond
}

// mapEntity returns what becomes of an entity, or why it cannot be mapped.
func mapEntity(from, to *model.Entity) (*entityMapping, error) {
	x := &entityMapping{from: from, to: to}
	fromKey, toKey := from.KeyLeaves(), to.KeyLeaves()
	for _, name := range toKey {
		f, _ := to.Field(name)
		_, declared := from.Field(name)
		switch {
		case f.Attribute != nil && f.Attribute.Shards > 0:
			of := f.Attribute.Of
			x.needsImage = x.needsImage || of != "" && !slices.Contains(fromKey, of)
		case !declared:
			return nil, fmt.Errorf("the new key of %s has %s, which the old model does not declare", from.Name, name)
		default:
			x.needsImage = x.needsImage || !slices.Contains(fromKey, name)
		}
	}
	for _, name := range fromKey {
		if f, _ := from.Field(name); f.Attribute != nil && f.Attribute.Shards > 0 && f.Attribute.Of != "" || slices.Contains(toKey, name) {
			continue
		}
		if f, ok := to.Field(name); !ok || !f.Stored || f.Templated() {
			return nil, fmt.Errorf("the new %s does not keep %s, from which the old key is built", from.Name, name)
		}
	}
	x.owner = ownerAttributes(from, to)
	return x, nil
}

// ownerAttributes returns the attributes that new items store and that one of
// the two keys is built from, except for attributes of the new key itself.
func ownerAttributes(from, to *model.Entity) (owner []string) {
	add := func(name string) {
		f, ok := to.Field(name)
		if ok && f.Stored && !f.Templated() && !to.TableOf().Schema().Key.Has(name) && !slices.Contains(owner, name) {
			owner = append(owner, name)
		}
	}
	for _, e := range []*model.Entity{from, to} {
		for _, name := range e.KeyLeaves() {
			if f, _ := e.Field(name); f.Attribute == nil || f.Attribute.Shards == 0 {
				add(name)
			} else if f.Attribute.Of != "" {
				add(f.Attribute.Of) // the number is computed
			}
		}
	}
	return owner
}

// isUnmatched reports whether an error is about an item that cannot be mapped.
func isUnmatched(err error) bool {
	var unmatched *UnmatchedError
	return errors.As(err, &unmatched)
}
