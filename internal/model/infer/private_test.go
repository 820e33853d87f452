package infer

import (
	"fmt"
	"strings"
	"testing"
)

// visits are items with values that a model must not contain.
func visits(t *testing.T) *TableSample {
	people := []string{"Cy Lee", "Bob Ray", "Ann Poe"}
	var lines []string
	for i := range 60 {
		lines = append(lines, fmt.Sprintf(`{"PK": {"S": "VISIT#%04d"}, "SK": {"S": "VISIT"}, "patient": {"S": %q}, "email": {"S": %q}, "doctor": {"S": %q},
			"diagnosis": {"S": %q}, "owner": {"S": %q}, "status": {"S": %q}, "ward": {"S": %q}, "firstName": {"S": %q}}`,
			i, people[i%3], strings.ToLower(people[i%3][:2])+"@mail.org", people[i%2], []string{"FLU", "COLD"}[i%2], []string{"alice", "bob"}[i%2],
			[]string{"Open", "In progress"}[i%2], []string{"NORTH", "SOUTH"}[i%2], []string{"CY", "BOB"}[i%2]))
	}
	lines = append(lines, `{"PK": {"S": "SMITH"}, "SK": {"S": "DOE"}, "x": {"S": "1"}}`, `{"PK": {"S": "carol/1"}, "SK": {"S": "dave"}, "y": {"S": "1"}}`)
	return sampleText(t, lines...)
}

// A model contains no values that may be a customer's data: only those of enumerations, by
// their names or as repeated words in capitals, and the words in the keys of several items.
func TestInferLeavesPersonalValuesOut(t *testing.T) {
	_, text := deriveText(t, visits(t))
	for _, private := range []string{"Cy Lee", "Bob", "Ray", "mail.org", "FLU", "COLD", "alice", "SMITH", "smith", "DOE", "carol", "dave", "CY"} {
		if strings.Contains(text, private) {
			t.Errorf("the model contains %s", private)
		}
	}
	for _, known := range []string{`status: {values: ["In progress", Open]`, "ward: {values: [NORTH, SOUTH]", `PK: "VISIT#{`, "patient: {size: 7}  # guess: in all items; 3 values not listed"} {
		if !strings.Contains(text, known) {
			t.Errorf("the model lacks %s", known)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// AllValues writes them.
func TestInferAllValues(t *testing.T) {
	s := visits(t)
	s.AllValues = true
	_, text := deriveText(t, s)
	for _, value := range []string{`"Cy Lee"`, "cy@mail.org", "FLU", "SMITH", "alice"} {
		if !strings.Contains(text, value) {
			t.Errorf("the model lacks %s:\n%s", value, text)
		}
	}
}
