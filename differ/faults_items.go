package main

import "strings"

// itemFaults are differences in expressions, items, queries and transactions.
var itemFaults = []known{
	{
		name: "tags", witness: nameLocal, ops: ".*[Tt]ag.*", other: "UnknownOperationException.*",
		evidence: "DynamoDB Local has no tags",
	},
	{
		name: "resources of tags (dynoxide)", witness: nameDynoxide, ops: ".*[Tt]ag.*", stator: "(?:AccessDenied|Validation|ResourceNotFound)Exception.*", other: "(?:ResourceNotFound|Validation)Exception.*",
		evidence: "a missing table of another account is denied (docs/differences.md); dynoxide has its own messages for ARNs",
	},
	{
		name: "message of a failed ConditionCheck", witness: nameLocal, ops: "TransactWriteItems|ExecuteTransaction", places: `CancellationReasons\[\]\.Message`,
		when: func(f *finding) bool {
			return strings.ReplaceAll(canonical(f.Other.Body), "request failed.", "request failed") == canonical(f.Stator.Body)
		},
		evidence: "AWS: The conditional request failed, without a full stop (conformance suite)",
	},
	{
		name: "sizes of item collections", places: `ItemCollectionMetrics.*`,
		evidence: "AWS returns estimates in whole gigabytes ([0, 1]; API reference); DynamoDB Local returns none, dynoxide exact sizes",
	},
	{
		name: "first fault of an update's execution", ops: "UpdateItem", stator: executionFault, other: executionFault,
		evidence: "which of several faults is met first when an update is carried out is not known (no recording on AWS)",
	},
	{
		name: "fault of an update in a transaction", witness: nameLocal, ops: "TransactWriteItems|ExecuteTransaction", stator: "TransactionCanceledException: .*", other: executionFault + "|ValidationException: Item size .*|ValidationException: One or more parameter values .*",
		evidence: "AWS cancels the transaction with the reason ValidationError (API reference); DynamoDB Local rejects the request",
	},
	{
		name: "reasons of a transaction with an invalid action (dynoxide)", witness: nameDynoxide, ops: "TransactWriteItems|ExecuteTransaction",
		stator: `TransactionCanceledException: .*ValidationError.*`, other: "TransactionCanceledException: .*", places: `outcome|CancellationReasons.*`,
		evidence: "evaluation ends at the first action that is not valid, as in DynamoDB Local; dynoxide evaluates the others, and has messages of its own",
	},
	{
		name: "bounds of a query's start key", ops: "Query", stator: "ValidationException: The (?:provided starting key is outside query boundaries|query can return at most one row).*",
		evidence: "AWS's messages (dynalite, which was held against AWS); DynamoDB Local has others, dynoxide does not check",
	},
	{
		name: "binary bounds of BETWEEN", stator: "ValidationException: .*The BETWEEN operator requires upper bound.*", other: "ValidationException: .*The BETWEEN operator requires upper bound.*",
		when:     func(f *finding) bool { return strings.Contains(f.Stator.Text, "{B:") },
		evidence: "the form of binaries in this message is not known; DynamoDB Local prints the name of a Java class",
	},
	{
		name: "dynoxide alone", witness: nameDynoxide, agreed: true, places: ".*", ops: "UpdateItem|PutItem|DeleteItem|GetItem|Query|Scan|Batch.*Item|Transact.*Items",
		evidence: "stator's answer is that of DynamoDB Local, which has Amazon's own expression library",
	},
	{
		name: "removal from a missing item", ops: "UpdateItem|TransactWriteItems", places: ".*", stator: "200",
		when:     func(f *finding) bool { return removes(f.Step) },
		evidence: "an update that only removes is ignored if there is no item (tests of Scylla's Alternator that run on AWS); the witnesses create an item, or report its paths",
	},
	{
		name: "which overlapping paths are named", stator: ".*Two document paths overlap.*", other: ".*Two document paths overlap.*",
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
		when:     func(f *finding) bool { return f.Third != nil && matches(executionPattern, f.Third.bare()) },
		evidence: "DynamoDB Local, which has Amazon's own expression library, reports a fault as stator does; dynoxide ignores some paths",
	},
	{
		name: "message for a missing key in a transaction", witness: nameLocal, ops: "TransactGetItems|TransactWriteItems", agreed: true,
		evidence: "dynoxide's answer is stator's; DynamoDB Local puts its own message in place of the reasons",
	},
	{
		name: "start key of a table without a sort key", ops: "Query", stator: "ValidationException: The provided exclusive start key is invalid.*",
		evidence: "conformance/query: a table without a sort key has no key to begin after",
	},
	{
		name: "empty set in an expression's values", stator: "ValidationException: One or more parameter values were invalid: An (?:string|number|binary) set  may not be empty",
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
		name: "reserved word size", stator: "ValidationException: Invalid .*Expression: Attribute name is a reserved keyword; reserved keyword: size",
		evidence: "SIZE is on the list of reserved words (developer guide); DynamoDB Local takes it, since its grammar knows it as a function",
	},
	{
		name: "projection or duplicate keys first", ops: "TransactGetItems|BatchGetItem", other: "ValidationException: (?:Transaction request cannot include multiple|Provided list of item keys contains duplicates).*",
		stator:   "ValidationException: .*Expression.*",
		evidence: "not known: stator and dynalite check expressions first, the witnesses keys",
	},
	{
		name: "key condition or filter first", ops: "Query", stator: "ValidationException: Invalid KeyConditionExpression: .*", other: "ValidationException: (?:Invalid (?:FilterExpression|ProjectionExpression|KeyConditionExpression): )?.*",
		when: func(f *finding) bool {
			return f.Step.Body["FilterExpression"] != nil || f.Step.Body["ProjectionExpression"] != nil
		},
		evidence: "not known: stator and dynalite bind the key condition first, the witnesses the others",
	},
	{
		name: "nested paths of keys in a transaction's condition", ops: "TransactWriteItems", stator: "ValidationException: Key attributes must be scalars.*",
		evidence: "not known for transactions; PutItem and UpdateItem have the message in DynamoDB Local",
	},
	{
		name: "names of types in attribute_type", stator: "ValidationException: .*Invalid attribute type name found.*",
		evidence: "the list comes from a hash table (docs/differences.md); dynoxide does not check the name",
	},
	{
		name: "number of key conditions", ops: "Query", stator: "ValidationException: Conditions can be of length 1 or 2 only",
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
		name: "text of duplicates in a set", stator: "ValidationException: .*Input collection .* contains duplicates.*",
		evidence: "AWS prints the collection (conformance suite); DynamoDB Local prints no binaries, dynoxide does not check all values",
	},
	{
		name: "order of attributes that an index does not project", witness: nameLocal, stator: "ValidationException: .*does not project .*", other: "ValidationException: .*does not project .*",
		evidence: "a list from a hash table (docs/differences.md)",
	},
	{
		name: "filter attributes that an index does not project (dynoxide)", witness: nameDynoxide, stator: "ValidationException: .*does not project .*",
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
		name: "updated elements of lists and maps", ops: "UpdateItem", places: "Attributes.*",
		when:     func(f *finding) bool { return strings.HasPrefix(text(f, "ReturnValues"), "UPDATED_") },
		evidence: "UPDATED_OLD and UPDATED_NEW return only the changed elements (tests of Scylla's Alternator that run on AWS, dynoxide's change log); DynamoDB Local returns the whole attribute, dynoxide whole lists",
	},
	{
		name: "types of attribute_type's operand", stator: "ValidationException: .*operator or function: attribute_type, operand type: .*",
		evidence: "the list comes from a hash table (docs/differences.md)",
	},
	{
		name: "syntax errors (dynoxide)", witness: nameDynoxide, stator: "ValidationException: Invalid .*Expression: Syntax error; .*", other: "ValidationException: Invalid .*Expression: .*",
		evidence: "DynamoDB Local, which has Amazon's own expression library, has stator's text for the same expression on a table that exists",
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
		name: "empty binary set in an expression's values", stator: "ValidationException: One or more parameter values were invalid: Binary sets should not be empty",
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
		name: "answers that only one witness gave", witness: nameDynoxide, places: ".*",
		when:     func(f *finding) bool { return f.Third != nil && f.Third.Status == 500 },
		evidence: "DynamoDB Local answered 500, so that nothing decides between stator and dynoxide",
	},
	{
		name: "start key at the end of a range", witness: nameLocal, ops: "Query", agreed: true, stator: "200", other: "ValidationException: The provided starting key does not match the range key predicate",
		evidence: "dynoxide's answer is stator's",
	},
	{
		name: "start key that does not fit", ops: "Query", stator: "ValidationException: The provided starting key is invalid: .*",
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
		name: "size of an item with entries in local indexes", witness: nameLocal, stator: "ConditionalCheckFailedException.*|200|TransactionCanceledException.*", other: "ValidationException: Item size has exceeded the maximum allowed size",
		evidence: "not known: whether the condition or the size with entries of local indexes is checked first",
	},
	{
		name: "notation of numbers in a cancelled transaction", witness: nameLocal, places: `CancellationReasons\[\]\.Item|Item`,
		when:     func(f *finding) bool { return plainNumbers(f.Stator.Body) == plainNumbers(f.Other.Body) },
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
		name: "expressions before ConsistentRead of an index", ops: "Scan|Query", stator: "ValidationException: Invalid .*Expression: .*", other: "ValidationException: (?:Consistent reads are not supported on global|ExpressionAttributeValues can only be specified).*",
		evidence: "not known: stator and dynalite check expressions first",
	},
	{
		name: "checks before the table is looked up", ops: "Scan|Query|.*Item.*", witness: nameLocal, stator: "ValidationException: .*", other: "ResourceNotFoundException: .*",
		evidence: "faults of a request by itself are reported before the table is looked up (conformance/put_item/order.txt, after dynalite)",
	},
	{
		name: "index in a type mismatch", ops: "PutItem|BatchWriteItem|Transact.*", stator: "ValidationException: .*Type mismatch for Index Key .*", other: "ValidationException: .*Type mismatch for Index Key.*",
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
		name: "size of an update", ops: "UpdateItem", stator: "ValidationException: Item size to update has exceeded the maximum allowed size", other: "200",
		evidence: "an update is charged for its actions, and limited 19 bytes and more below a put (dynoxide's change log of a later version, recorded on AWS; conformance/update_item/sizes.txt)",
	},
	{
		name: "legacy parameters: faults before the condition", ops: "UpdateItem", stator: "ValidationException: .*", other: "ConditionalCheckFailedException: .*",
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
		name: "values without a condition in a transaction", ops: "TransactWriteItems", stator: "ValidationException: ExpressionAttribute(?:Values|Names) can only be specified when using expressions: .*",
		evidence: "DynamoDB Local refuses them with a text for each action; dynoxide cancels the transaction",
	},
}
