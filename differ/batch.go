package main

import (
	"maps"
	"slices"
	"strings"
)

// statements returns the differences of a batch's statements, each as that of
// an ExecuteStatement with one item, so that the list of known faults explains
// each of them by itself. ok reports whether both servers have a result for each
// statement.
func (f *finding) statements() (found []*finding, ok bool) {
	sent, _ := f.Step.Body["Statements"].([]any)
	s, o := responses(f.Stator), responses(f.Other)
	if f.Step.Op != "BatchExecuteStatement" || !f.Stator.ok() || !f.Other.ok() || len(s) != len(sent) || len(o) != len(sent) {
		return nil, false
	}
	var third []any
	if f.Third != nil {
		third = responses(*f.Third)
	}
	for i, st := range sent {
		body, _ := st.(object)
		sub := &finding{Step: step{Op: "ExecuteStatement", Body: body}, Witness: f.Witness, Stator: statementAnswer(s[i]), Other: statementAnswer(o[i]), inBatch: true}
		if sub.Places = diff(sub.Stator, sub.Other); sub.Places == nil {
			continue
		}
		if len(third) == len(sent) {
			a := statementAnswer(third[i])
			sub.Third = &a
		}
		found = append(found, sub)
	}
	return found, true
}

// statementAnswer returns the result of a batch's statement as the answer to a
// single one. An error keeps its other members.
func statementAnswer(response any) answer {
	r, _ := response.(object)
	e, ok := r["Error"].(object)
	if !ok {
		return answer{Status: 200, Body: r}
	}
	a := answer{Status: 400, Body: maps.Clone(r)}
	delete(a.Body, "Error")
	a.Text, _ = e["Message"].(string)
	a.Code, _ = e["Code"].(string)
	if code, known := batchCodes[a.Code]; known {
		a.Code = code
	}
	if item, ok := e["Item"]; ok {
		a.Body["Item"] = item
	}
	return a
}

// batchCodes are the error types of the codes that a batch's statements have.
var batchCodes = map[string]string{
	"ValidationError": "ValidationException", "ConditionalCheckFailed": "ConditionalCheckFailedException",
	"ResourceNotFound": "ResourceNotFoundException", "DuplicateItem": "DuplicateItemException",
}

// explainStatements returns the known faults that explain the results of a
// batch's statements, or nil.
func explainStatements(found []*finding) (ks []*known) {
	for _, f := range found {
		k := explainPlaces(f) // its messages are those of the batch, which explain has looked at
		if k == nil {
			return nil
		}
		ks = append(ks, k...)
	}
	return ks
}

// ofStatements reports whether a place is in the results of a batch's
// statements.
func ofStatements(place string) bool { return strings.HasPrefix(place, "Responses[]") }

// explainBatch explains the results of a batch's statements one by one, and the
// other places as those of any request.
func explainBatch(f *finding, statements []*finding) (found []*known) {
	if slices.ContainsFunc(f.Places, ofStatements) {
		if found = explainStatements(statements); found == nil {
			return nil
		}
	}
	for _, place := range f.Places {
		if ofStatements(place) {
			continue
		}
		k := explainPlace(f, place)
		if k == nil {
			return nil
		}
		found = append(found, k)
	}
	return found
}
