package infer

import (
	"slices"
	"strings"
)

// A model is committed and shared, so it must not contain what customers store. The rules
// here decide which texts of items are names that a program has given, and may be written
// into a model. TableSample.AllValues turns them off.

const (
	itemsPerValue = 3 // items that have each value of an enumeration, if its name does not say that it is one
	itemsPerWord  = 2 // items whose keys contain a word that names their entity
)

var (
	// enumerationWords end the names of attributes whose values are those of a program.
	enumerationWords = []string{"status", "state", "type", "kind", "role", "tier", "level", "category", "priority", "mode", "stage", "phase", "plan",
		"currency", "country", "region", "language", "locale", "unit", "class", "severity", "outcome", "result", "action", "event", "channel", "method",
		"format", "visibility", "platform", "environment", "entity", "model"}
	// personalWords are in the names of attributes whose values are those of a person.
	personalWords = []string{"name", "firstname", "lastname", "surname", "fullname", "username", "nickname", "email", "mail", "phone", "mobile", "telephone",
		"fax", "address", "street", "city", "town", "zip", "postcode", "birth", "birthday", "birthdate", "age", "gender", "sex", "person", "patient", "customer",
		"user", "owner", "author", "assignee", "employee", "contact", "diagnosis", "illness", "disease", "medication", "religion", "password", "secret", "token", "ssn", "iban", "title", "note", "notes", "comment"}

	upperValue = form(`^[A-Z][A-Z_-]*$`)
	anyValue   = form(`^[A-Za-z][A-Za-z0-9_./+ -]*$`)
	// A word of a key has at most two digits, and no dot, no space and no @ but at its
	// beginning.
	keyWord = form(`^@?[!-\-/:-?A-~]*\d{0,2}[!-\-/:-?A-~]*$`)
)

// mayList reports whether the values of an attribute may be written into a model, given
// how many items have each.
func mayList(attribute string, counts map[string]int) bool {
	words := strings.Split(slugOf(attribute), "-")
	allowed, least := upperValue(), itemsPerValue
	switch {
	case slices.Contains(enumerationWords, words[len(words)-1]):
		allowed, least = anyValue(), 1
	case slices.ContainsFunc(words, func(word string) bool { return slices.Contains(personalWords, word) }):
		return false
	}
	for value, items := range counts {
		if items < least || !allowed.MatchString(value) {
			return false
		}
	}
	return true
}

// mayName reports whether a part of the keys of some items may be written into a model.
func (s *TableSample) mayName(text string, items int) bool {
	return s.AllValues || items >= itemsPerWord && keyWord().MatchString(text)
}
