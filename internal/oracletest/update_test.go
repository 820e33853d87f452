package oracletest

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// update is a list of actions that are applied together.
type update []updateAction

// updateAction changes the value at one path; verb is SET, REMOVE, ADD or
// DELETE.
type updateAction struct {
	verb string
	path path
	term setTerm
}

// setTerm is what SET computes: if_not_exists of a path and a term, list_append,
// + or - of two, or without an op the value at a path or a constant.
type setTerm struct {
	op    string
	path  path
	value value
	args  []setTerm
}

// The faults of an update that depend on the item.
const (
	noSuchAttribute = "The provided expression refers to an attribute that does not exist in the item"
	wrongOperand    = "An operand in the update expression has an incorrect data type"
	invalidPath     = "The document path provided in the update expression is invalid for update"
	numberFault     = "a number that cannot be stored" // the message is not known
)

// apply returns the item after the update, and what UPDATED_NEW shows. Any of
// several faults may be reported.
func (u update) apply(before object) (after, shown object, faults []string) {
	type change struct {
		path  path
		value value
	}
	var puts, removals []change
	for _, a := range u {
		v, fault := a.outcome(before)
		if fault != "" {
			faults = append(faults, fault)
		}
		if !holds(before, a.path) {
			faults = append(faults, invalidPath)
		}
		if v != nil {
			puts = append(puts, change{a.path, clone(v)})
		} else {
			removals = append(removals, change{path: a.path})
		}
	}
	if faults != nil {
		return nil, nil, faults
	}
	byPath := func(a, b change) int { return comparePaths(a.path, b.path) }
	slices.SortFunc(puts, byPath)
	slices.SortFunc(removals, byPath)
	after = before.clone()
	var written []path
	for _, c := range puts {
		written = append(written, put(after, c.path, c.value))
	}
	shown = project(after, written)
	shown = shown.clone()
	for _, c := range slices.Backward(removals) {
		remove(after, c.path)
	}
	return after, shown, nil
}

