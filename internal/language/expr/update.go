package expr

import (
	"slices"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// Verb is what an action does with its path.
type Verb byte

// The verbs of updates.
const (
	Set Verb = iota + 1
	Remove
	Add
	Delete
)

var verbNames = [...]string{Set: "SET", Remove: "REMOVE", Add: "ADD", Delete: "DELETE"}

// String is the verb as it is written.
func (v Verb) String() string { return verbNames[v] }

// Update is a bound UpdateExpression: actions that are applied together. No
// two of their paths overlap.
type Update struct {
	Actions []Action

	// Legacy is an update in the form of AttributeUpdates: a value of the
	// wrong type has another message, and ADD joins lists.
	Legacy bool
}

// Action changes the value at one path.
type Action struct {
	Verb Verb
	Path item.Path
	Term Term // for Set the value to compute, for Add and Delete a constant
}

// Term is a value to compute: IfNotExists of a path and a term, ListAppend,
// Plus or Minus of two terms, or without an Op the value at a path or, when
// there is no path, a constant.
type Term struct {
	Op    Op
	Path  item.Path
	Value item.Value
	Args  []Term
}

// Apply returns the item after the update. All operands are read from before.
// For an item that does not exist yet, before has only the key.
func (u *Update) Apply(before item.Item) (item.Item, error) {
	c, err := u.changes(before)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(c.puts, func(p put) bool { return len(p.path) > 1 }) {
		after := before.Merge(len(c.puts), func(i int) (string, item.Value) { return c.puts[i].path[0].Name, c.puts[i].value })
		return c.remove(after), nil
	}
	return c.remove(c.put(before)), nil
}

// Paths returns the document paths that the update changes, in the order of
// its text.
func (u *Update) Paths() []item.Path {
	paths := make([]item.Path, len(u.Actions))
	for i := range u.Actions {
		paths[i] = u.Actions[i].Path
	}
	return paths
}

// Reads returns the document paths that the update reads operands from.
func (u *Update) Reads() []item.Path {
	var paths []item.Path
	for i := range u.Actions {
		paths = u.Actions[i].Term.appendPaths(paths)
	}
	return paths
}

// Nested returns those of Paths, followed by those of Reads, that lead into
// an attribute.
func (u *Update) Nested() []item.Path {
	var paths []item.Path
	for i := range u.Actions {
		if p := u.Actions[i].Path; len(p) > 1 {
			paths = append(paths, p)
		}
	}
	for i := range u.Actions {
		paths = u.Actions[i].Term.appendNested(paths)
	}
	return paths
}

// UpdatedOld returns the values at the update's paths before it: UPDATED_OLD.
func (u *Update) UpdatedOld(before item.Item) item.Item { return before.Project(u.Paths()) }

// UpdatedNew returns what the update wrote, each value at its path:
// UPDATED_NEW. It has no attributes if nothing was written. An index past the
// end of a list leads to no value, because the value is appended at another
// index (conformance/update_item/results.txt).
func (u *Update) UpdatedNew(before item.Item) (item.Item, error) {
	c, err := u.changes(before)
	if err != nil {
		return nil, err
	}
	written := make([]item.Path, len(c.puts))
	for i, p := range c.puts {
		written[i] = p.path
	}
	// Elements are looked up before any is removed, while they still have the
	// indexes that they were put at.
	return c.put(before).Project(written), nil
}

// Counts are the numbers of an update's actions that DynamoDB adds to the
// item's size when it checks the limit.
type Counts struct {
	Writes int // actions that write a value: SET and ADD
	Clears int // actions that remove a value: REMOVE and DELETE

	// Of the writes, those that assign through a list index, and those that
	// assign a sum or a difference.
	Indexed, Arithmetic int
}

// Counts counts the actions.
func (u *Update) Counts() Counts {
	var c Counts
	for i := range u.Actions {
		a := &u.Actions[i]
		if a.Verb == Remove || a.Verb == Delete {
			c.Clears++
			continue
		}
		c.Writes++
		if a.Verb != Set {
			continue
		}
		if slices.ContainsFunc(a.Path, func(s item.Step) bool { return s.IsIndex }) {
			c.Indexed++
		}
		if a.Term.Op == Plus || a.Term.Op == Minus {
			c.Arithmetic++
		}
	}
	return c
}

// changes are the puts and removals that an update makes in one item.
type changes struct {
	puts     []put
	removals []item.Path
}

type put struct {
	path  item.Path
	value item.Value
}

func (u *Update) changes(before item.Item) (*changes, error) {
	c := &changes{puts: make([]put, 0, len(u.Actions))}
	size := 0 // of the puts: a value may be written many times
	from := sourceOf(before, len(u.Actions))
	for i := range u.Actions {
		a := &u.Actions[i]
		v, err := u.outcome(a, from)
		if err != nil {
			return nil, err
		}
		exists, ok := lookUp(from, a.Path)
		switch {
		case !ok:
			return nil, apierror.Validation("The document path provided in the update expression is invalid for update")
		case v != nil:
			if size += v.Size(); size > item.MaxSize {
				return nil, apierror.UpdateTooLarge()
			}
			c.puts = append(c.puts, put{a.Path, v})
		case exists:
			c.removals = append(c.removals, a.Path)
		}
	}
	// Elements past the end of a list are appended in the order of their
	// indexes. Removals start at the end, so that indexes stay valid.
	slices.SortStableFunc(c.puts, func(a, b put) int { return comparePaths(a.path, b.path) })
	slices.SortStableFunc(c.removals, func(a, b item.Path) int { return comparePaths(b, a) })
	return c, nil
}

// source is the item before an update, from which operands are read.
type source struct {
	item.Item
	index *item.Index // if there are many actions
}

func sourceOf(before item.Item, actions int) source {
	if actions <= freeLookups || len(before) < largeInItem {
		return source{Item: before}
	}
	index := item.IndexOf(before)
	return source{before, &index}
}

// At returns the value at the end of a path.
func (s source) At(p item.Path) (item.Value, bool) {
	if s.index == nil {
		return s.Item.At(p)
	}
	v, _, ok := s.index.At(p)
	return v, ok
}

// lookUp reports whether there is a value at a path. It is not ok if there
// cannot be one, because the container of the last step is missing or of
// another type.
func lookUp(it source, p item.Path) (exists, ok bool) {
	if last := len(p) - 1; last > 0 {
		want := item.M
		if p[last].IsIndex {
			want = item.L
		}
		if container, found := it.At(p[:last]); !found || container.Type() != want {
			return false, false
		}
	}
	_, exists = it.At(p)
	return exists, true
}

// put makes the puts.
func (c *changes) put(it item.Item) item.Item {
	for _, p := range c.puts {
		it, _ = it.Set(p.path, p.value)
	}
	return it
}

func (c *changes) remove(it item.Item) item.Item {
	var whole []string // attributes: a legacy update can remove thousands
	for _, p := range c.removals {
		if len(p) == 1 {
			whole = append(whole, p[0].Name)
		} else {
			it, _ = it.Remove(p)
		}
	}
	if last := len(whole) - 1; last >= 0 {
		it = it.WithoutAll(len(whole), func(i int) string { return whole[last-i] })
	}
	return it
}

// outcome is the value that an action leaves at its path, nil if it leaves no
// value.
func (u *Update) outcome(a *Action, before source) (item.Value, error) {
	switch a.Verb {
	case Remove:
		return nil, nil
	case Set:
		return a.Term.of(before)
	}
	old, exists := before.At(a.Path)
	given := a.Term.Value
	switch {
	case a.Verb == Add && !exists:
		return given, nil
	case a.Verb == Delete && !exists:
		return nil, nil
	case old.Type() != given.Type():
	case given.Type().IsSet():
		return combine(a.Verb, old, given), nil
	case a.Verb == Add && given.Type() == item.N:
		sum, err := old.Number().Add(given.Number())
		return number(sum, err)
	case a.Verb == Add && u.Legacy && given.Type() == item.L:
		return joined(old, given)
	}
	if u.Legacy {
		return nil, apierror.Validation("Type mismatch for attribute to update")
	}
	return nil, wrongOperand()
}

// combine returns one set with the members of another added or deleted, nil
// if no members are left.
func combine(verb Verb, old, given item.Value) item.Value {
	members := slices.Collect(old.Elements())
	if verb == Add {
		return item.Set(old.Type(), slices.AppendSeq(members, given.Elements())...)
	}
	deleted := slices.Collect(given.Elements()) // in order, like the members of every set
	members = slices.DeleteFunc(members, func(m item.Value) bool {
		_, found := slices.BinarySearchFunc(deleted, m, item.Compare)
		return found
	})
	if len(members) == 0 {
		return nil
	}
	return item.Set(old.Type(), members...)
}

// of is the term's value for an item.
func (t *Term) of(before source) (item.Value, error) {
	switch t.Op {
	case 0:
		if t.Path == nil {
			return t.Value, nil
		}
		v, ok := before.At(t.Path)
		if !ok {
			return nil, apierror.Validation("The provided expression refers to an attribute that does not exist in the item")
		}
		return v, nil
	case IfNotExists:
		if v, ok := before.At(t.Path); ok {
			return v, nil
		}
		return t.Args[0].of(before)
	}
	a, err := t.Args[0].of(before)
	if err != nil {
		return nil, err
	}
	b, err := t.Args[1].of(before)
	if err != nil {
		return nil, err
	}
	switch {
	case t.Op == ListAppend && a.Type() == item.L && b.Type() == item.L:
		return joined(a, b)
	case t.Op == Plus && a.Type() == item.N && b.Type() == item.N:
		return number(a.Number().Add(b.Number()))
	case t.Op == Minus && a.Type() == item.N && b.Type() == item.N:
		return number(a.Number().Sub(b.Number()))
	}
	return nil, wrongOperand()
}

func (t *Term) appendPaths(dst []item.Path) []item.Path {
	if t.Path != nil {
		dst = append(dst, t.Path)
	}
	for i := range t.Args {
		dst = t.Args[i].appendPaths(dst)
	}
	return dst
}

func (t *Term) appendNested(dst []item.Path) []item.Path {
	if len(t.Path) > 1 {
		dst = append(dst, t.Path)
	}
	for i := range t.Args {
		dst = t.Args[i].appendNested(dst)
	}
	return dst
}

func wrongOperand() error {
	return apierror.Validation("An operand in the update expression has an incorrect data type")
}

func number(n item.Number, err error) (item.Value, error) {
	if err != nil {
		return nil, err
	}
	return item.Num(n), nil
}

// joined concatenates two lists. A term can join hundreds, so the size is
// limited to that of an item.
func joined(a, b item.Value) (item.Value, error) {
	if a.Size()+b.Size() > item.MaxSize+3 { // each list costs three bytes, and so does the result
		return nil, apierror.UpdateTooLarge()
	}
	return item.Join(a, b), nil
}
