package main

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// faults are the known differences. The first that matches explains a place of a
// difference.
var faults = compiled(slices.Concat(requestFaults, unitFaults, tableFaults, itemFaults, statementFaults))

// requestFaults are differences in the shape of requests, and in constraints on
// their members.
var requestFaults = []known{
	{
		name:     "envelope of a message",
		when:     func(f *finding) bool { return f.Stator.bare() == f.Other.bare() },
		evidence: "AWS puts \"1 validation error detected: \" before messages of some operations since August 2026 (conformance suite); neither witness does so everywhere",
	},
	{
		name: "malformed JSON types (DynamoDB Local)", witness: nameLocal, stator: "SerializationException: .*",
		evidence: "DynamoDB Local answers values of the wrong JSON type with 500, or takes them; AWS has SerializationException for them (conformance/wire/types.txt, after dynalite, which was held against AWS)",
	},
	{
		name: "requests that DynamoDB Local fails on", witness: nameLocal, other: "500 InternalFailure.*",
		evidence: "a malformed request never gets a 500 from AWS",
	},
	{
		name: "messages of Rust's JSON library", witness: nameDynoxide, other: `(?:Validation|Serialization)Exception: .*(?:at line \d+ column \d+|missing field|invalid type|unknown variant|expected ).*`,
		evidence: "the message names a line and a column, or is worded by the library, which AWS does not have",
	},
	{
		name: "order and words of constraints (DynamoDB Local)", witness: nameLocal, agreed: true,
		stator: `(?:ValidationException|ResourceNotFoundException|ResourceInUseException|LimitExceededException): .*`,
		when: func(f *finding) bool {
			return !strings.HasPrefix(strings.TrimPrefix(f.Stator.Text, envelope), "Invalid ")
		},
		evidence: "dynoxide's answer, recorded on AWS (its change log and the conformance suite), is stator's; DynamoDB Local has its own checks before and after its expression library",
	},
	{
		name: "a member that is null or missing", witness: nameLocal, stator: `ValidationException: .*Member must (?:not be null|have length|satisfy|be a).*|ValidationException: \d+ validation errors detected.*|ValidationException: The parameter '.*' is required.*`,
		other:    `ValidationException: .*`,
		evidence: "constraints of the API's model are reported by AWS before anything else (conformance suite); DynamoDB Local has texts of its own",
	},
	{
		name: "text of a number that is none", witness: nameLocal, stator: `ValidationException: .*The parameter cannot be converted to a numeric value.*`,
		other:    `ValidationException: .*A value provided cannot be converted into a number.*`,
		evidence: "dynoxide and dynalite, which were held against AWS, have: The parameter cannot be converted to a numeric value",
	},
	{
		name: "malformed JSON types (dynoxide)", witness: nameDynoxide, stator: "SerializationException: .*",
		evidence: "conformance/wire/types.txt, after dynalite; dynoxide converts some values, or names others",
	},
	{
		name: "values of enumerations and lengths", stator: `ValidationException: .*Member must (?:satisfy|have|be).*`,
		evidence: "the constraint is in the API's model, and AWS checks the model first (conformance suite); the witnesses skip some members",
	},
	{
		name: "null in lists and maps", when: func(f *finding) bool { return hasNull(f.Step.Body) },
		evidence: "what AWS does with a null member of a list or map is not known",
	},
}