// comparePaths orders paths so that elements of one list are in the order of
// their indexes.
func comparePaths(a, b path) int {
	for i := range min(len(a), len(b)) {
		x, isIndex := a[i].(int)
		y, alsoIndex := b[i].(int)
		c := 0
		if isIndex && alsoIndex {
			c = cmp.Compare(x, y)
		} else if a[i] != b[i] {
			c = strings.Compare(path{a[i]}.String(), path{b[i]}.String())
		}
		if c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}

// outcome returns the value that an action leaves at its path, nil if it
// leaves none.
func (a updateAction) outcome(before object) (v value, fault string) {
	switch a.verb {
	case "REMOVE":
		return nil, ""
	case "SET":
		return a.term.of(before)
	}
	old, ok := at(before, a.path)
	given := a.term.value
	switch {
	case !ok && a.verb == "ADD":
		return given, ""
	case !ok:
		return nil, ""
	case kindOf(old) != kindOf(given):
		return nil, wrongOperand
	case kindOf(given) == "N":
		return sum(old.(num), given.(num), 1)
	}
	members := maps.Clone(old.(valueSet).members)
	for m := range given.(valueSet).members {
		if a.verb == "ADD" {
			members[m] = true
		} else {
			delete(members, m)
		}
	}
	if len(members) == 0 {
		return nil, ""
	}
	return valueSet{kindOf(old), members}, ""
}

// of is the term's value for an item.
func (t setTerm) of(before object) (v value, fault string) {
	switch t.op {
	case "":
		if t.path == nil {
			return t.value, ""
		}
		v, ok := at(before, t.path)
		if !ok {
			return nil, noSuchAttribute
		}
		return v, ""
	case "if_not_exists":
		if v, ok := at(before, t.path); ok {
			return v, ""
		}
		return t.args[0].of(before)
	}
	a, fault := t.args[0].of(before)
	if fault != "" {
		return nil, fault
	}
	b, fault := t.args[1].of(before)
	if fault != "" {
		return nil, fault
	}
	if t.op == "list_append" {
		x, ok := a.(list)
		y, alsoOK := b.(list)
		if !ok || !alsoOK {
			return nil, wrongOperand
		}
		return append(slices.Clone(x), y...), ""
	}
	x, ok := a.(num)
	y, alsoOK := b.(num)
	if !ok || !alsoOK {
		return nil, wrongOperand
	}
	if t.op == "-" {
		return sum(x, y, -1)
	}
	return sum(x, y, 1)
}

// sum is one number plus (sign 1) or minus (sign -1) another.
func sum(a, b num, sign int) (value, string) {
	r := b.rat()
	if sign < 0 {
		r.Neg(r)
	}
	n := canonical(r.Add(a.rat(), r))
	whole, fraction := n.digits()
	if len(whole)+len(fraction) > 38 || new(big.Rat).Abs(n.rat()).Cmp(num("1e126").rat()) >= 0 {
		return nil, numberFault
	}
	return n, ""
}

// makesSense reports whether the update can be applied to any item at all.
func (u update) makesSense() bool {
	var paths []path
	for _, a := range u {
		paths = append(paths, a.path)
		kind := ""
		if a.term.value != nil {
			kind = kindOf(a.term.value)
		}
		isSet := kind == "SS" || kind == "NS" || kind == "BS"
		switch a.verb {
		case "ADD":
			if !isSet && kind != "N" {
				return false
			}
		case "DELETE":
			if !isSet {
				return false
			}
		}
		if !a.term.makesSense() {
			return false
		}
	}
	return !clashing(paths)
}

func (t setTerm) makesSense() bool {
	for _, a := range t.args {
		if a.op == "" && a.path == nil {
			kind := kindOf(a.value)
			if t.op == "list_append" && kind != "L" || (t.op == "+" || t.op == "-") && kind != "N" {
				return false
			}
		}
		if !a.makesSense() {
			return false
		}
	}
	return true
}

// bytes is what an update's actions add to the item's size when it is
// compared with the limit.
func (u update) bytes() int {
	size := 3
	for _, a := range u {
		if a.verb == "REMOVE" || a.verb == "DELETE" {
			size += 2
			continue
		}
		size += 19
		if a.verb != "SET" {
			continue
		}
		if slices.ContainsFunc(a.path, func(step any) bool { _, ok := step.(int); return ok }) {
			size++
		}
		if a.term.op == "+" || a.term.op == "-" {
			size += 50
		}
	}
	return size
}

// onlyClears reports whether the update has actions but writes nothing. Such
// an update does not create an item.
func (u update) onlyClears() bool {
	writes := func(a updateAction) bool { return a.verb == "SET" || a.verb == "ADD" }
	return len(u) > 0 && !slices.ContainsFunc(u, writes)
}

func (u update) paths() []path {
	var paths []path
	for _, a := range u {
		paths = append(paths, a.path)
	}
	return paths
}

// reads returns the paths that the update reads values from.
func (u update) reads() []path {
	var paths []path
	for _, a := range u {
		paths = append(paths, a.term.reads()...)
	}
	return paths
}

func (t setTerm) reads() []path {
	var paths []path
	if t.path != nil {
		paths = append(paths, t.path)
	}
	for _, a := range t.args {
		paths = append(paths, a.reads()...)
	}
	return paths
}

// write formats the update, with a section for each verb.
func (u update) write(w *placeholders) string {
	var sections []string
	for _, verb := range []string{"SET", "REMOVE", "ADD", "DELETE"} {
		var texts []string
		for _, a := range u {
			if a.verb != verb {
				continue
			}
			switch verb {
			case "SET":
				texts = append(texts, w.path(a.path)+" = "+a.term.write(w))
			case "REMOVE":
				texts = append(texts, w.path(a.path))
			default:
				texts = append(texts, w.path(a.path)+" "+w.value(a.term.value))
			}
		}
		if texts != nil {
			sections = append(sections, verb+" "+strings.Join(texts, ", "))
		}
	}
	return strings.Join(sections, " ")
}

func (t setTerm) write(w *placeholders) string {
	switch t.op {
	case "":
		if t.path != nil {
			return w.path(t.path)
		}
		return w.value(t.value)
	case "if_not_exists":
		return "if_not_exists(" + w.path(t.path) + ", " + t.args[0].write(w) + ")"
	case "list_append":
		return "list_append(" + t.args[0].write(w) + ", " + t.args[1].write(w) + ")"
	}
	return t.args[0].write(w) + " " + t.op + " " + t.args[1].write(w)
}
