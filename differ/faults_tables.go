package main

// tableFaults are differences in operations on tables.
var tableFaults = []known{
	{
		name: "two changes of indexes at a time", witness: nameLocal, ops: "UpdateTable|DeleteTable|CreateTable", stator: "200", other: "(?:LimitExceededException: Subscriber limit exceeded|ResourceInUseException).*",
		evidence: "an index is ready when stator's reply arrives (docs/differences.md)",
	},
	{
		name: "members of a table's description (DynamoDB Local)", witness: nameLocal, ops: "CreateTable|DescribeTable|UpdateTable|DeleteTable",
		places:   `(Table|TableDescription)\.(GlobalSecondaryIndexes\[\]\.(ProvisionedThroughput.*|WarmThroughput.*|OnDemandThroughput.*)|TableThroughputModeSummary.*|BillingModeSummary.*|WarmThroughput.*|ProvisionedThroughput.*)`,
		evidence: "DynamoDB Local omits units of global indexes and summaries, which are members of the description in the API reference",
	},
	{
		name: "members of a table's description (dynoxide)", witness: nameDynoxide, ops: "CreateTable|DescribeTable|UpdateTable|DeleteTable",
		places:   `(Table|TableDescription)\.(DeletionProtectionEnabled only in the first|TableThroughputModeSummary.*|BillingModeSummary.*|.*WarmThroughput.*|.*ProvisionedThroughput.*)`,
		evidence: "dynoxide omits DeletionProtectionEnabled and WarmThroughput, which are members of the description in the API reference",
	},
	{
		name: "description of a table that is being changed", ops: "DeleteTable|UpdateTable",
		places:   `TableDescription\.(AttributeDefinitions.*|KeySchema.*|StreamSpecification.*|GlobalSecondaryIndexes.*|LocalSecondaryIndexes.*|SSEDescription.*|TableClassSummary.*)`,
		evidence: "AWS's reply to DeleteTable has no schema (conformance/delete_table, after dynalite), and an index that is being deleted keeps its attributes until it is gone",
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
		name: "indexes that DynamoDB Local still builds or removes", witness: nameLocal, ops: "DescribeTable|CreateTable", places: `(?:Table|TableDescription)\.(?:GlobalSecondaryIndexes|AttributeDefinitions).*`,
		evidence: "an index is ready when stator's reply arrives (docs/differences.md)",
	},
	{
		name: "TimeToLive that is disabled already", witness: nameDynoxide, ops: "UpdateTimeToLive", agreed: true,
		evidence: "DynamoDB Local has the message, too",
	},
	{
		name: "units of a global index", ops: "CreateTable|UpdateTable", stator: "ValidationException: .*(?:ProvisionedThroughput is not specified for index|Both ReadCapacityUnits and WriteCapacityUnits must be specified).*",
		evidence: "on public record of 8 October 2026 (conformance/update_table)",
	},
	{
		name: "an update of a table without changes", ops: "UpdateTable", stator: "ValidationException: At least one of ProvisionedThroughput, BillingMode.*",
		evidence: "the list of members grows with the API; the witnesses have an older one, or none",
	},
	{
		name: "definitions of attributes", ops: "CreateTable|UpdateTable", stator: "ValidationException: .*Some index key attributes? .*",
		evidence: "dynalite, which was held against AWS; the witnesses have messages of their own, or list all keys",
	},
	{
		name: "TimeToLive of another attribute (dynoxide)", witness: nameDynoxide, ops: "UpdateTimeToLive", stator: "ValidationException: TimeToLive is .*",
		evidence: "DynamoDB Local refuses it, too",
	},
	{
		name: "units that are null (dynoxide)", witness: nameDynoxide, ops: "UpdateTable|CreateTable", stator: "ValidationException: Value null at .*",
		evidence: "the member is required by the API's model",
	},
	{
		name: "units above the maximum of a table", ops: "UpdateTable|CreateTable", stator: "LimitExceededException: The requested .*",
		evidence: "on public record; the witnesses have their own limits",
	},
	{
		name: "keys of tags (dynoxide)", witness: nameDynoxide, ops: ".*[Tt]ag.*", stator: "(?:AccessDenied|Validation)Exception: .*",
		evidence: "the API's model limits keys to 128 characters; dynoxide has messages of its own for missing tables",
	},
	{
		name: "a new index without definitions", ops: "UpdateTable", stator: "ValidationException: .*AttributeDefinitions is not specified for index.*",
		evidence: "on public record (conformance/update_table); the witnesses have messages of their own",
	},
}
