package main

import (
	"slices"
	"strings"
)

// tableFaults are differences in operations on tables.
var tableFaults = []known{
	{
		name: "constraints before the table (DynamoDB Local)", witness: nameLocal, ops: ".*Table|.*TimeToLive", stator: `ValidationException: .*Value null at .*Member must not be null.*`, other: "Resource(?:NotFound|InUse)Exception: .*",
		when: func(f *finding) bool {
			return f.Third != nil && (strings.Contains(f.Third.Text, "missing field") || f.Third.namesNull())
		},
		evidence: "the member is required by the API's model, which AWS checks first (conformance suite); dynoxide refuses the request without it, too",
	},
	{
		name: "tags of a missing table (dynoxide)", witness: nameDynoxide, ops: ".*[Tt]ag.*", stator: "AccessDeniedException: .*", other: "ValidationException: (?:missing field|Atleast one Tag).*",
		evidence: "a missing table of another account is denied (docs/differences.md); which fault of a request for it comes first is not known",
	},
	{
		name: "words for a table that exists (DynamoDB Local)", witness: nameLocal, ops: "CreateTable", stator: "ResourceInUseException: Table already exists: .*", other: "ResourceInUseException: Cannot create preexisting table",
		evidence: "AWS names the table (conformance suite); dynoxide has stator's message",
	},
	{
		name: "units without a number (dynoxide)", witness: nameDynoxide, ops: "UpdateTable|CreateTable", stator: `ValidationException: \d+ validation errors? detected: .*rovisionedThroughput\.(?:read|write)CapacityUnits' failed to satisfy constraint: Member must not be null.*`, other: "200",
		when:     func(f *finding) bool { return f.Third != nil && !f.Third.ok() },
		evidence: "both members are required by the API's model; DynamoDB Local refuses the request, too",
	},
	{
		name: "the key of an index redefines an attribute (DynamoDB Local)", witness: nameLocal, ops: "UpdateTable", stator: "ValidationException: One or more parameter values were invalid: Attributes cannot be redefined.*", other: "ValidationException: invalid attribute, SchemaElement redefined should be of same type as previously defined",
		evidence: "DynamoDB Local has two messages: this one for the key of another index, stator's for the key of the table, with both schemas; which one AWS has for an index is not known",
	},
	{
		name: "the key of an index redefines an attribute (dynoxide)", witness: nameDynoxide, ops: "UpdateTable", stator: "ValidationException: One or more parameter values were invalid: Attributes cannot be redefined.*", other: "200",
		when:     func(f *finding) bool { return f.Third != nil && strings.Contains(f.Third.Text, "redefined") },
		evidence: "DynamoDB Local rejects the request, too; an attribute has one type in a table",
	},
	{
		name: "two changes of indexes at a time", witness: nameLocal, ops: "UpdateTable|DeleteTable|CreateTable", stator: "200", other: "(?:LimitExceededException: Subscriber limit exceeded|ResourceInUseException).*",
		evidence: "an index is ready when stator's reply arrives (docs/differences.md)",
	},
	{
		name: "decreases of a day", alone: true, ops: "UpdateTable", stator: "LimitExceededException: Subscriber limit exceeded: Provisioned throughput decreases are limited.*", other: "(?:200|ValidationException: .*)",
		evidence: "measured on AWS in October 2026: four a day, then one an hour (conformance/update_table/quotas.txt); the witnesses have no limit",
	},
	{
		name: "warm throughput", alone: true, ops: "CreateTable|DescribeTable|UpdateTable|DeleteTable",
		places:   `(?:Table|TableDescription)\.(?:GlobalSecondaryIndexes\[\]\.)?WarmThroughput only in the first`,
		evidence: "a member of the description in the API reference; the witnesses omit it",
	},
	{
		name: "members of a table's description (DynamoDB Local)", witness: nameLocal, ops: "CreateTable|DescribeTable|UpdateTable|DeleteTable",
		places:   `(?:Table|TableDescription)\.(?:GlobalSecondaryIndexes\[\]\.(?:ProvisionedThroughput|ProvisionedThroughput\.NumberOfDecreasesToday) only in the first|GlobalSecondaryIndexes\[\]\.OnDemandThroughput only in the second|TableThroughputModeSummary only in the first|ProvisionedThroughput\..*)`,
		evidence: "DynamoDB Local omits units of global indexes and summaries, which are members of the description in the API reference",
	},
	{
		name: "members of a table's description (dynoxide)", witness: nameDynoxide, ops: "CreateTable|DescribeTable|UpdateTable|DeleteTable",
		places:   `(?:Table|TableDescription)\.(?:DeletionProtectionEnabled only in the first|(?:GlobalSecondaryIndexes\[\]\.)?ProvisionedThroughput\..*)`,
		evidence: "dynoxide omits DeletionProtectionEnabled, which is a member of the description in the API reference, and returns the units of an update at once",
	},
	{
		name: "description of a table that is being deleted", alone: true, ops: "DeleteTable",
		places:   `TableDescription\.(?:AttributeDefinitions|KeySchema|StreamSpecification|GlobalSecondaryIndexes|LocalSecondaryIndexes|SSEDescription|TableClassSummary) only in the second`,
		evidence: "AWS's reply to DeleteTable has no schema (conformance/delete_table, after dynalite)",
	},
	{
		name: "indexes of a table that is being changed", ops: "UpdateTable",
		places:   `TableDescription\.(?:AttributeDefinitions|GlobalSecondaryIndexes|GlobalSecondaryIndexes only in the first)`,
		when:     func(f *finding) bool { return f.Step.Body["GlobalSecondaryIndexUpdates"] != nil },
		evidence: "an index that is being deleted keeps its attributes until it is gone, and an index is ready when stator's reply arrives (docs/differences.md)",
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
		name: "names of tables that are too short", ops: ".*TimeToLive|.*Table|Scan|Query|.*Item", stator: "ResourceNotFoundException.*", other: "ValidationException: .*(?:characters long|Invalid table/index name).*",
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
		name: "indexes that DynamoDB Local still builds or removes", witness: nameLocal, ops: "DescribeTable|CreateTable", places: `(?:Table|TableDescription)\.(?:GlobalSecondaryIndexes|AttributeDefinitions)(?: only in the second)?`,
		evidence: "an index is ready when stator's reply arrives (docs/differences.md)",
	},
	{
		name: "indexes that DynamoDB Local still removes during an update", witness: nameLocal, ops: "UpdateTable", places: `TableDescription\.GlobalSecondaryIndexes(?: only in the second)?`,
		when: func(f *finding) bool {
			return f.Third != nil && slices.Equal(indexNames(f.Stator), indexNames(*f.Third)) && len(indexNames(f.Other)) > len(indexNames(f.Stator))
		},
		evidence: "an index is gone when stator's reply arrives (docs/differences.md); dynoxide has stator's indexes",
	},
	{
		name: "TimeToLive that is disabled already", witness: nameDynoxide, ops: "UpdateTimeToLive", agreed: true,
		evidence: "DynamoDB Local has the message, too",
	},
	{
		name: "units of a global index", ops: "CreateTable|UpdateTable", stator: "ValidationException: .*(?:ProvisionedThroughput is not specified for index|Both ReadCapacityUnits and WriteCapacityUnits must be specified|ReadCapacityUnits and WriteCapacityUnits must both be specified).*",
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
		name: "keys of tags (dynoxide)", witness: nameDynoxide, ops: ".*[Tt]ag.*", stator: "ValidationException: .*", other: "ValidationException: .*|200",
		when: func(f *finding) bool {
			return !f.Other.ok() || strings.Contains(f.Stator.Text, "The Tag Key provided is invalid")
		},
		evidence: "the API's model limits keys to 128 characters; dynoxide has messages of its own for missing tables",
	},
	{
		name: "definitions that no key uses", ops: "CreateTable", stator: "ValidationException: .*Some AttributeDefinitions are not used.*", other: "ValidationException: .*[Nn]umber of attributes in .*",
		when: func(f *finding) bool {
			return f.Step.Body["LocalSecondaryIndexes"] != nil || f.Step.Body["GlobalSecondaryIndexes"] != nil
		},
		evidence: "on public record for tables with indexes (aws-cloudformation/cfn-lint#1037, getmoto/moto#4428, which was compared with AWS); the witnesses have the message for tables without",
	},
	{
		name: "an index that does not exist", ops: "UpdateTable", stator: `ResourceNotFoundException: Requested resource not found: Index \S+ for table \S+`, other: `ResourceNotFoundException: Requested resource not found(?:: Table: \S+ not found)?`,
		evidence: "dynalite, which was held against AWS (conformance/update_table/indexes.txt); DynamoDB Local names nothing, dynoxide a table",
	},
	{
		name: "a stream without a view", ops: "CreateTable", stator: "ValidationException: One or more parameter values were invalid: Table is being created with a stream enabled, UpdateViewType is required", other: "200|ResourceInUseException: .*|ValidationException: Invalid StreamViewType: .*",
		evidence: "dynalite, which was held against AWS (conformance/create_table/errors.txt); DynamoDB Local has another message, dynoxide does not check it",
	},
	{
		name: "names that are given twice", ops: "CreateTable|UpdateTable", stator: "ValidationException: (?:Attribute Name is duplicated: .*|Attempting to create an index which already exists|The KeySchema contains multiple key attributes with the same name|One or more parameter values were invalid: Duplicate element in NonKeyAttributes: .*)", other: "200|ValidationException: .*|ResourceInUseException: .*",
		when:     func(f *finding) bool { return !f.Other.ok() || f.Third != nil && !f.Third.ok() },
		evidence: "on public record (conformance/create_table, conformance/update_table); the witnesses have messages of their own, or do not check it",
	},
	{
		name: "a new index without definitions", ops: "UpdateTable", stator: "ValidationException: .*AttributeDefinitions is not specified for index.*",
		evidence: "on public record (conformance/update_table); the witnesses have messages of their own",
	},
}

// indexNames returns the names of the global indexes in a table's description.
func indexNames(a answer) (names []string) {
	list, _ := member(a.Body["TableDescription"], "GlobalSecondaryIndexes").([]any)
	for _, x := range list {
		name, _ := member(x, "IndexName").(string)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
