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
// changes.
func UpdateForm(t *schema.Table, paths []item.Path) string {
	names := Names(paths, func(name string) string {
		if t.Uses(name) {
			return name
		}
		return ""
	})
	if names == "" {
		return ""
	}
	return "changes " + names
}

// Names returns the attributes of paths, sorted, each once. name returns how an
// attribute is written, "" for one that is left out.
func Names(paths []item.Path, name func(string) string) string {
	var names []string
	for _, p := range paths {
		if text := name(p[0].Name); text != "" {
			names = append(names, text)
		}
	}
	slices.Sort(names)
	return bounded(strings.Join(slices.Compact(names), ", "))
}

// ConditionText is the text of a condition in a shape.
func ConditionText(c *expr.Condition, name func(string) string) string { return bounded(c.Text(name)) }

// maxTextBytes bounds the texts of a shape. A longer one ends with cut.
const (
	maxTextBytes = 256
	cut          = "…"
)

func bounded(text string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxTextBytes], "") + cut
}

// SameText reports whether a text of a shape, in which names may be unknown and the
// end may be missing, is the text of a design.
func SameText(shape, design string) bool {
	begin, isCut := strings.CutSuffix(shape, cut)
	if !strings.Contains(begin, unknownName) {
		return begin == design || isCut && strings.HasPrefix(design, begin)
	}
	// The order of the parts depends on the names, so only their number is compared.
	return isCut || strings.Count(shape, " AND ") == strings.Count(design, " AND ") && strings.Count(shape, ", ") == strings.Count(design, ", ")
}

// Complete reports whether a text of a shape contains all names.
func Complete(text string) bool {
	return !strings.HasSuffix(text, cut) && !strings.Contains(text, unknownName)
}

// Writes is a set of the kinds of write in a batch or a transaction.
type Writes uint8

// The kinds of write.
const (
	Put Writes = 1 << iota
	Update
	Delete
	ConditionCheck

	Get Writes = 0 // an action that is no write
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
