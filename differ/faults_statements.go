package main

import (
	"regexp"
	"slices"
	"strings"
)

const (
	manyItems         = `Select statements within BatchExecuteStatement must specify the primary key in the where clause\.`
	manyTransactItems = `Validation failed in TransactStatements\[\d+\]: Select statements within ExecuteTransaction must specify the primary key in the where clause\.`
	failedRun         = executionFault + `|ValidationException: One or more parameter values are not valid\. The AttributeValue for a key attribute cannot contain an empty (?:string|binary) value\. Key: \S+|` + emptyIndexKey
	keyOfStatement    = `Key attribute's data type should match its data type in table's schema: Key \S+`
)

const duplicateKeys = "ValidationException: Provided list of item keys contains duplicates"

var (
	failedInsert = regexp.MustCompile(`"Message":"(?:Invalid attribute value type|One or more parameter values were invalid: Type mismatch for Index Key|One or more parameter values are not valid\. The AttributeValue for a key attribute)`)
	// functionReturning matches RETURNING after a function that dynoxide does not parse.
	functionReturning = regexp.MustCompile(`(?:set_add|set_delete|if_not_exists)\(.*RETURNING `)
	unparsed          = regexp.MustCompile(`"Message":"(?:Statement wasn't well formed|UPDATE requires a WHERE clause)`)
)

// attributeCompared matches a key of a table or index that is compared with an attribute.
var attributeCompared = regexp.MustCompile(`"?\b(?:g\d|pk|sk)"? *= *"?[a-z]`)

// partitionKeys matches the partition key of the generated tables in a
// condition.
var partitionKeys = regexp.MustCompile(`"?\bpk"? *[=<>]|= *"?pk\b`)

var keyOfStatementPattern = whole("ValidationException: " + keyOfStatement)

// keyIsNull matches IS NULL and IS NOT NULL of a key.
var keyIsNull = regexp.MustCompile(`(?i)"?\b(?:pk|sk|g\d)"? is (?:not )?null`)

// keyInFunction matches a function of a key that is no condition on the key.
var keyInFunction = regexp.MustCompile(`(?i)\b(?:attribute_type|contains|size) *\( *"?(?:pk|sk|g\d)\b`)

// valueFirst matches a comparison of a literal or a parameter with an attribute.
var valueFirst = regexp.MustCompile(`(?i)(?:where|and) (?:\?|'[^']*'|-?[0-9.]+) *= *"?[a-z]`)

// valueBeforeSortKey matches a range of a sort key with the literal or the
// parameter before the key.
var valueBeforeSortKey = regexp.MustCompile(`(?i)(?:where|and) (?:\?|'[^']*'|-?[0-9.]+) *[<>]=? *"?(?:sk|g\d)\b`)

// statementText returns the statements of a request, with semicolons between them
// and one space in place of several, but none before [.
func statementText(f *finding) string {
	var all []string
	for _, n := range nodes(f.Step.Body) {
		if statement, ok := n.get().(string); ok && n.name == "Statement" {
			all = append(all, strings.Join(strings.Fields(statement), " "))
		}
	}
	return strings.ReplaceAll(strings.Join(all, "; "), " [", "[")
}

