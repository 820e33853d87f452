package infer

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/workload"
)

// withAttributes returns the entities that lack the fewest of the attributes that requests
// change, test and ask for. An attribute that no entity has makes no difference.
func withAttributes(entities []*Entity, c workload.ShapeCount) (best []*Entity) {
	names := attributesOf(c)
	least := -1
	for _, e := range entities {
		missing := 0
		for _, name := range names {
			if !e.has(name) {
				missing++
			}
		}
		if least < 0 || missing < least {
			best, least = nil, missing
		}
		if missing == least {
			best = append(best, e)
		}
	}
	return best
}

// has reports whether items of an entity have an attribute.
func (e *Entity) has(name string) bool {
	if a := e.attribute(name); a != nil && !a.Unstored {
		return true
	}
	return e.key(name) != nil
}

// expressionWords are the words in the texts of shapes that are not names.
var expressionWords = []string{"AND", "OR", "NOT", "IN", "BETWEEN", "size", "attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "…"}

// attributesOf returns the names of the attributes in the texts of a shape.
func attributesOf(c workload.ShapeCount) (names []string) {
	for _, text := range []string{c.Changes, c.ConditionText, c.FilterText, c.Projection} {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" (),?=<>", r) }) {
			if !slices.Contains(expressionWords, word) {
				names = appendNew(names, word)
			}
		}
	}
	return names
}

// ofAction returns the entities that an action of a transaction or a batch may be about, the
// most likely first. If it also has the same action with a condition, or without one, these
// are about different entities: the one with the condition is about the entity that has fewer
// items in a partition, as an order has fewer than its lines.
func (d *trafficReader) ofAction(table string, s workload.Action, all []workload.Action) []*Entity {
	found := d.entitiesOf(table, "", s.Partition, s.Sort, false)
	other := s
	other.Conditional = !s.Conditional
	if s.Conditional && slices.Contains(all, other) {
		slices.Reverse(found)
	}
	return found
}
