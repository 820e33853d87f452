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
		name: "envelope of a message", alone: true,
		when:     func(f *finding) bool { return f.Stator.bare() == f.Other.bare() },
		evidence: "AWS puts \"1 validation error detected: \" before messages of some operations since August 2026 (conformance suite); neither witness does so everywhere",
	},
	{
		name: "malformed JSON types (DynamoDB Local)", witness: nameLocal, stator: "SerializationException: .*",
		when:     func(f *finding) bool { return !f.Other.ok() || f.Third != nil && !f.Third.ok() },
		evidence: "DynamoDB Local answers values of the wrong JSON type with 500, or takes them; AWS has SerializationException for them (conformance/wire/types.txt, after dynalite, which was held against AWS)",
	},
	{
		name: "numbers in place of texts", alone: true, ops: "Scan|Query|PutItem|UpdateItem|DeleteItem|ExecuteStatement", stator: "SerializationException: (?:NUMBER|DECIMAL|TRUE)_VALUE cannot be converted to String", other: "200|(?:ConditionalCheckFailed|DuplicateItem|Validation)Exception: .*",
		when:     func(f *finding) bool { return hasScalar(f.Step.Body) },
		evidence: "conformance/wire/types.txt, after dynalite; the witnesses convert some values, and ignore others",
	},
	{
		name: "numbers in place of booleans", alone: true, ops: "Scan|Query|PutItem|UpdateItem|DeleteItem|ExecuteStatement", stator: "SerializationException: (?:NUMBER|DECIMAL)_VALUE cannot be converted to Boolean", other: "200|(?:ConditionalCheckFailed|Validation)Exception: .*",
		when: func(f *finding) bool {
			return slices.ContainsFunc(nodes(f.Step.Body), func(n node) bool { return (n.name == "BOOL" || n.name == "NULL") && isNumber(n.get()) })
		},
		evidence: "conformance/wire/types.txt, after dynalite; the witnesses convert {\"BOOL\": 1}, or ignore it",
	},
	{
		name: "requests that DynamoDB Local fails on", witness: nameLocal, other: "500 InternalFailure.*",
		evidence: "a malformed request never gets a 500 from AWS",
	},
	{
		name: "messages of Rust's JSON library", witness: nameDynoxide, stator: malformed,
		other:    `(?:Validation|Serialization)Exception: .*(?:at line \d+ column \d+|missing field|invalid type|unknown variant|expected ).*`,
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
		when: func(f *finding) bool {
			return matches(malformedPattern, f.Other.bare()) || f.Third != nil && (f.Third.Status == 500 || strings.Contains(f.Third.Text, "null") || strings.Contains(f.Third.Text, "must be used with ComparisonOperator") ||
				hasNull(f.Step.Body) && strings.Contains(f.Third.Text, "cannot be converted into a number"))
		},
		evidence: "conformance/wire/types.txt, after dynalite; dynoxide converts some values, or names others",
	},
	{
		name: "values of enumerations and lengths", alone: true, stator: `ValidationException: .*Member must (?:satisfy|have|be).*`,
		other:    "200|(?:Validation|Serialization)Exception: .*|(?:ResourceNotFound|ResourceInUse|ConditionalCheckFailed|TransactionCanceled)Exception: .*",
		evidence: "the constraint is in the API's model, and AWS checks the model first (conformance suite); the witnesses skip some members",
	},
	{
		name: "null in lists and maps", stator: "200|" + malformed + `|ValidationException: (?:The provided key element does not match the schema|Conditions can be of length .*|Provided list of item keys contains duplicates|ConditionalOperator (?:cannot be used without Filter or Expected|can only be used when Filter or Expected has two or more elements)|Invalid [A-Za-z]*Expression: An expression attribute (?:name|value) used in .* is not defined.*)`,
		other: "(?:Validation|Serialization|ConditionalCheckFailed)Exception: .*",
		when: func(f *finding) bool {
			return hasNull(f.Step.Body) && !(f.Stator.ok() && hasNullValue(f.Step.Body))
		},
		evidence: "what AWS does with a null member of a list or map is not known; stator takes a member of a map for absent, and refuses an element of a list",
	},
	{
		name: "null in lists and maps, and another fault", stator: "(?:Validation|ConditionalCheckFailed|AccessDenied)Exception: .*", other: "200|(?:Validation|Serialization|ConditionalCheckFailed)Exception: .*",
		when: func(f *finding) bool {
			return hasNull(f.Step.Body) && (f.Other.namesNull() || f.Third != nil && f.Third.namesNull() && f.Other.ok())
		},
		evidence: "not known (docs/differences.md): a null member of a map is absent, or refused; a witness names the null, and stator another fault",
	},
	{
		name: "fractions in place of integers (dynoxide)", witness: nameDynoxide, stator: "(?:Validation|ResourceInUse|ResourceNotFound|LimitExceeded)Exception: .*", other: "(?:Serialization|Validation)Exception: .*floating point.*",
		evidence: "the service takes the integer part (conformance/wire/numbers.txt); stator reports another fault of the request, which must be DynamoDB Local's, too, or explained",
	},
}

