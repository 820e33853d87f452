package main

import (
	"regexp"
	"strings"
)

// emptyIndexKey matches the fault of an empty value for a key of an index.
const emptyIndexKey = `ValidationException: One or more parameter values are not valid\. A value specified for a secondary index key is not supported\. The AttributeValue for a key attribute cannot contain an empty (?:string|binary) value\. IndexName: \S+, IndexKey: \S+`

// nullExpected begins DynamoDB Local's message for a null in Expected.
const nullExpected = "ExpectedAttributeValue must not be null for Attribute: "

// notUnits matches all places but those of consumed capacity.
const notUnits = `[^C].*|C(?:[^o]|o[^n]).*`

// spacedIndex matches an index of a list with a space.
var spacedIndex = regexp.MustCompile(`\[ +\d|\[\d+ +\]`)

// itemFaults are differences in expressions, items, queries and transactions.
var itemFaults = []known{
	{
		name: "tags", witness: nameLocal, ops: ".*[Tt]ag.*", other: "UnknownOperationException.*",
		evidence: "DynamoDB Local has no tags",
	},
	{
		name: "resources of tags (dynoxide)", witness: nameDynoxide, ops: ".*[Tt]ag.*", stator: "(?:AccessDenied|ResourceNotFound)Exception.*", other: "(?:AccessDenied|ResourceNotFound)Exception.*",
		evidence: "a missing table of another account is denied (docs/differences.md); dynoxide has its own messages for ARNs",
	},
	{
		name: "message of a failed ConditionCheck", witness: nameLocal, ops: "TransactWriteItems|ExecuteTransaction", places: `CancellationReasons\[\]\.Message`,
		when: func(f *finding) bool {
			return strings.ReplaceAll(plainNumbers(f.Other.Body), "request failed.", "request failed") == plainNumbers(f.Stator.Body)
		},
		evidence: "AWS: The conditional request failed, without a full stop (conformance suite)",
	},
	{
		name: "sizes of item collections", alone: true, places: `ItemCollectionMetrics.*`,
		evidence: "AWS returns estimates in whole gigabytes ([0, 1]; API reference); DynamoDB Local returns none, dynoxide exact sizes",
	},
	{
		name: "first fault of an update's execution", alone: true, ops: "UpdateItem", stator: executionFault, other: executionFault,
		evidence: "which of several faults is met first when an update is carried out is not known (no recording on AWS)",
	},
	{
		name: "fault of an update in a transaction", witness: nameLocal, ops: "TransactWriteItems|ExecuteTransaction", stator: "TransactionCanceledException: .*ValidationError.*", other: executionFault + "|ValidationException: Item size .*|ValidationException: One or more parameter values .*",
		evidence: "AWS cancels the transaction with the reason ValidationError (API reference); DynamoDB Local rejects the request",
	},
	{
		name: "reasons after an action that is not valid", alone: true, ops: "TransactWriteItems|ExecuteTransaction",
		stator: `TransactionCanceledException: .*ValidationError.*`, other: "TransactionCanceledException: .*", places: `outcome|CancellationReasons.*`,
		when:     endsAtInvalid,
		evidence: "not decided (docs/differences.md): stator ends the evaluation at the first action that is not valid, the witnesses give reasons for the later ones",
	},
	{
		name: "reasons of a transaction with an invalid action (dynoxide)", witness: nameDynoxide, ops: "TransactWriteItems|ExecuteTransaction",
		stator: `TransactionCanceledException: .*ValidationError.*`, other: "TransactionCanceledException: .*", places: `outcome|CancellationReasons.*`,
		when:     sameReasons,
		evidence: "dynoxide has messages of its own for updates that are not valid, and ignores some paths",
	},
	{
		name: "bounds of a query's start key", ops: "Query", stator: "ValidationException: The (?:provided starting key is outside query boundaries|query can return at most one row).*",
		when:     func(f *finding) bool { return f.Step.Body["ExclusiveStartKey"] != nil },
		evidence: "AWS's messages (dynalite, which was held against AWS); DynamoDB Local has others, dynoxide does not check",
	},
	{
		name: "binary bounds of BETWEEN", alone: true, stator: "ValidationException: .*The BETWEEN operator requires upper bound.*", other: "ValidationException: .*The BETWEEN operator requires upper bound.*",
		when:     func(f *finding) bool { return strings.Contains(f.Stator.Text, "{B:") },
		evidence: "the form of binaries in this message is not known; DynamoDB Local prints the name of a Java class",
	},
	{
		name: "dynoxide alone", witness: nameDynoxide, agreed: true, places: notUnits, ops: "UpdateItem|PutItem|DeleteItem|GetItem|Query|Scan|Batch.*Item|Transact.*Items",
		evidence: "stator's answer is that of DynamoDB Local, which has Amazon's own expression library",
	},
	{
		name: "removal from a missing item", alone: true, ops: "UpdateItem|TransactWriteItems", places: "outcome|Attributes only in the second", stator: "200", other: "200|" + executionFault,
		when:     func(f *finding) bool { return removes(f.Step) && f.Stator.Body["Attributes"] == nil },
		evidence: "an update that only removes is ignored if there is no item (tests of Scylla's Alternator that run on AWS); the witnesses create an item, or report its paths",
	},
	{
		name: "units of a removal from a missing item", alone: true, ops: "UpdateItem|TransactWriteItems", places: "ConsumedCapacity.*", stator: "200", other: "200",
		when:     func(f *finding) bool { return removes(f.Step) && ignoredUnits(f) },
		evidence: "an update that is ignored costs one unit, and nothing for indexes; the witnesses charge the item that they create",
	},
	{
		name: "units of pages (dynoxide)", witness: nameDynoxide, ops: "Query|Scan", places: "ConsumedCapacity only in the first", agreed: true,
		when:     func(f *finding) bool { return f.Step.Pages && f.Step.Body["Limit"] != nil },
		evidence: "dynoxide has one page more, and units are not compared if there are several pages",
	},
	{
		name: "which overlapping paths are named", alone: true, stator: "ValidationException: .*Two document paths overlap.*", other: "ValidationException: .*Two document paths overlap.*",
		evidence: "Amazon's library goes through a hash table (docs/differences.md)",
	},
	{
		name: "attributes of AttributeUpdates", witness: nameLocal, ops: "UpdateItem", places: "Attributes.*", agreed: true,
		when:     func(f *finding) bool { return f.Step.Body["AttributeUpdates"] != nil },
		evidence: "dynoxide's answer is stator's; DynamoDB Local omits empty lists and maps",
	},
	{
		name: "filter on attributes that an index does not project", witness: nameLocal, ops: "Scan|Query", places: "Count|Items|ScannedCount|ConsumedCapacity.*", agreed: true,
		when:     func(f *finding) bool { return f.Step.Body["IndexName"] != nil },
		evidence: "DynamoDB Local filters with the attributes of the table; an index has only what it projects (developer guide)",
	},
	{
		name: "update whose path does not exist (dynoxide)", witness: nameDynoxide, ops: "UpdateItem|TransactWriteItems", stator: executionFault + "|TransactionCanceledException: .*ValidationError.*",
		when: func(f *finding) bool {
			return f.Third != nil && matches(executionPattern, f.Third.bare()) && (f.Other.Code != "TransactionCanceledException" || sameReasons(f))
		},
		evidence: "DynamoDB Local, which has Amazon's own expression library, reports a fault as stator does; dynoxide ignores some paths",
	},
	{
		name: "message for a missing key in a transaction", witness: nameLocal, ops: "TransactGetItems|TransactWriteItems", agreed: true,
		evidence: "dynoxide's answer is stator's; DynamoDB Local puts its own message in place of the reasons",
	},
	{
		name: "start key of a table without a sort key", alone: true, ops: "Query", stator: "ValidationException: The provided exclusive start key is invalid.*",
		when:     func(f *finding) bool { return f.Step.Body["ExclusiveStartKey"] != nil },
		evidence: "conformance/query: a table without a sort key has no key to begin after",
	},
	{
		name: "empty set in an expression's values", alone: true, stator: "ValidationException: One or more parameter values were invalid: An (?:string|number|binary) set  may not be empty",
		other:    "ValidationException: ExpressionAttributeValues contains invalid value: .* set  may not be empty for key .*",
		evidence: "recorded on AWS in August 2026: this message has no prefix",
	},
	{
		name: "prefix of a value that is no number (dynoxide)", witness: nameDynoxide, stator: "ValidationException: ExpressionAttributeValues contains invalid value: The parameter cannot be converted.*",
		other:    "ValidationException: The parameter cannot be converted to a numeric value: .*",
		evidence: "DynamoDB Local, which has Amazon's own expression library, and dynalite have the prefix",
	},
	{
		name: "action of a transaction that is missing", ops: "TransactWriteItems", stator: "ValidationException: TransactItems can only contain one of Check, Put, Update or Delete",
		evidence: "the message is on public record; the witnesses have their own",
	},
	{
		name: "expressions before table, index and keys", ops: "Query|Scan|GetItem|BatchGetItem|UpdateItem|PutItem|DeleteItem|Transact.*", stator: "ValidationException: Invalid .*Expression: .*",
		other:    "(?:ValidationException: (?:One or more parameter values|The table does not have|The provided key|Provided list of item keys|The number of conditions|Missing the key|One of the required|Cannot update|Type mismatch|Query key condition|Transaction request).*|ResourceNotFoundException.*|ConditionalCheckFailedException.*|TransactionCanceledException.*)",
		evidence: "not known: stator and dynalite check expressions before table, index and keys, the witnesses after them",
	},
	{
		name: "expressions before the values of keys", alone: true, ops: "GetItem|UpdateItem|DeleteItem", stator: "ValidationException: Invalid (?:Projection|Condition|Update)Expression: .*",
		other:    `ValidationException: (?:One or more parameter values are not valid\. The AttributeValue for a key attribute cannot contain an empty (?:string|binary) value\. Key: \S+|The provided key element does not match the schema)`,
		evidence: "not decided (docs/differences.md): stator and dynalite check expressions before the key, the witnesses after it",
	},
	{
		name: "which table of a BatchGetItem is first (DynamoDB Local)", witness: nameLocal, ops: "BatchGetItem", stator: "ValidationException: Invalid ProjectionExpression: .*", other: "ValidationException: Invalid ProjectionExpression: .*", agreed: true,
		when: func(f *finding) bool {
			tables, _ := f.Step.Body["RequestItems"].(object)
			return len(tables) > 1
		},
		evidence: "dynoxide has stator's message; DynamoDB Local goes through a hash table",
	},
	{
		name: "which of several invalid names (dynoxide)", witness: nameDynoxide, stator: `ValidationException: ExpressionAttributeNames contains invalid key: Syntax error; key: ".*"`, other: `ValidationException: ExpressionAttributeNames contains invalid key: Syntax error; key: ".*"`,
		when: func(f *finding) bool {
			names, _ := f.Step.Body["ExpressionAttributeNames"].(object)
			return len(names) > 1
		},
		evidence: "names come from a map, which has no order",
	},
	{
		name: "prefix of an empty value (dynoxide)", witness: nameDynoxide, stator: "ValidationException: ExpressionAttributeValues contains invalid value: Supplied AttributeValue is empty, must contain exactly one of the supported datatypes for key .*", other: "ValidationException: Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
		evidence: "DynamoDB Local, which has Amazon's own expression library, has the prefix if the table exists",
	},
	{
		name: "sizes of stream records", witness: nameDynoxide, ops: readStream, places: "Records",
		when: func(f *finding) bool {
			return f.Third != nil && withoutEmptyMaps(f.Stator) == withoutEmptyMaps(*f.Third) || withoutSizes(f.Stator) == withoutSizes(f.Other)
		},
		evidence: "SizeBytes is the size of keys and images (API reference), as DynamoDB Local has it; dynoxide counts the JSON",
	},
	{
		name: "empty maps in streams", witness: nameLocal, ops: readStream, places: "Records",
		when: func(f *finding) bool {
			return withoutEmptyMaps(f.Stator) == withoutEmptyMaps(f.Other)
		},
		evidence: "a value has a type (API reference); DynamoDB Local omits that of an empty map",
	},
	{
		name: "items of transactional reads (dynoxide)", witness: nameDynoxide, ops: "TransactGetItems", places: `Responses\[\]\.Item.*`,
		when:     func(f *finding) bool { return f.Third != nil && withoutEmpty(f.Stator) == withoutEmpty(*f.Third) },
		evidence: "DynamoDB Local's items are stator's; dynoxide adds keys to a projection",
	},
	{
		name: "empty item of a projection among others", witness: nameLocal, ops: "TransactGetItems", places: `Responses\[\]\.Item.*`,
		when:     func(f *finding) bool { return withoutEmpty(f.Stator) == withoutEmpty(f.Other) },
		evidence: "the API returns no Item if there is nothing to return; DynamoDB Local returns an empty one",
	},
	{
		name: "value placeholder in a path", stator: `ValidationException: Invalid .*Expression: Syntax error; token: ":.*", near: "\..*`,
		evidence: "Amazon's grammar takes a.:v as a path, and DynamoDB Local then fails with \"Internal server error\"; what the service answers is not known",
	},
	{
		name: "reserved word size", alone: true, stator: "ValidationException: Invalid .*Expression: Attribute name is a reserved keyword; reserved keyword: size",
		evidence: "SIZE is on the list of reserved words (developer guide); DynamoDB Local takes it, since its grammar knows it as a function",
	},
	{
		name: "projection or duplicate keys first", alone: true, ops: "TransactGetItems|BatchGetItem", other: "ValidationException: (?:Transaction request cannot include multiple|Provided list of item keys contains duplicates).*",
		stator:   "ValidationException: .*Expression.*",
		evidence: "not known: stator and dynalite check expressions first, the witnesses keys",
	},
	{
		name: "key condition or filter first", alone: true, ops: "Query", stator: "ValidationException: Invalid KeyConditionExpression: .*", other: "ValidationException: (?:Invalid (?:FilterExpression|ProjectionExpression|KeyConditionExpression): )?.*",
		when: func(f *finding) bool {
			return f.Step.Body["FilterExpression"] != nil || f.Step.Body["ProjectionExpression"] != nil
		},
		evidence: "not known: stator and dynalite bind the key condition first, the witnesses the others",
	},
	{
		name: "nested paths of keys in a ConditionCheck", alone: true, ops: "TransactWriteItems", stator: "ValidationException: Key attributes must be scalars.*", other: "200|TransactionCanceledException: .*",
		when:     func(f *finding) bool { return strings.Contains(f.Step.text(), `"ConditionCheck"`) },
		evidence: "not known; DynamoDB Local has the message for all other actions and operations with a condition, dynoxide only for Scan and Query",
	},
	{
		name: "nested paths of keys in a transaction's condition", ops: "TransactWriteItems", stator: "ValidationException: Key attributes must be scalars.*",
		evidence: "DynamoDB Local has the message for Put, Update and Delete, dynoxide only for Scan and Query",
	},
	{
		name: "names of types in attribute_type", stator: "ValidationException: .*Invalid attribute type name found.*",
		evidence: "the list comes from a hash table (docs/differences.md); dynoxide does not check the name",
	},
	{
		name: "number of key conditions", ops: "Query", stator: "ValidationException: Conditions can be of length 1 or 2 only",
		when:     func(f *finding) bool { return f.Step.Body["KeyConditions"] != nil },
		evidence: "dynalite, which was held against AWS",
	},
	{
		name: "type of a key in a transaction", witness: nameLocal, ops: "Transact.*Items", places: `CancellationReasons\[\]\.Message`, agreed: true,
		evidence: "dynoxide has stator's message",
	},
	{
		name: "text of a token's mismatch", ops: "TransactWriteItems|ExecuteTransaction", stator: "IdempotentParameterMismatchException.*", other: "IdempotentParameterMismatchException.*",
		evidence: "AWS's text is not known",
	},
	{
		name: "text of duplicates in a set", stator: "ValidationException: .*Input collection.* contains duplicates.*",
		evidence: "AWS prints the collection (conformance suite); DynamoDB Local prints no binaries, dynoxide does not check all values",
	},
	{
		name: "order of attributes that an index does not project", witness: nameLocal, stator: "ValidationException: .*does not project .*", other: "ValidationException: .*does not project .*",
		evidence: "a list from a hash table (docs/differences.md)",
	},
	{
		name: "filter attributes that an index does not project (dynoxide)", witness: nameDynoxide, stator: "ValidationException: .*does not project .*", other: "200|ValidationException: .*Select type ALL_ATTRIBUTES is not supported.*",
		when: func(f *finding) bool {
			return text(f, "IndexName") != "" && f.Third != nil && strings.Contains(f.Third.Text, "does not project")
		},
		evidence: "DynamoDB Local and dynalite have the message",
	},
	{
		name: "nested paths in a key condition", witness: nameLocal, stator: "ValidationException: Invalid KeyConditionExpression: .*", other: "ValidationException: Key attributes must be scalars.*",
		evidence: "dynoxide has stator's message; DynamoDB Local has another check before it",
	},
	{
		name: "notation of numbers within lists", places: "Item.*|Items.*|Attributes.*|Responses.*|Records", witness: nameLocal,
		when:     func(f *finding) bool { return plainNumbers(f.Stator.Body) == plainNumbers(f.Other.Body) },
		evidence: "AWS trims zeros of all numbers (developer guide); DynamoDB Local keeps them within lists and maps",
	},
	{
		name: "items that DynamoDB Local leaves unprocessed", witness: nameLocal, ops: "BatchWriteItem", places: "UnprocessedItems.*",
		evidence: "an error of SQLite; any item may be unprocessed",
	},
	{
		name: "faults of legacy conditions (dynoxide)", witness: nameDynoxide, stator: "ValidationException: .*",
		when: func(f *finding) bool {
			b := f.Step.Body
			return b["Expected"] != nil || b["ScanFilter"] != nil || b["QueryFilter"] != nil || b["KeyConditions"] != nil || b["AttributeUpdates"] != nil
		},
		evidence: "dynoxide turns legacy conditions into expressions and does not check them by themselves; DynamoDB Local rejects the request, too",
	},
	{
		name: "updated elements of lists and maps", alone: true, ops: "UpdateItem", places: "Attributes",
		when:     func(f *finding) bool { return strings.HasPrefix(text(f, "ReturnValues"), "UPDATED_") },
		evidence: "UPDATED_OLD and UPDATED_NEW return only the changed elements (tests of Scylla's Alternator that run on AWS, dynoxide's change log); DynamoDB Local returns the whole attribute, dynoxide whole lists",
	},
	{
		name: "types of attribute_type's operand", stator: "ValidationException: .*operator or function: attribute_type, operand type: .*",
		evidence: "the list comes from a hash table (docs/differences.md)",
	},
	{
		name: "syntax errors (dynoxide)", witness: nameDynoxide, stator: "ValidationException: Invalid .*Expression: Syntax error; .*", other: "ValidationException: (?:Invalid .*Expression: |Expected |Unexpected ).*",
		evidence: "DynamoDB Local, which has Amazon's own expression library, has stator's text for the same expression on a table that exists",
	},
	{
		name: "spaces in an index of a list (dynoxide)", alone: true, witness: nameDynoxide, other: "ValidationException: (?:1 validation error detected: )?Invalid .*Expression: Syntax error; .*",
		when:     func(f *finding) bool { return spacedIndex.MatchString(f.Step.text()) },
		evidence: "DynamoDB Local, which has Amazon's own expression library, parses l[ 2]",
	},
	{
		name: "missing keys in a transaction", witness: nameLocal, ops: "TransactWriteItems", stator: "TransactionCanceledException: .*ValidationError.*", other: "ValidationException: (?:One of the required keys|The number of conditions on the keys).*",
		evidence: "AWS cancels the transaction with the reason ValidationError (API reference, dynoxide)",
	},
	{
		name: "empty key in a query (dynoxide)", witness: nameDynoxide, ops: "Query", stator: "ValidationException: One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty .*",
		evidence: "DynamoDB Local has the message, and for indexes it is on public record; dynoxide does not check the value",
	},
	{
		name: "empty binary set in an expression's values", alone: true, stator: "ValidationException: One or more parameter values were invalid: Binary sets should not be empty",
		evidence: "recorded on AWS in August 2026: the message of an empty set has no prefix",
	},
	{
		name: "empty set within a value (dynoxide)", witness: nameDynoxide, stator: "ValidationException: One or more parameter values were invalid: An .* set  may not be empty",
		evidence: "DynamoDB Local refuses it, too",
	},
	{
		name: "key condition on nested attributes", ops: "Query", stator: "ValidationException: Invalid KeyConditionExpression: KeyConditionExpressions cannot have conditions on nested attributes",
		evidence: "DynamoDB Local refuses it with its own message; the order against Select is not known",
	},
	{
		name: "a value that is no number (dynoxide)", witness: nameDynoxide, stator: "ValidationException: ExpressionAttributeValues contains invalid value: The parameter cannot be converted.*",
		evidence: "DynamoDB Local, which has Amazon's own expression library, has the prefix",
	},
	{
		name: "returned items of a statement (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement", places: "Items only in the first",
		when: func(f *finding) bool {
			return f.Third != nil && !f.Third.ok() && count(f.Stator.Body["Items"]) == 0 && !strings.HasPrefix(strings.ToUpper(statementText(f)), "SELECT")
		},
		evidence: "the reply to a write has an empty list of items, as in DynamoDB Local, which refused the statement here; dynoxide has none",
	},
	{
		name: "start key at the end of a range", witness: nameLocal, ops: "Query", agreed: true, stator: "200", other: "ValidationException: The provided starting key does not match the range key predicate",
		evidence: "dynoxide's answer is stator's",
	},
	{
		name: "start key that does not fit", ops: "Query", stator: "ValidationException: The provided starting key is invalid: .*",
		when:     func(f *finding) bool { return f.Step.Body["ExclusiveStartKey"] != nil },
		evidence: "dynalite has the message; DynamoDB Local has another check before it, dynoxide none",
	},
	{
		name: "types and binaries in the bounds of BETWEEN", stator: "ValidationException: .*The BETWEEN operator requires .*",
		when: func(f *finding) bool {
			return strings.Contains(f.Stator.Text, "{B:") && (f.Witness == nameDynoxide || strings.Contains(f.Other.Text, "java.nio"))
		},
		evidence: "DynamoDB Local has the message with the name of a Java class in place of the bytes; dynoxide does not check the types",
	},
	{
		name: "size of an item with entries in local indexes", witness: nameLocal, stator: "ConditionalCheckFailedException.*|200|TransactionCanceledException.*|ValidationException: Invalid ConditionExpression: .*", other: "ValidationException: Item size has exceeded the maximum allowed size",
		evidence: "not known: whether the condition or the size with entries of local indexes is checked first",
	},
	{
		name: "notation of numbers in a cancelled transaction", witness: nameLocal, places: `CancellationReasons\[\]\.Item|Item`,
		when: func(f *finding) bool {
			return strings.ReplaceAll(plainNumbers(f.Other.Body), "request failed.", "request failed") == plainNumbers(f.Stator.Body)
		},
		evidence: "AWS trims zeros of all numbers (developer guide); DynamoDB Local keeps them within lists and maps",
	},
	{
		name: "empty prefix of a sort key", witness: nameLocal, ops: "Query", agreed: true, stator: "200", other: "ValidationException: .*cannot contain an empty .* value.*",
		evidence: "not known: begins_with(sk, '') is accepted by stator and dynoxide",
	},
	{
		name: "operand in two pairs of parentheses", witness: nameLocal, stator: "ValidationException: Invalid .*Expression: The expression has redundant parentheses;", other: "ValidationException: Invalid .*Expression: Syntax error; .*",
		evidence: "((a)) is refused by both; DynamoDB Local reports that the expression ends too early, dynoxide has stator's message",
	},
	{
		name: "expressions before ConsistentRead of an index", alone: true, ops: "Scan|Query", stator: "ValidationException: (?:Invalid .*Expression: .*|ExpressionAttributeNames contains invalid key: .*|ExpressionAttributeValues contains invalid value: .*)", other: "ValidationException: (?:Consistent reads are not supported on global|The table does not have the specified index|ExpressionAttributeValues can only be specified).*",
		evidence: "not known: stator and dynalite check expressions first",
	},
	{
		name: "expressions before Select (dynoxide)", witness: nameDynoxide, ops: "Query|Scan", stator: "ValidationException: Invalid .*Expression: (?:Syntax error; |The BETWEEN operator requires ).*", other: "ValidationException: (?:Must specify the AttributesToGet|Cannot specify the |ALL_PROJECTED_ATTRIBUTES ).*",
		evidence: "DynamoDB Local, which has Amazon's own expression library, reports the expression first if the table exists",
	},
	{
		name: "names of tables before legacy parameters (DynamoDB Local)", witness: nameLocal, ops: "Scan|Query|PutItem|UpdateItem|DeleteItem|GetItem", stator: "ValidationException: .*", other: "ValidationException: Invalid table/index name.*",
		when:     func(f *finding) bool { return len(text(f, "TableName")) < 3 },
		evidence: "TableName takes 1 to 1,024 characters since ARNs are accepted (API reference), so that a short name is a missing table, and faults of the request by itself come before it",
	},
	{
		name: "index entries that need two keys (DynamoDB Local)", witness: nameLocal, ops: "PutItem", places: `ConsumedCapacity\.(?:CapacityUnits|GlobalSecondaryIndexes only in the second|GlobalSecondaryIndexes\.\* only in the second)`,
		when: func(f *finding) bool {
			return f.Third != nil && strings.Contains(f.Third.Text, "attribute name: #expected_") && chargesMoreIndexes(f)
		},
		evidence: "an item without one of an index's key attributes has no entry in it (developer guide), which costs nothing; DynamoDB Local charges the index, and dynoxide does not find the attribute of the condition",
	},
	{
		name: "units of indexes in a transaction (DynamoDB Local)", witness: nameLocal, ops: "TransactWriteItems", places: `ConsumedCapacity\[\]\.(?:CapacityUnits|(?:Local|Global)SecondaryIndexes\.\*\.CapacityUnits)`,
		when: func(f *finding) bool {
			return f.Third != nil && !f.Third.ok() && (chargesIndexesTwice(f) || mayChargeIndexesTwice(f))
		},
		evidence: "the factor of two of a transaction is for the table (dynoxide's change log, recorded on AWS); DynamoDB Local charges indexes twice, too, and dynoxide refused the token of the transaction",
	},
	{
		name: "overlapping paths (dynoxide)", witness: nameDynoxide, stator: "ValidationException: .*Two document paths (?:overlap|conflict) with each other.*",
		when:     func(f *finding) bool { return f.Third != nil && strings.Contains(f.Third.Text, "Two document paths") },
		evidence: "DynamoDB Local, which has Amazon's own expression library, reports the paths, too",
	},
	{
		name: "numbers with a fraction in place of integers (dynoxide)", witness: nameDynoxide, agreed: true, stator: "200", other: "SerializationException: floating point.*|ValidationException: invalid type: floating point.*",
		evidence: "the service takes the integer part (conformance/wire/numbers.txt); DynamoDB Local accepts the number, too",
	},
	{
		name: "names of attributes in legacy conditions (dynoxide)", witness: nameDynoxide, other: "ValidationException: .*attribute name: #(?:expected|qf)_.*",
		evidence: "dynoxide turns legacy conditions into expressions, and does not find names with dots",
	},
	{
		name: "NOT_CONTAINS of a missing attribute (dynoxide)", witness: nameDynoxide, ops: "PutItem|UpdateItem|DeleteItem", stator: "ConditionalCheckFailedException: .*", other: "200",
		when: func(f *finding) bool {
			return strings.Contains(canonical(f.Step.Body["Expected"]), `"NOT_CONTAINS"`) &&
				f.Third != nil && (strings.HasPrefix(f.Third.Text, "Item size") || strings.Contains(f.Third.Text, nullExpected))
		},
		evidence: "the condition does not hold if there is no attribute, as in DynamoDB Local, which here reports the size of the item with entries of local indexes, or a null in the request",
	},
	{
		name: "units of a removed item in a local index (DynamoDB Local)", witness: nameLocal, ops: "DeleteItem|PutItem|UpdateItem", places: `ConsumedCapacity\.(?:CapacityUnits|LocalSecondaryIndexes\.\*\.CapacityUnits)`,
		when: func(f *finding) bool {
			return f.Third != nil && strings.Contains(f.Third.Text, "attribute name: #expected_") && units(f.Other) == units(f.Stator)+1
		},
		evidence: "dynoxide's figures, which were recorded on AWS, are stator's for legacy conditions on names without a dot; DynamoDB Local charges an entry near the limit of a unit one unit more",
	},
	{
		name: "null in a legacy condition (DynamoDB Local)", witness: nameLocal, ops: "PutItem|UpdateItem|DeleteItem", stator: "ConditionalCheckFailedException: .*", other: "ValidationException: .*" + nullExpected + ".*",
		when:     func(f *finding) bool { return hasNull(f.Step.Body) },
		evidence: "not known (docs/differences.md): a null member of a map is absent, or refused",
	},
	{
		name: "size of an item with entries in several local indexes", alone: true, ops: "PutItem|UpdateItem|BatchWriteItem|TransactWriteItems|ExecuteStatement", stator: "ValidationException: Item size .*", other: "200",
		when:     func(f *finding) bool { return len(f.Step.text()) > 400_000 },
		evidence: "the limit of 400 KB is for the item and its entries in all local indexes (quotas in the developer guide); the witnesses accept an item that is a few bytes above it",
	},
	{
		name: "legacy parameters: values before types", alone: true, ops: "UpdateItem", stator: "ValidationException: .*(?:contains duplicates|set  may not be empty).*", other: "ValidationException: Type mismatch for attribute to update",
		when:     func(f *finding) bool { return f.Step.Body["AttributeUpdates"] != nil },
		evidence: "dynalite, which was held against AWS, checks the values before it reads the item, and types with the item that it has read",
	},
	{
		name: "the token of another transaction, and a fault", ops: "TransactWriteItems|ExecuteTransaction", stator: "ValidationException: .*|ResourceNotFoundException: .*|TransactionCanceledException: .*ValidationError.*", other: "IdempotentParameterMismatchException.*",
		evidence: "not known (docs/differences.md): stator finds the fault before it looks up the token",
	},
	{
		name: "old attributes of an item that did not exist (dynoxide)", witness: nameDynoxide, ops: "UpdateItem", places: "Attributes only in the second", stator: "200",
		when: func(f *finding) bool {
			return text(f, "ReturnValues") == "ALL_OLD" && canonical(f.Other.Body["Attributes"]) == canonical(f.Step.Body["Key"])
		},
		evidence: "there are no old attributes (API reference), as in DynamoDB Local; dynoxide returns the key",
	},
	{
		name: "null in AttributeUpdates (dynoxide)", witness: nameDynoxide, ops: "UpdateItem", stator: "200", other: "ValidationException: invalid type: null.*",
		when:     func(f *finding) bool { return hasNull(f.Step.Body) },
		evidence: "what AWS does with a null member of a map is not known",
	},
	{
		name: "expressions before the table or the index (dynoxide)", witness: nameDynoxide, ops: "Query|PutItem|UpdateItem|DeleteItem", stator: "ValidationException: Invalid (KeyC|C)onditionExpression: An expression attribute .* is not defined.*", other: "ValidationException: An expression attribute .* is not defined.*",
		evidence: "AWS has the prefix (conformance/query/errors.txt); DynamoDB Local has it, if the table and the index exist",
	},
	{
		name: "tokens of large transactions (DynamoDB Local)", witness: nameLocal, ops: "TransactWriteItems|ExecuteTransaction", stator: "IdempotentParameterMismatchException: .*", other: "200|ValidationException: .*",
		when:     func(f *finding) bool { return f.Third != nil && f.Third.Code == f.Stator.Code },
		evidence: "dynoxide reports the mismatch, too",
	},
	{
		name: "constraints before conditions of a transaction (DynamoDB Local)", witness: nameLocal, ops: "TransactWriteItems", stator: `ValidationException: .*Member must not be null.*`, other: "200|TransactionCanceledException: .*",
		when: func(f *finding) bool {
			return f.Third != nil && (strings.Contains(f.Third.Text, "missing field") || strings.Contains(f.Third.Text, "invalid type: null"))
		},
		evidence: "the member is required by the API's model, which AWS checks first; dynoxide refuses the request, too",
	},
	{
		name: "an update of a key before the condition", alone: true, ops: "UpdateItem|TransactWriteItems|ExecuteStatement|ExecuteTransaction", stator: "ValidationException: .*Cannot update attribute .* This attribute is part of the key|TransactionCanceledException: .*ValidationError.*", other: "ConditionalCheckFailedException: .*|TransactionCanceledException: .*", places: "outcome|TableName only in the second",
		when: func(f *finding) bool {
			return strings.Contains(f.Stator.Text+canonical(f.Stator.Body["CancellationReasons"]), "Cannot update attribute")
		},
		evidence: "not known (docs/differences.md): the request can never succeed",
	},
	{
		name: "faults of expressions before unused names (dynoxide)", witness: nameDynoxide, stator: "ValidationException: Invalid .*Expression: (?:The expression has redundant parentheses;|Syntax error; .*)", other: "ValidationException: Value provided in ExpressionAttribute(?:Names|Values) unused in expressions.*",
		evidence: "DynamoDB Local, which has Amazon's own expression library, reports the fault of the expression first if the table exists",
	},
	{
		name: "checks before the table is looked up", ops: "Scan|Query|.*Item.*", witness: nameLocal, stator: "ValidationException: .*", other: "ResourceNotFoundException: .*",
		evidence: "faults of a request by itself are reported before the table is looked up (conformance/put_item/order.txt, after dynalite)",
	},
	{
		name: "index of an empty key", alone: true, ops: "PutItem|BatchWriteItem|UpdateItem|ExecuteStatement", stator: emptyIndexKey, other: emptyIndexKey,
		when: func(f *finding) bool {
			_, s, _ := strings.Cut(f.Stator.Text, "IndexKey: ")
			_, o, _ := strings.Cut(f.Other.Text, "IndexKey: ")
			return s == o
		},
		evidence: "which of several indexes on one attribute is named is not known; the witnesses name others, too",
	},
	{
		name: "index in a type mismatch", ops: "PutItem|UpdateItem|BatchWriteItem|Transact.*|ExecuteStatement|ExecuteTransaction", stator: "ValidationException: .*Type mismatch for Index Key .*", other: "ValidationException: .*Type mismatch for Index Key.*",
		evidence: "which of several indexes is named is not known; DynamoDB Local names none",
	},
	{
		name: "message of a statement or action in a cancelled transaction", witness: nameLocal, ops: "TransactWriteItems|ExecuteTransaction", stator: "TransactionCanceledException: .*", other: "TransactionCanceledException: .*", places: `outcome|CancellationReasons\[\]\.Message`,
		when:     func(f *finding) bool { return strings.Contains(f.Stator.Text, "ValidationError") },
		evidence: "DynamoDB Local has its own messages for keys and items that do not fit; AWS's are those of single requests (API reference)",
	},
	{
		name: "transaction that dynoxide carries out", witness: nameDynoxide, ops: "TransactWriteItems", stator: "TransactionCanceledException: .*ValidationError.*",
		when:     func(f *finding) bool { return f.Third != nil && !f.Third.ok() },
		evidence: "DynamoDB Local refuses the transaction, too",
	},
	{
		name: "size of an update", alone: true, ops: "UpdateItem", stator: "ValidationException: Item size to update has exceeded the maximum allowed size", other: "200",
		when: func(f *finding) bool {
			return f.Other.Body["ConsumedCapacity"] == nil || units(f.Other) >= maxItemUnits
		},
		evidence: "an update is charged for its actions, and limited 19 bytes and more below a put (dynoxide's change log of a later version, recorded on AWS; conformance/update_item/sizes.txt)",
	},
	{
		name: "items without a key in a batch (DynamoDB Local)", witness: nameLocal, ops: "BatchWriteItem", stator: "ValidationException: One or more parameter values were invalid: Missing the key .* in the item", other: "ValidationException: One of the required keys was not given a value",
		evidence: "AWS names the key, as dynoxide does for one such item (conformance/batch_write_item)",
	},
	{
		name: "items without a key in a batch (dynoxide)", witness: nameDynoxide, ops: "BatchWriteItem", stator: "ValidationException: One or more parameter values were invalid: Missing the key .* in the item", other: "ValidationException: Provided list of item keys contains duplicates",
		when: func(f *finding) bool {
			return f.Third != nil && f.Third.Text == "One of the required keys was not given a value"
		},
		evidence: "DynamoDB Local reports the key, too; dynoxide compares items without keys",
	},
	{
		name: "legacy key conditions before the index", alone: true, ops: "Query", stator: "ValidationException: The BETWEEN condition was provided a range where the lower bound is greater than the upper bound", other: "ValidationException: The table does not have the specified index: .*|ResourceNotFoundException: .*",
		evidence: "dynalite, which was held against AWS, checks legacy conditions before it looks up the table",
	},
	{
		name: "values of an expression before the item's size (DynamoDB Local)", witness: nameLocal, ops: "PutItem", stator: "ValidationException: ExpressionAttributeValues contains invalid value: .*", other: "ValidationException: Item size has exceeded the maximum allowed size",
		evidence: "dynoxide reports the value first, too; all have the size before faults of the expression itself",
	},
	{
		name: "Select before attributes that an index does not project (DynamoDB Local)", witness: nameLocal, ops: "Query|Scan", stator: "ValidationException: Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES", other: "ValidationException: .*does not project .*",
		evidence: "not known (docs/differences.md): stator checks Select first, because it needs no table",
	},
	{
		name: "expressions that dynoxide does not parse", witness: nameDynoxide, stator: "ValidationException: .*", other: "ValidationException: Invalid [A-Za-z]*Expression: (?:Expected |Unexpected ).*",
		when: func(f *finding) bool {
			return f.Third != nil && !f.Third.ok() && !strings.Contains(f.Third.Text, "Syntax error")
		},
		evidence: "DynamoDB Local, which has Amazon's own expression library, parses the expression, and refuses the request for another fault, as stator does",
	},
	{
		name: "legacy parameters: faults before the condition", alone: true, ops: "UpdateItem", stator: "ValidationException: .*(?:set  may not be empty|contains duplicates|Key attributes must be scalars|Only DELETE action is allowed).*", other: "ConditionalCheckFailedException: .*",
		evidence: "not known: an empty set in AttributeUpdates and a path into an index key are checked before the condition by stator and dynalite, after it by the witnesses",
	},
	{
		name: "words of legacy key conditions", ops: "Query", stator: "ValidationException: (?:Invalid KeyConditionExpression: )?(?:Query condition missed key schema element|KeyConditionExpressions must only contain one condition per key).*",
		evidence: "dynalite has stator's message; the witnesses have it without the name of the key or without the prefix",
	},
	{
		name: "null in a legacy filter", witness: nameDynoxide, places: "Count|Items|ScannedCount", when: func(f *finding) bool { return hasNull(f.Step.Body) },
		evidence: "what AWS does with a null member of a map is not known",
	},
	{
		name: "AttributeUpdates without an action", witness: nameLocal, ops: "UpdateItem", places: "ConsumedCapacity.*|Attributes.*",
		when:     func(f *finding) bool { return lacksAction(f.Step.Body) },
		evidence: "the default action is PUT (API reference); DynamoDB Local ignores the member",
	},
	{
		name: "values without a condition in a transaction", ops: "TransactWriteItems", stator: "ValidationException: ExpressionAttribute(?:Values|Names) can only be specified when using expressions.*",
		evidence: "DynamoDB Local refuses them with a text for each action; dynoxide cancels the transaction",
	},
}
