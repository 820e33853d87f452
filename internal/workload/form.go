package workload

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
)

// KeyForm is the form of a query: its partition key, and its tests of the sort
// key.
func KeyForm(partition []schema.Attribute, sort []expr.KeyTest) string {
	var tests []string
	for _, a := range partition {
		tests = append(tests, a.Name+" = ?")
	}
	for _, t := range sort {
		switch t.Op {
		case expr.Between:
			tests = append(tests, t.Name+" BETWEEN ? AND ?")
		case expr.BeginsWith:
			tests = append(tests, "begins_with("+t.Name+", ?)")
		default:
			tests = append(tests, t.Name+" "+t.Op.String()+" ?")
		}
	}
	return strings.Join(tests, " AND ")
}

// UpdateForm is the form of an update: which key attributes of indexes it
// changes. Other names are left out, since they may contain customers' data.
func UpdateForm(t *schema.Table, paths []item.Path) string {
	var names []string
	for _, p := range paths {
		if name := p[0].Name; t.Uses(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names == nil {
		return ""
	}
	slices.Sort(names)
	return "changes " + strings.Join(names, ", ")
}

// Writes is a set of the kinds of write in a batch or a transaction.
type Writes uint8

// The kinds of write.
const (
	Put Writes = 1 << iota
	Update
	Delete
	ConditionCheck
)

// Form is the form of a batch or a transaction that makes these writes in one
// table.
func (w Writes) Form() string { return writeForms[w] }

// PartForm is the form of the writes that a batch or a transaction makes in one
// table.
func PartForm(put, update, remove, check bool) string {
	var set Writes
	for i, has := range []bool{put, update, remove, check} {
		if has {
			set |= 1 << i
		}
	}
	return set.Form()
}

// writeForms holds the forms of all sets of kinds.
var writeForms = func() (forms [16]string) {
	for set := range forms {
		var names []string
		for i, name := range []string{"Put", "Update", "Delete", "ConditionCheck"} {
			if set&(1<<i) != 0 {
				names = append(names, name)
			}
		}
		forms[set] = strings.Join(names, ", ")
	}
	return forms
}()