// namesNull reports whether an error is about a null in the request.
func (a answer) namesNull() bool {
	return strings.Contains(a.Text, "invalid type: null") || strings.Contains(a.Text, "invalid value: null") || strings.Contains(a.Text, "must not be null for")
}

// malformed matches stator's errors for a member that is missing, null, empty or
// of another JSON type.
const malformed = `SerializationException: .*|ValidationException: (?:.*failed to satisfy constraint.*|Supplied AttributeValue .*|The parameter '.*' is required.*|` +
	`ExpressionAttributeValues contains invalid value: Supplied AttributeValue .*|ExpressionAttribute(?:Names|Values) must not be empty|Empty attribute name|` +
	`TransactItems can only contain .*|The Tag Key provided is invalid.*|.*must not be null)`

// malformedPattern matches dynoxide's errors for the same.
var malformedPattern = whole(malformed + `|ValidationException: .*(?:at line \d+ column|missing field|invalid type|Null attribute value types|Either the KeyConditions or KeyConditionExpression).*`)

// unitFaults are differences in consumed capacity.
var unitFaults = []known{
	{
		name: "units of scans by partition", alone: true, ops: "Scan|ExecuteStatement", places: `ConsumedCapacity.*CapacityUnits`,
		when: func(f *finding) bool {
			if f.Witness == nameLocal && text(f, "IndexName") != "" {
				return true // DynamoDB Local charges whole items in place of their projections
			}
			return (f.Step.Op == "Scan" || strings.HasPrefix(strings.ToUpper(statementText(f)), "SELECT")) && scanUnits(f)
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
		name: "units of missing items (DynamoDB Local)", witness: nameLocal, ops: "BatchGetItem", places: `ConsumedCapacity\[\]\.(?:Table\.)?CapacityUnits`,
		when:     func(f *finding) bool { return f.Third != nil && !f.Third.ok() && chargesFoundItems(f) },
		evidence: "a missing item costs as much as a small one (API reference, dynoxide for the projections that it parses); DynamoDB Local charges it nothing",
	},
	{
		name: "units of PartiQL", alone: true, witness: nameLocal, ops: ".*Statement|ExecuteTransaction", places: `ConsumedCapacity.*`,
		evidence: "DynamoDB Local returns no or other units for PartiQL; dynoxide's figures were recorded on AWS",
	},
	{
		name: "units of a projection (dynoxide)", witness: nameDynoxide, ops: "GetItem|TransactGetItems|BatchGetItem", places: "ConsumedCapacity.*", agreed: true,
		when: func(f *finding) bool {
			return strings.Contains(f.Step.text(), "ProjectionExpression") || strings.Contains(f.Step.text(), "AttributesToGet")
		},
		evidence: "a read is charged for the whole item (developer guide), as DynamoDB Local does; dynoxide charges what it projects",
	},
	{
		name: "units of items that a local index fetches (dynoxide)", witness: nameDynoxide, ops: "Query", places: `ConsumedCapacity\.(?:Table\.)?CapacityUnits`, agreed: true,
		when:     func(f *finding) bool { return strings.HasPrefix(text(f, "IndexName"), "l") },
		evidence: "attributes that a local index does not project are fetched from the table, which is charged (developer guide), as DynamoDB Local does",
	},
	{
		name: "units of a query of a local index (dynoxide)", witness: nameDynoxide, ops: "Query", places: `ConsumedCapacity\.(?:Table\.)?CapacityUnits`,
		when: func(f *finding) bool {
			return strings.HasPrefix(text(f, "IndexName"), "l") && count(f.Stator.Body["Items"]) == 0 && units(f.Stator) == units(f.Other)/2
		},
		evidence: "dynoxide charges the table for items that were not fetched; DynamoDB Local charges the table nothing",
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
		name: "units of a scan of a local index (dynoxide)", witness: nameDynoxide, ops: "Scan", places: `ConsumedCapacity\.(?:LocalSecondaryIndexes only in the first|Table\.CapacityUnits|CapacityUnits)`,
		when: func(f *finding) bool {
			return strings.HasPrefix(text(f, "IndexName"), "l") && (units(f.Stator) == units(f.Other) || scanUnits(f))
		},
		evidence: "dynoxide charges a scan of a local index to the table, and the table for items that were not fetched (DynamoDB Local charges the index, as stator does)",
	},
}

var executionPattern = whole(executionFault)

// executionFault matches the faults that an update can meet when it is carried
// out.
const executionFault = `ValidationException: (?:The document path provided in the update expression is invalid for update|` +
	`The provided expression refers to an attribute that does not exist in the item|An operand in the update expression has an incorrect data type|` +
	`Attempting to store more than 38 significant digits in a Number|DynamoDB only supports precision up to 38 digits|Number (?:over|under)flow.*|list_append requires two list operands|Operands for . must be numbers|Type mismatch.*)`

// partitions is how many partitions a new on-demand table has.
const partitions = 4

// scanUnits reports whether stator's units can be those of a scan that reads
// each partition separately, if the witness reads all items at once.
func scanUnits(f *finding) bool {
	unit := 0.5 // of 4 KB
	if f.Step.Body["ConsistentRead"] == true {
		unit = 1
	}
	stator, other := units(f.Stator)/unit, units(f.Other)/unit
	fetched := 0.0 // from the table, for attributes that a local index does not project
	if strings.HasPrefix(text(f, "IndexName"), "l") {
		fetched, _ = f.Stator.Body["ScannedCount"].(float64)
		if f.Witness == nameDynoxide && f.Third != nil && fetched > 0 { // DynamoDB Local charges whole items, together
			fetched = max(fetched, units(*f.Third)/unit+fetched-1)
		}
	}
	switch {
	case f.Step.Body["Limit"] != nil:
		return stator >= other && stator <= max(other, 1)+partitions-1+fetched
	case strings.HasPrefix(text(f, "IndexName"), "l"):
		return stator >= other && stator <= other+partitions+fetched
	case other <= 1 && f.Step.Op == "ExecuteStatement": // which may be a query for the witness
		return stator >= partitions
	case other <= 1:
		return stator == partitions
	}
	return stator >= max(other, partitions) && stator < other+partitions
}

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

func responses(a answer) []any {
	l, _ := a.Body["Responses"].([]any)
	return l
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

// typeMembers are the members of an attribute value.
var typeMembers = []string{"S", "N", "B", "SS", "NS", "BS", "L", "M", "BOOL", "NULL"}

// hasNullValue reports whether a request has a null in a list or in place of a
// value's content, which stator refuses.
func hasNullValue(body object) bool {
	return slices.ContainsFunc(nodes(body), func(n node) bool {
		return n.get() == nil && (n.name == "" || slices.Contains(typeMembers, n.name))
	})
}

// scalarMembers are the members of requests to items that are numbers or
// booleans.
var scalarMembers = map[string]bool{
	"BOOL": true, "NULL": true, "Limit": true, "Segment": true, "TotalSegments": true, "ConsistentRead": true, "ScanIndexForward": true, "Exists": true,
}

// hasScalar reports whether a request has a number or a boolean in place of a
// text.
func hasScalar(body object) bool {
	for _, n := range nodes(body) {
		switch n.get().(type) {
		case int, float64, bool:
			if !scalarMembers[n.name] {
				return true
			}
		}
	}
	return false
}

func isNumber(v any) bool {
	switch v.(type) {
	case int, float64:
		return true
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
	list, _ := a.Body["Records"].([]any)
	records := make([]string, len(list))
	for i, r := range list {
		records[i] = strings.ReplaceAll(plainNumbers(object{"": r}), `{"M":{}}`, "{}")
	}
	slices.Sort(records)
	return strings.Join(records, "\n")
}

// withoutEmpty returns the responses of a transactional read without items that
// are empty.
func withoutEmpty(a answer) string {
	return strings.ReplaceAll(canonical(a.Body["Responses"]), `{"Item":{}}`, `{}`)
}

// plainNumbers returns a body with all numbers in one notation, without consumed
// capacity and sizes of item collections, which are places of their own.
func plainNumbers(body object) string {
	v := cloneJSON(body).(object)
	delete(v, "ConsumedCapacity")
	delete(v, "ItemCollectionMetrics")
	for _, n := range nodes(v) {
		if s, ok := n.get().(string); ok && n.name == "N" && len(s) < 200 {
			if r, ok := new(big.Rat).SetString(s); ok {
				n.set(r.RatString())
			}
		}
	}
	return canonical(v)
}

// otherStatementsRun reports whether the witness carries out other statements of
// a batch than stator.
func otherStatementsRun(f *finding) bool {
	s, o := responses(f.Stator), responses(f.Other)
	for i := range min(len(s), len(o)) {
		se, oe := member(s[i], "Error"), member(o[i], "Error")
		if (se == nil) != (oe == nil) || member(se, "Code") == "ValidationError" || member(oe, "Code") == "ValidationError" {
			return true
		}
	}
	return false
}

// reasonCodes returns the codes of the reasons of a cancelled transaction.
func reasonCodes(a answer) (codes []string) {
	list, _ := a.Body["CancellationReasons"].([]any)
	for _, r := range list {
		codes = append(codes, fmt.Sprint(member(r, "Code")))
	}
	return codes
}

// sameReasons reports whether stator's reasons are those of the witness, apart
// from actions that are not valid.
func sameReasons(f *finding) bool {
	s, o := reasonCodes(f.Stator), reasonCodes(f.Other)
	if len(s) != len(o) {
		return false
	}
	for i := range s {
		if s[i] != o[i] && s[i] != "ValidationError" {
			return false
		}
	}
	return true
}

// endsAtInvalid reports whether stator's reasons are those of the witness up to
// the first ValidationError, and None from there on.
func endsAtInvalid(f *finding) bool {
	s, o := reasonCodes(f.Stator), reasonCodes(f.Other)
	first := slices.Index(s, "ValidationError")
	if first < 0 || len(s) != len(o) || !slices.Equal(s[:first+1], o[:first+1]) {
		return false
	}
	return !slices.ContainsFunc(s[first+1:], func(code string) bool { return code != "None" })
}
