package main

import (
	"math"
	"slices"
	"strings"
)

// maxItemUnits are the units of a write of the largest item.
const maxItemUnits = 400

// chargesMoreIndexes reports whether the witness charges the same as stator, and
// global indexes besides.
func chargesMoreIndexes(f *finding) bool {
	s, o := consumed(f.Stator), consumed(f.Other)
	more := 0.0
	for name, u := range indexUnits(o) {
		if _, both := indexUnits(s)[name]; !both {
			more += u
		}
	}
	return more > 0 && unitsOf(s)+more == unitsOf(o) && unitsOf(member(s, "Table")) == unitsOf(member(o, "Table"))
}

// chargesFoundItems reports whether the witness charges the tables of a
// BatchGetItem what stator charges, but for items that do not exist.
func chargesFoundItems(f *finding) bool {
	found, _ := f.Stator.Body["Responses"].(object)
	s, o := consumedTables(f.Stator), consumedTables(f.Other)
	for name, t := range s {
		request := member(f.Step.Body["RequestItems"], name)
		unit := 0.5 // of 4 KB
		if member(request, "ConsistentRead") == true {
			unit = 1
		}
		keys, _ := member(request, "Keys").([]any)
		missing := float64(len(keys) - count(found[name]))
		if unitsOf(t)-unitsOf(o[name]) != missing*unit {
			return false
		}
	}
	return len(s) > 0
}

// chargesIndexesTwice reports whether the witness charges each index twice what
// stator charges, and tables the same.
func chargesIndexesTwice(f *finding) bool {
	s, o := consumedTables(f.Stator), consumedTables(f.Other)
	if len(s) != len(o) {
		return false
	}
	for name, t := range s {
		if unitsOf(member(t, "Table")) != unitsOf(member(o[name], "Table")) || member(t, "Table") == nil {
			return false
		}
		theirs := indexUnits(o[name])
		for index, u := range indexUnits(t) {
			if theirs[index] != 2*u {
				return false
			}
			delete(theirs, index)
		}
		if len(theirs) > 0 {
			return false
		}
	}
	return true
}

// mayChargeIndexesTwice is chargesIndexesTwice for units that are not divided by
// table and indexes: what the witness charges more is what stator charges for
// indexes, if the table's part is a multiple of two. A missing item costs the
// witness one unit.
func mayChargeIndexesTwice(f *finding) bool {
	s, o := consumedTables(f.Stator), consumedTables(f.Other)
	for name, t := range s {
		mine, theirs := unitsOf(t), unitsOf(o[name])
		table := 2*mine - theirs
		switch {
		case member(t, "Table") != nil:
			return false
		case mine == theirs, mine == 2 && theirs == 1:
		case table >= 2 && table < mine && math.Mod(table, 2) == 0:
		default:
			return false
		}
	}
	return len(s) == len(o)
}

// ignoredUnits reports whether stator charges an update that is ignored: one
// unit for an UpdateItem, and less than a witness for the table of a transaction.
func ignoredUnits(f *finding) bool {
	if f.Step.Op == "UpdateItem" {
		return units(f.Stator) == 1
	}
	return ignoredInTables(f)
}

// ignoredInTables reports whether stator charges less than one of the witnesses
// for the tables of updates that are ignored, and as one of them for the others.
func ignoredInTables(f *finding) bool {
	s, tables := consumedTables(f.Stator), removedFrom(f.Step)
	for name := range s {
		mine, others := unitsOf(s[name]), []float64{unitsOf(consumedTables(f.Other)[name])}
		if f.Third != nil {
			others = append(others, unitsOf(consumedTables(*f.Third)[name]))
		}
		switch {
		case slices.Contains(others, mine):
		case slices.Contains(tables, name) && mine < slices.Max(others):
		default:
			return false
		}
	}
	return len(s) > 0
}

// removedFrom lists the tables of a transaction's updates that only remove.
func removedFrom(st step) (tables []string) {
	items, _ := st.Body["TransactItems"].([]any)
	for _, it := range items {
		if update, ok := member(it, "Update").(object); ok && onlyRemoves(update) {
			name, _ := update["TableName"].(string)
			tables = append(tables, name[strings.LastIndex(name, "/")+1:]) // of an ARN
		}
	}
	return tables
}

// consumed returns the consumed capacity of an answer for one table.
func consumed(a answer) object {
	c, _ := a.Body["ConsumedCapacity"].(object)
	return c
}

// consumedTables returns the consumed capacity of an answer by table.
func consumedTables(a answer) map[string]any {
	list, _ := a.Body["ConsumedCapacity"].([]any)
	tables := make(map[string]any, len(list))
	for _, c := range list {
		name, _ := member(c, "TableName").(string)
		tables[name] = c
	}
	return tables
}

// indexUnits returns the units of all indexes of a table.
func indexUnits(c any) map[string]float64 {
	all := make(map[string]float64)
	for _, kind := range []string{"LocalSecondaryIndexes", "GlobalSecondaryIndexes"} {
		indexes, _ := member(c, kind).(object)
		for name, x := range indexes {
			all[name] = unitsOf(x)
		}
	}
	return all
}

// unitsOf returns the CapacityUnits of a part of the consumed capacity.
func unitsOf(c any) float64 {
	u, _ := member(c, capacityUnits).(float64)
	return u
}
