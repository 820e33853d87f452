package main

import (
	"fmt"
	"math/big"
	"strings"
)

// faults are the known differences.
var faults = []known{
	{
		name:     "envelope of a message",
		when:     func(f *finding) bool { return f.Stator.bare() == f.Other.bare() },
		evidence: "AWS puts \"1 validation error detected: \" before messages of some operations since August 2026 (conformance suite, recorded on AWS); neither witness does so everywhere",
	},
	// Consumed capacity.
	{
		name: "units of scans by partition", ops: "Scan|ExecuteStatement", places: `ConsumedCapacity.*CapacityUnits`,
		when: func(f *finding) bool {
			return (f.Step.Op == "Scan" || strings.HasPrefix(text(f, "Statement"), "SELECT")) && units(f.Stator) >= units(f.Other)
		},
		evidence: "each partition of a table is charged separately; a new on-demand table has four (docs/differences.md, conformance/scan/capacity.txt)",
	},
	{
		name: "units of an empty query", witness: nameLocal, ops: "Query|ExecuteStatement", places: `ConsumedCapacity.*CapacityUnits`,
		when: func(f *finding) bool {
			return f.Stator.Body["ScannedCount"] == 0.0 || count(f.Stator.Body["Items"]) == 0
		},
		evidence: "a query that reads nothing costs half a unit on AWS (conformance suite); DynamoDB Local charges nothing",
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
		evidence: "transactions have ReadCapacityUnits and WriteCapacityUnits (conformance suite, dynoxide); DynamoDB Local omits them",
	},
	// Tables.
	{
		name: "two changes of indexes at a time", witness: nameLocal, ops: "UpdateTable|DeleteTable|CreateTable", stator: "200", other: "(?:LimitExceededException: Subscriber limit exceeded|ResourceInUseException).*",
		evidence: "an index is ready when stator's reply arrives (docs/differences.md)",
	},
	{
		name: "members of a table's description (DynamoDB Local)", witness: nameLocal, ops: "CreateTable|DescribeTable|UpdateTable|DeleteTable",
		places:   `(Table|TableDescription)\.(GlobalSecondaryIndexes\[\]\.(ProvisionedThroughput.*|WarmThroughput.*|OnDemandThroughput.*)|TableThroughputModeSummary.*|BillingModeSummary.*|WarmThroughput.*|ProvisionedThroughput.*)`,
		evidence: "DynamoDB Local omits units of global indexes and summaries that AWS returns (conformance suite)",
	},
	{
		name: "members of a table's description (dynoxide)", witness: nameDynoxide, ops: "CreateTable|DescribeTable|UpdateTable|DeleteTable",
		places:   `(Table|TableDescription)\.(DeletionProtectionEnabled only in the first|TableThroughputModeSummary.*|BillingModeSummary.*|.*WarmThroughput.*|.*ProvisionedThroughput.*)`,
		evidence: "dynoxide omits DeletionProtectionEnabled and WarmThroughput, which AWS returns (conformance suite)",
	},
	{
		name: "description of a table that is being changed", ops: "DeleteTable|UpdateTable",
		places:   `TableDescription\.(AttributeDefinitions.*|KeySchema.*|StreamSpecification.*|GlobalSecondaryIndexes.*|LocalSecondaryIndexes.*|SSEDescription.*|TableClassSummary.*)`,
		evidence: "AWS's reply to DeleteTable has no schema (conformance suite), and an index that is being deleted keeps its attributes until it is gone",
	},
	{
		name: "message for a missing table", witness: nameLocal, stator: "ResourceNotFoundException: Requested resource not found.*", other: "ResourceNotFoundException: Cannot do operations on a non-existent table",
		evidence: "AWS: Requested resource not found (conformance suite)",
	},
	{
		name: "operation that is missing in dynoxide", witness: nameDynoxide, other: "UnknownOperationException.*",
		evidence: "the operation is part of the API",
	},
	{
		name: "tags", witness: nameLocal, ops: ".*[Tt]ag.*", other: "UnknownOperationException.*",
		evidence: "DynamoDB Local has no tags",
	},
	{
		name: "resources of tags (dynoxide)", witness: nameDynoxide, ops: ".*[Tt]ag.*", stator: "(?:AccessDenied|Validation|ResourceNotFound)Exception.*", other: "(?:ResourceNotFound|Validation)Exception.*",
		evidence: "a missing table of another account is denied (docs/differences.md); dynoxide has its own messages for ARNs",
	},
	{
		name: "tags given twice", witness: nameDynoxide, ops: "TagResource", stator: "ValidationException: Duplicate Tag Keys.*",
		evidence: "AWS refuses them (conformance/tag_resource)",
	},
	{
		name: "tables named by ARNs", witness: nameDynoxide, other: `ValidationException: .*Value 'arn:.* at 'tableName' failed to satisfy.*`,
		evidence: "TableName takes an ARN (API reference)",
	},
	{
		name: "names of tables that are too short", ops: ".*TimeToLive|.*Table", stator: "ResourceNotFoundException.*", other: "ValidationException: .*(?:characters long|Invalid table/index name).*",
		evidence: "the API's model has 1 to 1,024 characters, since ARNs are accepted",
	},
	{
		name: "a missing TableName", witness: nameDynoxide, stator: `ValidationException: Value null at .*`, other: "ValidationException: The parameter 'TableName' is required.*",
		evidence: "not known for this operation; DynamoDB Local has stator's message",
	},
	{
		name: "messages of UpdateTimeToLive", ops: "UpdateTimeToLive", stator: "ValidationException: TimeToLive is .*", other: "ValidationException: TimeToLive is .*",
		evidence: "AWS names the attribute (conformance/time_to_live)",
	},
	{
		name: "indexes that DynamoDB Local still builds or removes", witness: nameLocal, ops: "DescribeTable|CreateTable", places: `(?:Table|TableDescription)\\.(?:GlobalSecondaryIndexes|AttributeDefinitions).*`,
		evidence: "an index is ready when stator's reply arrives (docs/differences.md)",
	},
	// Shape and constraints of requests.
	{
		name: "malformed JSON types (DynamoDB Local)", witness: nameLocal, stator: "SerializationException: .*",
		evidence: "DynamoDB Local answers values of the wrong JSON type with 500, or takes them; AWS with SerializationException (conformance suite)",
	},
	{
		name: "requests that DynamoDB Local fails on", witness: nameLocal, other: "500 InternalFailure.*",
		evidence: "a malformed request never gets a 500 from AWS",
	},
	{
		name: "messages of Rust's JSON library", witness: nameDynoxide, other: `(?:Validation|Serialization)Exception: .*(?:at line \d+ column \d+|missing field|invalid type|unknown variant|expected ).*`,
		evidence: "the message names a line and a column, or is worded by the library; AWS's messages are in the conformance suite",
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
		evidence: "AWS: The parameter cannot be converted to a numeric value (conformance suite)",
	},
	// Items.
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
		name: "dynoxide alone (PartiQL)", witness: nameDynoxide, agreed: true, places: ".*", ops: ".*Statement|ExecuteTransaction",
		evidence: "stator's answer is that of DynamoDB Local, which has Amazon's own PartiQL library",
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
		name: "empty item of a projection", witness: nameLocal, ops: "TransactGetItems", places: `Responses\[\]\.Item only in the second`, agreed: true,
		evidence: "dynoxide's answer is stator's; DynamoDB Local returns an empty item",
	},
	{
		name: "attributes of AttributeUpdates", witness: nameLocal, ops: "UpdateItem", places: "Attributes.*", agreed: true,
		when:     func(f *finding) bool { return f.Step.Body["AttributeUpdates"] != nil },
		evidence: "dynoxide's answer is stator's; DynamoDB Local omits empty lists and maps",
	},
	{
		name: "malformed JSON types (dynoxide)", witness: nameDynoxide, stator: "SerializationException: .*",
		evidence: "AWS's messages are in the conformance suite; dynoxide converts some values, or names others",
	},
	{
		name: "values of enumerations and lengths", stator: `ValidationException: .*Member must (?:satisfy|have|be).*`,
		evidence: "the constraint is in the API's model, and AWS checks the model first (conformance suite); the witnesses skip some members",
	},
	{
		name: "null in lists and maps", when: func(f *finding) bool { return hasNull(f.Step.Body) },
		evidence: "what AWS does with a null member of a list or map is not known",
	},
	{
		name: "filter on attributes that an index does not project", witness: nameLocal, ops: "Scan|Query", places: "Count|Items|ScannedCount|ConsumedCapacity.*", agreed: true,
		when:     func(f *finding) bool { return f.Step.Body["IndexName"] != nil },
		evidence: "DynamoDB Local filters with the attributes of the table; an index has only what it projects (developer guide)",
	},
	{
		name: "update whose path does not exist (dynoxide)", witness: nameDynoxide, ops: "UpdateItem|TransactWriteItems", stator: executionFault + "|TransactionCanceledException: .*ValidationError.*",
		when:     func(f *finding) bool { return f.Third != nil && matches(executionFault, f.Third.bare()) },
		evidence: "DynamoDB Local, which has Amazon's own expression library, reports a fault as stator does; dynoxide ignores some paths",
	},
	{
		name: "units of a query of a local index (dynoxide)", witness: nameDynoxide, ops: "Query|Scan", places: "ConsumedCapacity.*",
		when:     func(f *finding) bool { return strings.HasPrefix(text(f, "IndexName"), "l") },
		evidence: "dynoxide charges a scan of a local index to the table, and the table for items that were not fetched (conformance suite: the index is charged)",
	},
	{
		name: "message for a missing key in a transaction", witness: nameLocal, ops: "TransactGetItems|TransactWriteItems", agreed: true,
		evidence: "dynoxide's answer is stator's; DynamoDB Local puts its own message in place of the reasons",
	},
	{
		name: "TimeToLive that is disabled already", witness: nameDynoxide, ops: "UpdateTimeToLive", agreed: true,
		evidence: "AWS: TimeToLive is already disabled (conformance suite, DynamoDB Local)",
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
			return f.Third != nil && canonical(f.Stator.Body) == canonical(f.Third.Body) || withoutSizes(f.Stator) == withoutSizes(f.Other)
		},
		evidence: "SizeBytes is the size of keys and images (API reference), as DynamoDB Local has it; dynoxide counts the JSON",
	},
	{
		name: "empty maps in streams", witness: nameLocal, ops: readStream, places: "Records",
		when: func(f *finding) bool {
			return strings.ReplaceAll(canonical(f.Stator.Body), `{"M":{}}`, "{}") == strings.ReplaceAll(canonical(f.Other.Body), `{"M":{}}`, "{}")
		},
		evidence: "a value has a type (API reference); DynamoDB Local omits that of an empty map",
	},
	{
		name: "items of transactional reads (dynoxide)", witness: nameDynoxide, ops: "TransactGetItems", places: `Responses\[\]\.Item.*`,
		when:     func(f *finding) bool { return f.Third != nil && withoutEmpty(f.Stator) == withoutEmpty(*f.Third) },
		evidence: "DynamoDB Local's items are stator's; dynoxide adds keys to a projection",
	},
	{
		name: "empty item of a projection beside others", witness: nameLocal, ops: "TransactGetItems", places: `Responses\[\]\.Item.*`,
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
		evidence: "DynamoDB Local, dynalite and the conformance suite have the message",
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
		name: "units of a global index", ops: "CreateTable|UpdateTable", stator: "ValidationException: .*(?:ProvisionedThroughput is not specified for index|Both ReadCapacityUnits and WriteCapacityUnits must be specified).*",
		evidence: "conformance suite; on public record of 8 October 2026",
	},
	{
		name: "an update of a table without changes", ops: "UpdateTable", stator: "ValidationException: At least one of ProvisionedThroughput, BillingMode.*",
		evidence: "conformance suite; the list of members grows with the API",
	},
	{
		name: "faults of legacy conditions (dynoxide)", witness: nameDynoxide, stator: "ValidationException: .*",
		when: func(f *finding) bool {
			b := f.Step.Body
			return b["Expected"] != nil || b["ScanFilter"] != nil || b["QueryFilter"] != nil || b["KeyConditions"] != nil || b["AttributeUpdates"] != nil
		},
		evidence: "dynoxide turns legacy conditions into expressions and does not check them by themselves; DynamoDB Local rejects the request, too",
	},
	// PartiQL.
	{
		name: "names of nested attributes in a batch", witness: nameLocal, ops: "BatchExecuteStatement|ExecuteTransaction", places: `Responses\[\]\.Item.*`, agreed: true,
		evidence: "not known: SELECT l[0] returns the attribute l[0] (stator, dynoxide) or the list (DynamoDB Local)",
	},
	{
		name: "malformed statements that dynoxide takes", witness: nameDynoxide, ops: ".*Statement|ExecuteTransaction", stator: "ValidationException: Statement wasn't well formed.*",
		when:     func(f *finding) bool { return f.Third != nil && strings.Contains(f.Third.Text, "wasn't well formed") },
		evidence: "DynamoDB Local, which has Amazon's own PartiQL library, refuses the statement",
	},
	{
		name: "first fault of a statement's execution", witness: nameLocal, ops: "ExecuteStatement", stator: executionFault, other: executionFault,
		evidence: "which of several faults is met first when an update is carried out is not known (no recording on AWS)",
	},
	{
		name: "statements that dynoxide does not parse", witness: nameDynoxide, ops: ".*Statement|ExecuteTransaction", other: "ValidationException: Statement wasn't well formed, can't be processed: .*",
		when:     func(f *finding) bool { return f.Third != nil && !strings.Contains(f.Third.Text, "wasn't well formed") },
		evidence: "DynamoDB Local, which has Amazon's own PartiQL library, parses the statement",
	},
	{
		name: "order of the faults of a transaction's statements", ops: "ExecuteTransaction", stator: "ValidationException: .*", other: "ValidationException: .*",
		evidence: "which fault of several statements is reported is not known",
	},
	{
		name: "names of tables in statements", witness: nameLocal, ops: ".*Statement|ExecuteTransaction", stator: "ResourceNotFoundException.*", other: "ValidationException: Table name should be.*",
		evidence: "dynoxide's change log, recorded on AWS: ResourceNotFoundException",
	},
	{
		name: "exceptions of DynamoDB Local's storage", witness: nameLocal, places: "Responses.*",
		when: func(f *finding) bool {
			return strings.Contains(canonical(f.Other.Body), "An unexpected exception occurred")
		},
		evidence: "an error of SQLite",
	},
	{
		name: "statements of a batch", ops: "BatchExecuteStatement", places: "Responses.*|ConsumedCapacity.*",
		when:     func(f *finding) bool { return batchMajority(f) },
		evidence: "for each statement one of the others has stator's result: dynoxide does not parse all statements and takes more of them, DynamoDB Local has its own texts and names of attributes",
	},
	{
		name: "reasons and order of a transaction of statements (dynoxide)", witness: nameDynoxide, ops: "ExecuteTransaction", places: "outcome|CancellationReasons.*",
		when:     func(f *finding) bool { return f.Third != nil && f.Third.ok() == f.Stator.ok() },
		evidence: "DynamoDB Local takes and refuses the same transactions as stator; dynoxide does not parse all statements",
	},
	{
		name: "execution of a statement (dynoxide)", witness: nameDynoxide, ops: "ExecuteStatement", stator: executionFault,
		when:     func(f *finding) bool { return f.Third != nil && matches(executionFault, f.Third.bare()) },
		evidence: "DynamoDB Local refuses the update, too; dynoxide ignores some paths",
	},
	{
		name: "message for a missing table in a statement (dynoxide)", witness: nameDynoxide, ops: ".*Statement|ExecuteTransaction", stator: "ResourceNotFoundException: Requested resource not found", other: "ResourceNotFoundException: Requested resource not found: Table: .*",
		evidence: "the message for statements has no name (dynalite has no PartiQL; the conformance suite has this text)",
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
		name: "details of malformed statements in a batch", ops: "BatchExecuteStatement", places: `Responses\[\]\.Error\.Message`,
		when: func(f *finding) bool {
			return strings.Contains(canonical(f.Stator.Body), "Statement wasn't well formed") || strings.Contains(canonical(f.Stator.Body), "Select statements within BatchExecuteStatement")
		},
		evidence: "the text after the colon is the parser's; only the recorded ones are certain (conformance suite)",
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
		evidence: "the text after the colon is the parser's; only the recorded ones are certain (conformance suite)",
	},
}

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

// withoutEmpty returns the responses of a transactional read without items that
// are empty.
func withoutEmpty(a answer) string {
	return strings.ReplaceAll(canonical(a.Body["Responses"]), `{"Item":{}}`, `{}`)
}

// plainNumbers returns a body with all numbers in one notation.
func plainNumbers(body object) string {
	v := cloneJSON(body)
	for _, n := range nodes(v) {
		if s, ok := n.get().(string); ok && n.name == "N" && len(s) < 200 {
			if r, ok := new(big.Rat).SetString(s); ok {
				n.set(r.RatString())
			}
		}
	}
	return canonical(v)
}