// statementFaults are differences in PartiQL.
var statementFaults = []known{
	{
		name: "dynoxide alone (PartiQL)", witness: nameDynoxide, agreed: true, places: notUnits, ops: ".*Statement|ExecuteTransaction",
		evidence: "stator's answer is that of DynamoDB Local, which has Amazon's own PartiQL library",
	},
	{
		name: "names of nested attributes in a batch", witness: nameLocal, ops: "ExecuteStatement|ExecuteTransaction", places: `(?:Responses\[\]\.)?Item(?: .*)?`, agreed: true,
		when:     func(f *finding) bool { return f.inBatch || f.Step.Op == "ExecuteTransaction" },
		evidence: "not known: SELECT l[0] returns the attribute l[0] (stator, dynoxide) or the list (DynamoDB Local)",
	},
	{
		name: "names of nested attributes in a batch that dynoxide rejects", witness: nameLocal, ops: "ExecuteStatement", places: `Item(?: .*)?`, stator: "200", other: "200",
		when:     func(f *finding) bool { return f.inBatch && f.Third == nil && strings.Contains(statementText(f), "[") },
		evidence: "not known: SELECT l[0] returns the attribute l[0] (stator, dynoxide) or the list (DynamoDB Local)",
	},
	{
		name: "malformed statements that dynoxide takes", witness: nameDynoxide, ops: ".*Statement|ExecuteTransaction", stator: "ValidationException: Statement wasn't well formed.*",
		when:     func(f *finding) bool { return f.Third != nil && strings.Contains(f.Third.Text, "wasn't well formed") },
		evidence: "DynamoDB Local, which has Amazon's own PartiQL library, refuses the statement",
	},
	{
		name: "first fault of a statement's execution", alone: true, ops: "ExecuteStatement", stator: executionFault, other: executionFault,
		evidence: "which of several faults is met first when an update is carried out is not known (no recording on AWS)",
	},
	{
		name: "statements that dynoxide does not parse", witness: nameDynoxide, ops: ".*Statement|ExecuteTransaction", other: "ValidationException: Statement wasn't well formed, can't be processed: .*",
		when:     func(f *finding) bool { return f.Third != nil && !strings.Contains(f.Third.Text, "wasn't well formed") },
		evidence: "DynamoDB Local, which has Amazon's own PartiQL library, parses the statement",
	},
	{
		name: "IS NULL (dynoxide)", alone: true, witness: nameDynoxide, ops: ".*Statement|ExecuteTransaction", places: "outcome|TableName only in the first", other: "ValidationException: Statement wasn't well formed, can't be processed: Expected .*MISSING.*'NULL'",
		evidence: "IS NULL is an operator of the PartiQL reference, and DynamoDB Local parses it; dynoxide knows IS MISSING only",
	},
	{
		name: "order of the faults of a transaction's statements", ops: "ExecuteTransaction", stator: "ValidationException: .*", other: "ValidationException: .*",
		when:     func(f *finding) bool { return count(f.Step.Body["TransactStatements"]) > 1 },
		evidence: "which fault of several statements is reported is not known",
	},
	{
		name: "names of tables in statements", witness: nameLocal, ops: ".*Statement|ExecuteTransaction", stator: "ResourceNotFoundException.*|ValidationException: .*", other: `ValidationException: (?:Validation failed in TransactStatements\[\d+\]: )?Table name should be.*`,
		when: func(f *finding) bool {
			return f.Stator.Code == "ResourceNotFoundException" || f.Third == nil || !f.Third.ok()
		},
		evidence: "dynoxide's change log, recorded on AWS: ResourceNotFoundException; faults of a statement by itself come first",
	},
	{
		name: "faults of a statement before its table (dynoxide)", witness: nameDynoxide, ops: ".*Statement|ExecuteTransaction", stator: "ValidationException: .*", other: "ResourceNotFoundException: .*",
		when: func(f *finding) bool {
			return strings.HasPrefix(f.Stator.Text, "Unsupported operator in ") || f.Third != nil && strings.Contains(f.Third.Text, "Table name should be")
		},
		evidence: "stator checks a statement by itself before it looks up the table, as DynamoDB Local does",
	},
	{
		name: "names of nested attributes with dots (dynoxide)", witness: nameDynoxide, ops: "ExecuteTransaction|ExecuteStatement", places: `(?:Responses\[\]\.)?Item(?: .*)?`,
		when:     func(f *finding) bool { return f.Stator.ok() && strings.Contains(statementText(f), `with.dot"[`) },
		evidence: "dynoxide does not find elements of a list whose name has a dot",
	},
	{
		name: "names of nested attributes with dots (DynamoDB Local)", witness: nameLocal, ops: "ExecuteTransaction|ExecuteStatement", places: `(?:Responses\[\]\.)?Item(?: .*)?`,
		when:     func(f *finding) bool { return f.Stator.ok() && strings.Contains(statementText(f), `with.dot"[`) },
		evidence: "not known (docs/differences.md): SELECT l[0] returns the attribute l[0] or the list",
	},
	{
		name: "updated elements that a statement returns (DynamoDB Local)", witness: nameLocal, ops: "ExecuteStatement", places: "Items|Item",
		when: func(f *finding) bool {
			return f.Stator.ok() && strings.Contains(statementText(f), "RETURNING MODIFIED")
		},
		evidence: "MODIFIED returns only the changed elements, as UPDATED_NEW does (tests of Scylla's Alternator that run on AWS); DynamoDB Local returns the whole attribute",
	},
	{
		name: "SELECTs of a batch that do not name one item (DynamoDB Local)", witness: nameLocal, ops: "ExecuteStatement", stator: "ValidationException: " + manyItems, other: "ValidationException: Only single item select is supported",
		evidence: "AWS's message is on public record (conformance/batch_execute_statement/batch.txt)",
	},
	{
		name: "SELECTs of a batch that do not name one item (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement", stator: "ValidationException: " + manyItems, other: "200|ValidationException: Statement wasn't well formed, can't be processed: .*",
		when: func(f *finding) bool {
			return f.Third != nil && (f.Third.Text == "Only single item select is supported" || strings.Contains(f.Third.Text, "attribute name: :"))
		},
		evidence: "DynamoDB Local refuses the statement, too; dynoxide takes conditions besides the key, or does not parse them",
	},
	{
		name: "a statement of a batch that is neither a read nor a write", witness: nameLocal, ops: "ExecuteStatement", stator: "ValidationException: Unsupported operation: [A-Za-z]+", other: "ValidationException: Invalid operation. Only select, insert, update and delete operations are valid",
		evidence: "not decided (docs/differences.md): stator has the message of ExecuteStatement and ExecuteTransaction, on which DynamoDB Local agrees",
	},
	{
		name: "an INSERT that fails and another statement for its item (DynamoDB Local)", alone: true, witness: nameLocal, ops: "BatchExecuteStatement", stator: duplicateKeys, other: "200",
		when:     func(f *finding) bool { return failedInsert.MatchString(canonical(f.Other.Body["Responses"])) },
		evidence: "dynoxide has stator's message; DynamoDB Local does not compare an item that it rejects",
	},
	{
		name: "statements for one item that dynoxide does not parse", alone: true, witness: nameDynoxide, ops: "BatchExecuteStatement", stator: duplicateKeys, other: "200",
		when:     func(f *finding) bool { return unparsed.MatchString(canonical(f.Other.Body["Responses"])) },
		evidence: "dynoxide does not compare a statement that it does not parse",
	},
	{
		name: "the table of a statement of a batch that fails", witness: nameLocal, ops: "ExecuteStatement", stator: failedRun, other: failedRun, places: "TableName only in the second",
		evidence: "dynoxide has no table for these errors, either",
	},
	{
		name: "several conditions on the partition key", witness: nameLocal, ops: "ExecuteStatement", stator: "ValidationException: " + keyOfStatement, other: "200|ValidationException: One or more parameter values were invalid: Condition parameter type does not match schema type",
		when:     func(f *finding) bool { return len(partitionKeys.FindAllString(statementText(f), -1)) > 1 },
		evidence: "not known: one of the values does not have the type of the key; DynamoDB Local has another message, or takes the first condition for a filter",
	},
	{
		name: "several conditions on the partition key (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement", stator: "ValidationException: " + keyOfStatement, other: "200", alone: true,
		when:     func(f *finding) bool { return len(partitionKeys.FindAllString(statementText(f), -1)) > 1 },
		evidence: "not known: one of the values does not have the type of the key; dynoxide does not compare types",
	},
	{
		name: "number and types of the operands of a SET (DynamoDB Local)", witness: nameLocal, ops: ".*Statement|ExecuteTransaction", stator: "ValidationException: .*Incorrect number of operands for operator or function; operator or function: [a-z_+-]+, number of operands: \\d+", other: "ValidationException: .*Incorrect operand type for operator or function; operator or function: [a-z_+-]+, operand type: [A-Z]+",
		when:     func(f *finding) bool { return strings.Contains(statementText(f), "UPDATE ") },
		evidence: "which of two faults is reported is not known",
	},
	{
		name: "pages of statements (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement", places: "ConsumedCapacity only in the second",
		when: func(f *finding) bool {
			return f.Step.Pages && f.Step.Body["Limit"] != nil && count(f.Other.Body["Items"]) == 0 && attributeCompared.MatchString(statementText(f))
		},
		evidence: "units are not compared if there are several pages; dynoxide has one page for a key that is compared with an attribute",
	},
	{
		name: "a comparison in place of a value (DynamoDB Local)", witness: nameLocal, ops: "ExecuteStatement", stator: "ValidationException: Unsupported operator in Update Expression. Operator: =", other: "200|ConditionalCheckFailedException: .*|ValidationException: (?:Incorrect number of operands|The function is not allowed in an update expression|Unrecognized function: set_).*|" + executionFault,
		evidence: "DynamoDB Local takes a comparison of values and functions in SET, or checks their operands, and refuses others with stator's message",
	},
	{
		name: "conditions on keys (DynamoDB Local)", witness: nameLocal, ops: "ExecuteStatement", stator: "200", other: "ValidationException: One or more parameter values were invalid: Condition parameter type does not match schema type",
		when:     func(f *finding) bool { return f.agreed("outcome") || keyInFunction.MatchString(statementText(f)) },
		evidence: "dynoxide has stator's answer, if it parses the statement; DynamoDB Local takes a BETWEEN pk AND ?, contains(pk, ?) and attribute_type(pk, ?) for conditions on the key",
	},
	{
		name: "responses of a transaction that writes (dynoxide)", witness: nameDynoxide, ops: "ExecuteTransaction", places: "Responses",
		when: func(f *finding) bool {
			return f.Third != nil && f.Third.Status == 500 && count(f.Stator.Body["Responses"]) == 0 && strings.Trim(canonical(f.Other.Body["Responses"]), "[]{},") == ""
		},
		evidence: "not decided (docs/differences.md): [] as in DynamoDB Local, which answered 500 here, or [{}]",
	},
	{
		name: "which key of a statement does not fit", witness: nameLocal, ops: "ExecuteStatement|ExecuteTransaction", stator: "ValidationException: " + keyOfStatement, other: "ValidationException: " + keyOfStatement,
		evidence: "which of two keys that do not fit is named is not known; DynamoDB Local names the second",
	},
	{
		name: "units of statements on names with dots (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement", places: "ConsumedCapacity.*",
		when: func(f *finding) bool {
			return strings.Contains(statementText(f), "with.dot") && slices.Contains(f.Places, "Items") && f.agreed("Items")
		},
		evidence: "dynoxide takes the name for a path, and changes another attribute; DynamoDB Local returns stator's items",
	},
	{
		name: "position of the table of an INSERT", witness: nameLocal, ops: ".*Statement|ExecuteTransaction", stator: `ValidationException: .*FROM clause may only contain a single table name in data manipulation statements at \d+:\d+:\d+`,
		other:    "ValidationException: .*FROM clause may only contain a single table name in data manipulation statements",
		evidence: "the position was observed on the service (conformance/execute_statement/indexes.txt)",
	},
	{
		name: "keys of a statement that do not fit (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement", stator: "ValidationException: " + keyOfStatement, other: "200|ConditionalCheckFailedException: .*",
		when:     func(f *finding) bool { return f.Third != nil && keyOfStatementPattern.MatchString(f.Third.bare()) },
		evidence: "DynamoDB Local refuses the statement, too",
	},
	{
		name: "RETURNING in a transaction and another fault (DynamoDB Local)", witness: nameLocal, ops: "ExecuteTransaction", stator: `ValidationException: Validation failed in TransactStatements\[\d+\]: RETURNING clause is not supported in ExecuteTransaction\.`,
		other:    `ResourceNotFoundException: .*|TransactionCanceledException: .*|ValidationException: .*Key value must be of type S, N, or B.*`,
		evidence: "dynoxide, whose answers were recorded on AWS, reports RETURNING first for the statements that it parses",
	},
	{
		name: "RETURNING in a transaction that dynoxide does not parse", alone: true, ops: "ExecuteTransaction", stator: `ValidationException: Validation failed in TransactStatements\[\d+\]: RETURNING clause is not supported in ExecuteTransaction\.`,
		other: `TransactionCanceledException: .*`,
		when: func(f *finding) bool {
			dynoxide := &f.Other
			if f.Witness == nameLocal {
				dynoxide = f.Third
			}
			return dynoxide != nil && (unparsed.MatchString(canonical(dynoxide.Body["CancellationReasons"])) || functionReturning.MatchString(statementText(f)))
		},
		evidence: "dynoxide, whose answers were recorded on AWS, reports RETURNING before keys that do not fit, for the statements that it parses; a reason of it says that it did not parse this one, or a function that it does not parse is before RETURNING",
	},
	{
		name: "an INSERT within an expression (DynamoDB Local)", witness: nameLocal, ops: ".*Statement|ExecuteTransaction", stator: "ValidationException: Statement wasn't well formed, can't be processed: Keyword insert_into only expected at the top level in the query", other: `ValidationException: (?:Unsupported operation in transaction\.|EXISTS can only be used in ExecuteTransaction write requests\.)`,
		evidence: "+INSERT is refused by all; DynamoDB Local takes it for an expression, as it does not with +DELETE and +UPDATE, and dynoxide for a syntax error",
	},
	{
		name: "units of comparisons with the value first (dynoxide)", alone: true, witness: nameDynoxide, ops: "ExecuteStatement", places: `ConsumedCapacity(?:\.(?:Table\.)?CapacityUnits| only in the first)`,
		when: func(f *finding) bool {
			several := f.Step.Pages && f.Step.Body["Limit"] != nil && f.Other.Body["ConsumedCapacity"] == nil // units of several pages are not compared
			return valueFirst.MatchString(statementText(f)) && (units(f.Stator) < units(f.Other) || several)
		},
		evidence: "10 = pk selects a partition as pk = 10 does; dynoxide reads all items",
	},
	{
		name: "units of changes to names with dots (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement|ExecuteTransaction", stator: "200", other: "200", places: "ConsumedCapacity.*",
		when: func(f *finding) bool {
			text := statementText(f)
			return strings.Contains(text, `with.dot"`) && strings.Contains(text, "UPDATE ")
		},
		evidence: "dynoxide takes the name, which is in quotes, for a path, and changes nothing, so that it charges indexes nothing",
	},
	{
		name: "names with dots that DynamoDB Local takes for placeholders (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement|ExecuteTransaction", stator: "200|ConditionalCheckFailedException: .*", other: "200|ConditionalCheckFailedException: .*",
		when: func(f *finding) bool {
			return strings.Contains(statementText(f), `with.dot"`) && f.Third != nil && strings.Contains(f.Third.Text, "used in the document path is not defined")
		},
		evidence: "dynoxide takes the name, which is in quotes, for a path",
	},
	{
		name: "IS NULL of a key (DynamoDB Local)", witness: nameLocal, ops: "ExecuteStatement|ExecuteTransaction", stator: "200", other: "ValidationException: (?:" + keyOfStatement + "|One or more parameter values were invalid: Condition parameter type does not match schema type)",
		when:     func(f *finding) bool { return keyIsNull.MatchString(statementText(f)) },
		evidence: "not known: pk IS NULL filters; DynamoDB Local takes it for an equality of the key with null, and dynoxide does not parse it",
	},
	{
		name: "words for a consistent read of a global index (DynamoDB Local)", witness: nameLocal, ops: "ExecuteStatement", stator: "ValidationException: Strongly consistent read is not supported on Global Secondary Indexes", other: "ValidationException: Consistent reads are not supported on global secondary indexes",
		evidence: "dynoxide, whose answers were recorded on AWS, has stator's message",
	},
	{
		name: "what both others refuse (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement|ExecuteTransaction", stator: "ValidationException: .*", other: "200|ConditionalCheckFailedException: .*|ValidationException: (?:Invalid key value|UPDATE requires a WHERE clause)",
		when: func(f *finding) bool {
			return f.Third != nil && f.Third.Status == 400 && f.Third.Code == "ValidationException"
		},
		evidence: "DynamoDB Local, which has Amazon's own PartiQL library, refuses the statement, too; another message of it is a difference by itself",
	},
	{
		name: "a value before the sort key (DynamoDB Local)", alone: true, witness: nameLocal, ops: "ExecuteStatement", places: "Items", stator: "200", other: "200",
		when:     func(f *finding) bool { return valueBeforeSortKey.MatchString(statementText(f)) },
		evidence: "not decided (docs/differences.md): DynamoDB Local reads 2 > sk as sk > 2, but 2 > a as a < 2",
	},
	{
		name: "a value before the sort key (dynoxide)", alone: true, witness: nameDynoxide, ops: "ExecuteStatement", places: "Items", stator: "200", other: "200",
		when: func(f *finding) bool {
			return valueBeforeSortKey.MatchString(statementText(f)) && count(f.Other.Body["Items"]) == 0
		},
		evidence: "dynoxide finds no item if a value is before an attribute, also for 2 = sk, for which DynamoDB Local has stator's items",
	},
	{
		name: "an empty name of a table (DynamoDB Local)", witness: nameLocal, ops: "ExecuteStatement|ExecuteTransaction", stator: `ValidationException: (?:Validation failed in TransactStatements\[\d+\]: )?Path component cannot be an empty string`, other: "ResourceNotFoundException: .*",
		when: func(f *finding) bool {
			return f.Third != nil && f.Third.Text == "Path component cannot be an empty string"
		},
		evidence: "dynoxide has stator's message; DynamoDB Local looks for a table without a name",
	},
	{
		name: "first fault of a SET (DynamoDB Local)", witness: nameLocal, ops: ".*Statement|ExecuteTransaction", stator: "ValidationException: .*(?:Unexpected path component|Where clause does not contain).*", other: "ValidationException: .*(?:The first argument to SET_|Key attributes must be scalars).*",
		evidence: "which of two faults of a statement is reported is not known",
	},
	{
		name: "statements that only stator carries out", ops: "ExecuteTransaction", witness: nameDynoxide, stator: "200", other: ".*UPDATE requires a WHERE clause.*|TransactionCanceledException: .*",
		when: func(f *finding) bool {
			return f.Third != nil && f.Third.Status == 500 && strings.Contains(canonical(f.Other.Body), "UPDATE requires a WHERE clause")
		},
		evidence: "dynoxide does not parse set_add; DynamoDB Local answers 500",
	},
	{
		name: "comparison of parameters (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement", places: "Items|ConsumedCapacity.CapacityUnits",
		when: func(f *finding) bool {
			return f.Third != nil && f.Third.Status == 500 && strings.Contains(statementText(f), "WHERE ? ")
		},
		evidence: "? = ? holds for equal parameters; DynamoDB Local answers 500",
	},
	{
		name: "a condition in place of a value", ops: "ExecuteStatement", stator: "ValidationException: Unsupported operator in Update Expression. Operator: =", other: "ValidationException: (?:Where clause does not contain .*|UPDATE requires a WHERE clause|Unsupported data type: .*)",
		evidence: "SET a = b = 1 without WHERE is refused by all; which message AWS has is not known",
	},
	{
		name: "exceptions of DynamoDB Local's storage", witness: nameLocal, other: ".*An unexpected exception occurred.*",
		evidence: "an error of SQLite",
	},
	{
		name: "units of the statements of a batch (dynoxide)", alone: true, witness: nameDynoxide, ops: "BatchExecuteStatement", places: "ConsumedCapacity.*",
		when:     otherStatementsRun,
		evidence: "dynoxide carries out other statements of the batch, since it does not parse all of them and takes more, and charges statements that are not valid",
	},
	{
		name: "reasons and order of a transaction of statements (dynoxide)", witness: nameDynoxide, ops: "ExecuteTransaction", places: "outcome|CancellationReasons.*",
		when:     func(f *finding) bool { return f.Third != nil && f.Third.ok() == f.Stator.ok() },
		evidence: "DynamoDB Local takes and refuses the same transactions as stator; dynoxide does not parse all statements",
	},
	{
		name: "execution of a statement (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement", stator: executionFault,
		when:     func(f *finding) bool { return f.Third != nil && matches(executionPattern, f.Third.bare()) },
		evidence: "DynamoDB Local refuses the update, too; dynoxide ignores some paths",
	},
	{
		name: "message for a missing table in a statement (dynoxide)", witness: nameDynoxide, ops: ".*Statement|ExecuteTransaction", stator: "ResourceNotFoundException: Requested resource not found", other: "ResourceNotFoundException: Requested resource not found: Table: .*",
		evidence: "not recorded for statements; DynamoDB Local does not name the table either",
	},
	{
		name: "reasons of a transaction of statements (DynamoDB Local)", witness: nameLocal, ops: "ExecuteTransaction", stator: "TransactionCanceledException: .*", other: "TransactionCanceledException: ValidationError .*",
		evidence: "a cancellation lists its reasons (API reference); DynamoDB Local puts the first into the message",
	},
	{
		name: "code of a duplicate item in a transaction", witness: nameLocal, ops: "ExecuteTransaction", stator: ".*DuplicateItem.*",
		when: func(f *finding) bool {
			return strings.ReplaceAll(f.Stator.outcome(), "DuplicateItem", "ValidationError") == f.Other.outcome()
		},
		evidence: "the reason is DuplicateItem (API reference, dynoxide); DynamoDB Local says ValidationError",
	},
	{
		name: "code of a duplicate item", witness: nameLocal, stator: "DuplicateItemException: .*", other: "DuplicateItem: .*",
		evidence: "AWS: DuplicateItemException (API reference)",
	},
	{
		name: "several SET clauses in a statement", witness: nameDynoxide, other: "ValidationException: UPDATE requires a WHERE clause",
		evidence: "AWS's grammar has UPDATE table SET … SET … (PartiQL reference)",
	},
	{
		name: "details of malformed statements", ops: ".*Statement|ExecuteTransaction",
		stator: `ValidationException: .*Statement wasn't well formed.*`, other: `ValidationException: .*Statement wasn't well formed.*`,
		evidence: "the text after the colon is the parser's; what AWS prints is not known for most statements",
	},
	{
		name: "a comparison of conditions that the witnesses take", alone: true, ops: "ExecuteStatement", stator: "ValidationException: Incorrect operand type for operator or function; operator or function: (?:=|<>|IN), operand type: BOOL", other: "200|ValidationException: Where clause does not contain a mandatory equality on all key attributes",
		evidence: "(pk = 'a') = 1 compares a boolean; DynamoDB Local compares the result of a condition, which the service's documentation does not know, and dynoxide does not check types",
	},
	{
		name: "a comparison of conditions", ops: ".*Statement|ExecuteTransaction", stator: "ValidationException: .*Incorrect operand type for operator or function; operator or function: (?:=|<>|IN), operand type: BOOL",
		evidence: "DynamoDB Local compares the result of a condition, or answers 500; what AWS does is not known",
	},
	{
		name: "several sources (dynoxide)", witness: nameDynoxide, ops: ".*Statement|ExecuteTransaction", stator: "ValidationException: Only select from a single table or index is supported.",
		evidence: "DynamoDB Local, which has Amazon's own PartiQL library, refuses the statement, too",
	},
	{
		name: "which statement of a transaction is reported", alone: true, ops: "ExecuteTransaction", stator: "ValidationException: Validation failed in TransactStatements.*",
		when:     func(f *finding) bool { return count(f.Step.Body["TransactStatements"]) > 1 && !f.Other.ok() },
		evidence: "which fault of several statements is reported is not known; DynamoDB Local checks the keys of the first statement before it looks at the second",
	},
	{
		name: "nested paths of keys in a statement", witness: nameLocal, ops: "ExecuteStatement|ExecuteTransaction",
		other: `ValidationException: (?:Validation failed in TransactStatements\[\d+\]: )?Key attributes must be scalars.*: Key:? \S+`,
		when: func(f *finding) bool {
			name := f.Other.Text[strings.LastIndex(f.Other.Text, " ")+1:]
			path, err := regexp.Compile(`\b` + regexp.QuoteMeta(name) + `(?:\\")? *[.\[]`)
			return err == nil && path.MatchString(f.Step.text())
		},
		evidence: "not known for statements; dynoxide has stator's answer",
	},
	{
		name: "a missing key and several conditions on another (DynamoDB Local)", witness: nameLocal, ops: "ExecuteStatement", stator: "ValidationException: Where clause does not contain a mandatory equality on all key attributes", other: `ValidationException: Multiple conditions on same key \S+\. Only single item Update/Insert/Delete are supported`,
		evidence: "dynoxide, whose answers were recorded on AWS, has stator's message for the statements that it parses",
	},
	{
		name: "a clause in place of a value", witness: nameLocal, ops: ".*Statement|ExecuteTransaction", stator: "ValidationException: Only select from a single table or index is supported.", other: "ValidationException: Statement wasn't well formed.*",
		evidence: "SET a = SET b = 1 is refused by both; which message AWS has is not known",
	},
	{
		name: "names that begin with a colon or a number sign", witness: nameLocal, ops: ".*Statement|ExecuteTransaction",
		other: `ValidationException: (?:Validation failed in TransactStatements\[\d+\]: )?An expression attribute name used in the document path is not defined; attribute name: [:#].*`,
		when: func(f *finding) bool {
			_, name, _ := strings.Cut(f.Other.Text, "attribute name: ")
			return strings.Contains(f.Step.text(), `\"`+name)
		},
		evidence: "DynamoDB Local turns statements into expressions, and takes the name, which is in quotes, for a placeholder",
	},
	{
		name: "words of a fault in a statement", witness: nameLocal, ops: ".*Statement|ExecuteTransaction", stator: "ValidationException: (?:Unsupported data type|Unrecognized function).*", other: "ValidationException: (?:Unsupported data type|Unrecognized function).*",
		evidence: "the same fault; DynamoDB Local prints the operand as its parser holds it",
	},
}