// unitFaults are differences in consumed capacity.
var unitFaults = []known{
	{
		name: "units of scans by partition", ops: "Scan|ExecuteStatement", places: `ConsumedCapacity.*CapacityUnits`,
		when: func(f *finding) bool {
			if f.Witness == nameLocal && text(f, "IndexName") != "" {
				return true // DynamoDB Local charges whole items in place of their projections
			}
			return (f.Step.Op == "Scan" || strings.HasPrefix(text(f, "Statement"), "SELECT")) && units(f.Stator) >= units(f.Other)
		},
		evidence: "each partition of a table is charged separately; a new on-demand table has four (docs/differences.md, conformance/scan/capacity.txt)",
	},
	{
		name: "units of an empty query", witness: nameLocal, ops: "Query|ExecuteStatement", places: `ConsumedCapacity.*CapacityUnits`,
		when: func(f *finding) bool {
			return f.Stator.Body["ScannedCount"] == 0.0 || count(f.Stator.Body["Items"]) == 0
		},
		evidence: "a query that reads nothing costs half a unit (conformance/query/capacity.txt, dynoxide); DynamoDB Local charges nothing",
	},
	{
		name: "units of DynamoDB Local", witness: nameLocal, places: `ConsumedCapacity.*`, agreed: true,
		evidence: "dynoxide's figures were recorded on AWS in July and August 2026 (its change log), and stator's equal them; DynamoDB Local charges missing items nothing, indexes in transactions twice, and omits ReadCapacityUnits and WriteCapacityUnits",
	},
	{
		name: "units of PartiQL", witness: nameLocal, ops: ".*Statement|ExecuteTransaction", places: `ConsumedCapacity.*`,
		evidence: "DynamoDB Local returns no or other units for PartiQL; dynoxide's figures were recorded on AWS",
	},
	{
		name: "units that were not asked for", witness: nameLocal, ops: "DeleteItem", places: `ConsumedCapacity only in the second`,
		evidence: "DynamoDB Local returns units for a DeleteItem of a missing item without ReturnConsumedCapacity; the API returns them only on request",
	},
	{
		name: "units of reads and writes", witness: nameLocal, ops: "Transact.*|ExecuteTransaction", places: `ConsumedCapacity.*(?:Read|Write)CapacityUnits only in the first`,
		evidence: "transactions have ReadCapacityUnits and WriteCapacityUnits (API reference, dynoxide); DynamoDB Local omits them",
	},
	{
		name: "units of a query of a local index (dynoxide)", witness: nameDynoxide, ops: "Query|Scan", places: "ConsumedCapacity.*",
		when:     func(f *finding) bool { return strings.HasPrefix(text(f, "IndexName"), "l") },
		evidence: "dynoxide charges a scan of a local index to the table, and the table for items that were not fetched (DynamoDB Local charges the index, as stator does)",
	},
}

var executionPattern = whole(executionFault)

// executionFault matches the faults that an update can meet when it is carried
// out.
const executionFault = `ValidationException: (?:The document path provided in the update expression is invalid for update|` +
	`The provided expression refers to an attribute that does not exist in the item|An operand in the update expression has an incorrect data type|` +
	`list_append requires two list operands|Operands for . must be numbers|Type mismatch.*)`

func count(v any) int {
	l, _ := v.([]any)
	return len(l)
}

// units returns the consumed units of an answer.
func units(a answer) float64 {
	c, _ := a.Body["ConsumedCapacity"].(object)
	u, _ := c["CapacityUnits"].(float64)
	return u
}

// text returns a member of the request that is a text.
func text(f *finding, member string) string {
	s, _ := f.Step.Body[member].(string)
	return s
}

// batchMajority reports whether each statement of a batch has stator's result
// in the other witness, where this one differs.
func batchMajority(f *finding) bool {
	s, o := responses(f.Stator), responses(f.Other)
	var t []any
	if f.Third != nil {
		t = responses(*f.Third)
	}
	if len(s) != len(o) {
		return false
	}
	for i := range s {
		if result(s[i]) != result(o[i]) && (i >= len(t) || result(s[i]) != result(t[i])) {
			return false
		}
	}
	return true
}

func responses(a answer) []any {
	l, _ := a.Body["Responses"].([]any)
	return l
}

// result returns the error code and the item of one statement of a batch.
func result(r any) string {
	return fmt.Sprintf("%v %s", member(member(r, "Error"), "Code"), canonical(member(r, "Item")))
}

// hasNull reports whether a request has a null below its top level.
func hasNull(body object) bool {
	for _, v := range body {
		for _, n := range nodes(v) {
			if n.get() == nil {
				return true
			}
		}
	}
	return false
}

// withoutSizes returns the records of a stream without their sizes.
func withoutSizes(a answer) string {
	v := cloneJSON(a.Body)
	for _, n := range nodes(v) {
		if n.name == "SizeBytes" {
			n.remove()
		}
	}
	return canonical(v)
}

// withoutEmptyMaps returns the records of a stream without the types of empty
// maps.
func withoutEmptyMaps(a answer) string {
	return strings.ReplaceAll(canonical(a.Body), `{"M":{}}`, "{}")
}

// withoutEmpty returns the responses of a transactional read without items that
// are empty.
func withoutEmpty(a answer) string {
	return strings.ReplaceAll(canonical(a.Body["Responses"]), `{"Item":{}}`, `{}`)
}

// plainNumbers returns a body with all numbers in one notation, without consumed
// capacity.
func plainNumbers(body object) string {
	v := cloneJSON(body).(object)
	delete(v, "ConsumedCapacity")
	for _, n := range nodes(v) {
		if s, ok := n.get().(string); ok && n.name == "N" && len(s) < 200 {
			if r, ok := new(big.Rat).SetString(s); ok {
				n.set(r.RatString())
			}
		}
	}
	return canonical(v)
}
