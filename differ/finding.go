package main

import (
	"slices"
	"strings"
)

// Names of the servers.
const (
	nameStator   = "stator"
	nameLocal    = "DynamoDB Local"
	nameDynoxide = "dynoxide"
)

// A finding is a difference between stator and one other server, the witness.
type finding struct {
	Step    step     `json:"step"`
	Witness string   `json:"witness"`
	Places  []string `json:"places"` // where the answers differ
	Stator  answer   `json:"stator"`
	Other   answer   `json:"other"` // of the witness
	Third   *answer  `json:"third"` // of the remaining server; nil if it is not in step with stator

	inBatch bool // it is that of one statement of a batch
}

// class returns what findings of one cause mostly have in common.
func (f *finding) class() string {
	if f.Places[0] != "outcome" {
		return f.Step.Op + " | " + f.Witness + " | " + strings.Join(f.Places, ", ")
	}
	return f.Step.Op + " | " + f.Witness + " | " + template(f.Stator.bare()) + " | " + template(f.Other.bare())
}

// agreed reports whether the third server agrees with stator in what differs at
// a place.
func (f *finding) agreed(place string) bool {
	if f.Third == nil || f.Third.bare() != f.Stator.bare() {
		return false
	}
	if place == "outcome" {
		return true
	}
	return same(f.Stator.Body[topMember(place)], f.Third.Body[topMember(place)])
}

// alone reports whether both witnesses answer alike at a place, and stator does
// not.
func (f *finding) alone(place string) bool {
	if f.Third == nil || f.Third.bare() != f.Other.bare() {
		return false
	}
	return place == "outcome" || canonical(f.Other.Body[topMember(place)]) == canonical(f.Third.Body[topMember(place)])
}

// worded reports whether a witness or a transcript has stator's error and its
// messages.
func (f *finding) worded() bool {
	s, others := f.Stator.errors(), f.Other.errors()
	if f.Third != nil {
		others = append(others, f.Third.errors()...)
	}
	for _, e := range s {
		if !slices.Contains(others, e) && !isSpoken(e) {
			return false
		}
	}
	return true
}

// errors lists the error of an answer, and the messages of its statements and
// actions.
func (a answer) errors() (all []string) {
	if !a.ok() {
		all = append(all, a.bare())
	}
	for _, member := range []string{"CancellationReasons", "Responses"} {
		for _, n := range nodes(a.Body[member]) {
			if text, ok := n.get().(string); ok && n.name == "Message" {
				all = append(all, text)
			}
		}
	}
	return all
}

// topMember returns the member of a reply in which a place is.
func topMember(place string) string {
	if i := strings.IndexAny(place, ". ["); i >= 0 {
		return place[:i]
	}
	return place
}

// same compares members, but for units of reads and writes that DynamoDB Local
// does not return, and for its notation of numbers.
func same(a, b any) bool {
	return canonical(a) == canonical(b) || canonical(withoutUnits(a)) == canonical(withoutUnits(b)) ||
		plainNumbers(object{"": a}) == plainNumbers(object{"": b})
}

const capacityUnits = "CapacityUnits"

// withoutUnits removes ReadCapacityUnits and WriteCapacityUnits.
func withoutUnits(v any) any {
	v = cloneJSON(v)
	for _, n := range nodes(v) {
		if n.name == "Read"+capacityUnits || n.name == "Write"+capacityUnits {
			n.remove()
		}
	}
	return v
}

// parts reports whether the witness may hold other data than stator from here
// on.
func (f *finding) parts() bool {
	if f.Stator.ok() != f.Other.ok() {
		return itemWrites[f.Step.Op] || tableWrites[f.Step.Op]
	}
	return itemWrites[f.Step.Op] && f.Places[0] != "outcome" && !onlyUnits(f.Places)
}

// itemWrites change items, and tableWrites change tables.
var (
	itemWrites = map[string]bool{
		"PutItem": true, "UpdateItem": true, "DeleteItem": true, "BatchWriteItem": true, "TransactWriteItems": true,
		"ExecuteStatement": true, "BatchExecuteStatement": true, "ExecuteTransaction": true,
	}
	tableWrites = map[string]bool{
		"CreateTable": true, "UpdateTable": true, "DeleteTable": true, "UpdateTimeToLive": true, "TagResource": true, "UntagResource": true,
	}
)

func onlyUnits(places []string) bool {
	for _, p := range places {
		if !strings.HasPrefix(p, "ConsumedCapacity") && !strings.HasPrefix(p, "ItemCollectionMetrics") {
			return false
		}
	}
	return true
}
