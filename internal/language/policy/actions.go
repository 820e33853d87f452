package policy

import (
	"slices"
	"strings"
)

// AccessLevel is what an action is for, by the words of IAM.
type AccessLevel string

// The access levels.
const (
	LevelList        AccessLevel = "list"
	LevelRead        AccessLevel = "read"
	LevelWrite       AccessLevel = "write"
	LevelTagging     AccessLevel = "tagging"
	LevelPermissions AccessLevel = "permissions management"
)

var levels = []AccessLevel{LevelList, LevelRead, LevelWrite, LevelTagging, LevelPermissions}

// resourceTypes is a set of types of resources.
type resourceTypes uint16

const (
	onTable resourceTypes = 1 << iota
	onIndex
	onStream
	onBackup
	onExport
	onImport
	onGlobalTable
	onNothing // the resource of the request is *
)

// resourceShapes are the forms of the ARNs of each type. A + stands for characters
// other than a slash.
var resourceShapes = []struct {
	types resourceTypes
	name  string
	arn   string
}{
	{onTable, "a table", "arn:+:dynamodb:+:+:table/+"},
	{onIndex, "an index", "arn:+:dynamodb:+:+:table/+/index/+"},
	{onStream, "a stream", "arn:+:dynamodb:+:+:table/+/stream/+"},
	{onBackup, "a backup", "arn:+:dynamodb:+:+:table/+/backup/+"},
	{onExport, "an export", "arn:+:dynamodb:+:+:table/+/export/+"},
	{onImport, "an import", "arn:+:dynamodb:+:+:table/+/import/+"},
	{onGlobalTable, "a global table", "arn:+:dynamodb::+:global-table/+"},
	{onNothing, `"*"`, "*"},
}

// String returns the names of the types, with their articles.
func (t resourceTypes) String() string {
	var names []string
	for _, s := range resourceShapes {
		if t&s.types != 0 {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, " or ")
}

// keySet is a set of the condition keys that depend on the action.
type keySet uint16

const (
	keyLeading     keySet = 1 << iota // LeadingKeys, FirstPartitionKeyValues
	keyLaterKeys                      // SecondPartitionKeyValues to Fourth…
	keyAttributes                     // Attributes
	keySelect                         // Select
	keyReturn                         // ReturnValues
	keyCapacity                       // ReturnConsumedCapacity
	keyEnclosing                      // EnclosingOperation
	keyFullScan                       // FullTableScan
	keyFaults                         // FisActionId, FisTargetArns
	keyRequestTag                     // aws:RequestTag/…
	keyTagKeys                        // aws:TagKeys
	keyResourceTag                    // aws:ResourceTag/…
)

// actionInfo is what IAM knows of an action of DynamoDB.
type actionInfo struct {
	name    string
	level   AccessLevel
	subject string // what it acts on, by a word for people
	types   resourceTypes
	keys    keySet
}

const (
	keysOfItem    = keyLeading | keyAttributes | keyEnclosing
	keysOfWrite   = keysOfItem | keyReturn | keyCapacity
	keysOfSelect  = keysOfItem | keyLaterKeys | keyFullScan | keySelect
	keysOfQuery   = keyLeading | keyLaterKeys | keysOfScan
	keysOfScan    = keyAttributes | keySelect | keyReturn | keyCapacity
	onTableStream = onTable | onStream
)

// actions are the actions of DynamoDB, by the service authorization reference, which
// also gives a table to SearchVectors; but a request asks for it on an index.
var actions = []actionInfo{
	{"AssociateTableReplica", LevelWrite, "replicas", onTable, 0},
	{"BatchGetItem", LevelRead, "items", onTable, keyLeading | keyAttributes | keySelect | keyCapacity},
	{"BatchWriteItem", LevelWrite, "items", onTable, keyLeading | keyAttributes | keyCapacity},
	{"ConditionCheckItem", LevelRead, "items", onTable, keysOfWrite},
	{"CreateBackup", LevelWrite, "backups", onTable, 0},
	{"CreateGlobalTable", LevelWrite, "global tables", onGlobalTable | onTable, 0},
	{"CreateGlobalTableWitness", LevelWrite, "replicas", onTable, 0},
	{"CreateTable", LevelWrite, "tables", onTable, keyRequestTag | keyTagKeys},
	{"CreateTableReplica", LevelWrite, "replicas", onTable, 0},
	{"DeleteBackup", LevelWrite, "backups", onBackup, 0},
	{"DeleteGlobalTableWitness", LevelWrite, "replicas", onTable, 0},
	{"DeleteItem", LevelWrite, "items", onTable, keysOfWrite},
	{"DeleteResourcePolicy", LevelPermissions, "policies", onTableStream, 0},
	{"DeleteTable", LevelWrite, "tables", onTable, 0},
	{"DeleteTableReplica", LevelWrite, "replicas", onTable, 0},
	{"DescribeBackup", LevelRead, "backups", onBackup, 0},
	{"DescribeContinuousBackups", LevelRead, "backups", onTable, 0},
	{"DescribeContributorInsights", LevelRead, "insights", onTable | onIndex, 0},
	{"DescribeEndpoints", LevelRead, "the account", onNothing, 0},
	{"DescribeExport", LevelRead, "exports", onExport, 0},
	{"DescribeGlobalTable", LevelRead, "global tables", onGlobalTable, 0},
	{"DescribeGlobalTableSettings", LevelRead, "global tables", onGlobalTable, 0},
	{"DescribeImport", LevelRead, "imports", onImport, 0},
	{"DescribeKinesisStreamingDestination", LevelRead, "Kinesis streams", onTable, 0},
	{"DescribeLimits", LevelRead, "the account", onNothing, 0},
	{"DescribeReservedCapacity", LevelRead, "reserved capacity", onNothing, 0},
	{"DescribeReservedCapacityOfferings", LevelRead, "reserved capacity", onNothing, 0},
	{"DescribeStream", LevelRead, "streams", onStream, 0},
	{"DescribeTable", LevelRead, "tables", onTable, 0},
	{"DescribeTableReplicaAutoScaling", LevelRead, "replicas", onTable, 0},
	{"DescribeTimeToLive", LevelRead, "tables", onTable, 0},
	{"DisableKinesisStreamingDestination", LevelWrite, "Kinesis streams", onTable, 0},
	{"DisassociateTableReplica", LevelWrite, "replicas", onTable, 0},
	{"EnableKinesisStreamingDestination", LevelWrite, "Kinesis streams", onTable, 0},
	{"ExportTableToPointInTime", LevelWrite, "exports", onTable, 0},
	{"GetAbacStatus", LevelRead, "the account", onNothing, 0},
	{"GetItem", LevelRead, "items", onTable, keysOfItem | keySelect | keyCapacity},
	{"GetRecords", LevelRead, "streams", onStream, 0},
	{"GetResourcePolicy", LevelRead, "policies", onTableStream, 0},
	{"GetShardIterator", LevelRead, "streams", onStream, 0},
	{"ImportTable", LevelWrite, "imports", onTable, 0},
	{"InjectError", LevelWrite, "injected errors", onNothing, keyFaults},
	{"ListBackups", LevelList, "backups", onNothing, 0},
	{"ListContributorInsights", LevelList, "insights", onNothing, 0},
	{"ListExports", LevelList, "exports", onNothing | onTable, 0},
	{"ListGlobalTables", LevelList, "global tables", onNothing, 0},
	{"ListImports", LevelList, "imports", onNothing | onTable, 0},
	{"ListStreams", LevelRead, "streams", onNothing, 0},
	{"ListTables", LevelList, "tables", onNothing, 0},
	{"ListTagsOfResource", LevelRead, "tags", onTableStream, 0},
	{"PartiQLDelete", LevelWrite, "items", onTable, keysOfItem | keyReturn},
	{"PartiQLInsert", LevelWrite, "items", onTable, keysOfItem},
	{"PartiQLSelect", LevelRead, "items", onTable | onIndex, keysOfSelect},
	{"PartiQLUpdate", LevelWrite, "items", onTable, keysOfItem | keyReturn},
	{"PurchaseReservedCapacityOfferings", LevelWrite, "reserved capacity", onNothing, 0},
	{"PutItem", LevelWrite, "items", onTable, keysOfWrite},
	{"PutResourcePolicy", LevelPermissions, "policies", onTableStream, 0},
	{"Query", LevelRead, "items", onTable | onIndex, keysOfQuery},
	{"ReadDataForReplication", LevelRead, "replicas", onTable, 0},
	{"ReplicateSettings", LevelWrite, "replicas", onTable, 0},
	{"RestoreTableFromAwsBackup", LevelWrite, "backups", onTable, 0},
	{"RestoreTableFromBackup", LevelWrite, "backups", onBackup | onTable, 0},
	{"RestoreTableToPointInTime", LevelWrite, "backups", onTable, 0},
	{"Scan", LevelRead, "items", onTable | onIndex, keysOfScan},
	{"SearchVectors", LevelRead, "items", onIndex, 0},
	{"StartAwsBackupJob", LevelWrite, "backups", onTable, 0},
	{"TagResource", LevelTagging, "tags", onTableStream, keyRequestTag | keyTagKeys},
	{"UntagResource", LevelTagging, "tags", onTableStream, keyTagKeys},
	{"UpdateAbacStatus", LevelPermissions, "the account", onNothing, 0},
	{"UpdateContinuousBackups", LevelWrite, "backups", onTable, 0},
	{"UpdateContributorInsights", LevelWrite, "insights", onTable | onIndex, 0},
	{"UpdateGlobalTable", LevelWrite, "global tables", onGlobalTable | onTable, 0},
	{"UpdateGlobalTableSettings", LevelWrite, "global tables", onGlobalTable | onTable, 0},
	{"UpdateGlobalTableVersion", LevelWrite, "global tables", onGlobalTable | onTable, 0},
	{"UpdateItem", LevelWrite, "items", onTable, keysOfWrite},
	{"UpdateKinesisStreamingDestination", LevelWrite, "Kinesis streams", onTable, 0},
	{"UpdateTable", LevelWrite, "tables", onTable, 0},
	{"UpdateTableReplicaAutoScaling", LevelWrite, "replicas", onTable, 0},
	{"UpdateTimeToLive", LevelWrite, "tables", onTable, 0},
	{"WriteDataForReplication", LevelWrite, "replicas", onTable, 0},
}

// daxActions are the actions of DAX, by the service authorization reference.
var daxActions = []string{
	"BatchGetItem", "BatchWriteItem", "ConditionCheckItem", "CreateCluster", "CreateParameterGroup", "CreateSubnetGroup",
	"DecreaseReplicationFactor", "DefineAttributeList", "DefineAttributeListId", "DefineKeySchema", "DeleteCluster", "DeleteItem",
	"DeleteParameterGroup", "DeleteSubnetGroup", "DescribeClusters", "DescribeDefaultParameters", "DescribeEvents",
	"DescribeParameterGroups", "DescribeParameters", "DescribeSubnetGroups", "Endpoints", "GetItem", "IncreaseReplicationFactor",
	"ListTags", "PutItem", "Query", "RebootNode", "Scan", "TagResource", "UntagResource", "UpdateCluster", "UpdateItem",
	"UpdateParameterGroup", "UpdateSubnetGroup",
}

// ownActions are the actions of what a stator has and DynamoDB does not.
var ownActions = []string{
	"AdvanceClock", "Backup", "Changes", "Copy", "CreateAccessKey", "CreateFork", "CreateSnapshot", "DeleteAccessKey", "DeleteFork",
	"DeletePrincipal", "DeleteShapes", "DeleteSnapshot", "DescribeExpiry", "ExplainDenial", "FreezeClock", "GetBackups", "GetClock",
	"GetFaults", "GetHeat", "GetItemAt", "GetMetrics", "GetModel", "GetPrincipal", "GetShapes", "GetStandby", "ItemHistory",
	"ListAccessKeys", "ListDeadLetters", "ListForks", "ListInjectedFaults", "ListJobs", "ListPrincipals", "ListSnapshots",
	"ListTriggers", "Promote", "PutPrincipal", "QueryAt", "ReplayDeadLetters", "Rewind", "RunClock", "ScanAt", "SetClock",
	"SetFaults", "SetThrottling", "UndoChanges", "Verify",
}

// OwnActions returns the names of the actions of what a stator has and DynamoDB does not.
func OwnActions() []string { return slices.Clone(ownActions) }

// IsOwnAction reports whether OwnActions has a name.
func IsOwnAction(name string) bool { return slices.Contains(ownActions, name) }

// namedService is a service of whose actions only the names are known.
type namedService struct {
	prefix, name string
	actions      []string
}

var namedServices = []namedService{{"dax:", "DAX", daxActions}, {"stator:", "stator", ownActions}}

// matches reports whether a pattern of a statement matches an action of the service.
func (s *namedService) matches(p *Pattern) bool {
	return slices.ContainsFunc(s.actions, func(name string) bool { return p.glob.match(s.prefix+name, nil, true) })
}

// operationActions are the operations that ask for actions of other names.
var operationActions = map[string]string{
	"TransactGetItems":      "GetItem",
	"TransactWriteItems":    "PutItem, UpdateItem, DeleteItem and ConditionCheckItem",
	"ExecuteStatement":      "PartiQLSelect, PartiQLInsert, PartiQLUpdate and PartiQLDelete",
	"BatchExecuteStatement": "PartiQLSelect, PartiQLInsert, PartiQLUpdate and PartiQLDelete",
	"ExecuteTransaction":    "PartiQLSelect, PartiQLInsert, PartiQLUpdate and PartiQLDelete",
}

// service is the prefix of the actions and keys of DynamoDB.
const service = "dynamodb:"

// expand returns the actions of DynamoDB that a pattern of a statement matches.
func (p *Pattern) expand() []*actionInfo {
	var all []*actionInfo
	for i := range actions {
		if p.glob.match(service+actions[i].name, nil, true) {
			all = append(all, &actions[i])
		}
	}
	return all
}

// allKeys returns the condition keys of an action.
func (a *actionInfo) allKeys() keySet {
	if a.types&(onTable|onIndex|onStream) != 0 {
		return a.keys | keyResourceTag
	}
	return a.keys
}

// expandActions returns the actions of DynamoDB that the statement is about.
func (s *Statement) expandActions() []*actionInfo {
	var all []*actionInfo
	for i := range actions {
		if s.matchesAction(&Request{Action: service + actions[i].name}) {
			all = append(all, &actions[i])
		}
	}
	return all
}

func actionNames(all []*actionInfo) []string {
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.name
	}
	return names
}

// conditionKey is a condition key that IAM knows.
type conditionKey struct {
	name   string // a / or : at its end stands for any name after it
	set    keySet // of a key that only some actions have
	many   bool   // the key can have several values
	absent bool   // IAM knows the key, but requests to stator never have it
	fine   bool   // it depends on the items and attributes of a request
}

var conditionKeys = []conditionKey{
	{name: "dynamodb:LeadingKeys", set: keyLeading, many: true, fine: true},
	{name: "dynamodb:FirstPartitionKeyValues", set: keyLeading, many: true, fine: true},
	{name: "dynamodb:SecondPartitionKeyValues", set: keyLaterKeys, many: true, fine: true},
	{name: "dynamodb:ThirdPartitionKeyValues", set: keyLaterKeys, many: true, fine: true},
	{name: "dynamodb:FourthPartitionKeyValues", set: keyLaterKeys, many: true, fine: true},
	{name: "dynamodb:Attributes", set: keyAttributes, many: true, fine: true},
	{name: "dynamodb:Select", set: keySelect, fine: true},
	{name: "dynamodb:ReturnValues", set: keyReturn, fine: true},
	{name: "dynamodb:ReturnConsumedCapacity", set: keyCapacity, fine: true},
	{name: "dynamodb:EnclosingOperation", set: keyEnclosing, fine: true},
	{name: "dynamodb:FullTableScan", set: keyFullScan, fine: true},
	{name: "dynamodb:FisActionId", set: keyFaults, absent: true},
	{name: "dynamodb:FisTargetArns", set: keyFaults, many: true, absent: true},
	{name: "aws:RequestTag/", set: keyRequestTag},
	{name: "aws:TagKeys", set: keyTagKeys, many: true},
	{name: "aws:ResourceTag/", set: keyResourceTag},
	{name: "aws:CurrentTime"},
	{name: "aws:EpochTime"},
	{name: "aws:PrincipalAccount"},
	{name: "aws:PrincipalArn"},
	{name: "aws:PrincipalTag/"},
	{name: "aws:PrincipalType"},
	{name: "aws:RequestedRegion"},
	{name: "aws:SecureTransport"},
	{name: "aws:SourceIp"},
	{name: "aws:UserAgent"},
	{name: "aws:userid"},
	{name: "aws:username"},
	{name: "aws:CalledVia", many: true, absent: true},
	{name: "aws:CalledViaFirst", absent: true},
	{name: "aws:CalledViaLast", absent: true},
	{name: "aws:ChatbotSourceArn", absent: true},
	{name: "aws:Ec2InstanceSourcePrivateIPv4", absent: true},
	{name: "aws:Ec2InstanceSourceVpc", absent: true},
	{name: "aws:FederatedProvider", absent: true},
	{name: "aws:MultiFactorAuthAge", absent: true},
	{name: "aws:MultiFactorAuthPresent", absent: true},
	{name: "aws:PrincipalIsAWSService", absent: true},
	{name: "aws:PrincipalOrgID", absent: true},
	{name: "aws:PrincipalOrgPaths", many: true, absent: true},
	{name: "aws:PrincipalServiceName", absent: true},
	{name: "aws:PrincipalServiceNamesList", many: true, absent: true},
	{name: "aws:referer", absent: true},
	{name: "aws:ResourceAccount", absent: true},
	{name: "aws:ResourceOrgID", absent: true},
	{name: "aws:ResourceOrgPaths", many: true, absent: true},
	{name: "aws:SourceAccount", absent: true},
	{name: "aws:SourceArn", absent: true},
	{name: "aws:SourceIdentity", absent: true},
	{name: "aws:SourceOrgID", absent: true},
	{name: "aws:SourceOrgPaths", many: true, absent: true},
	{name: "aws:SourceOwner", absent: true},
	{name: "aws:SourceVpc", absent: true},
	{name: "aws:SourceVpce", absent: true},
	{name: "aws:TokenIssueTime", absent: true},
	{name: "aws:ViaAWSService", absent: true},
	{name: "aws:VpcSourceIp", absent: true},
	{name: "accounts.google.com:", absent: true},
	{name: "cognito-identity.amazonaws.com:", absent: true},
	{name: "graph.facebook.com:", absent: true},
	{name: "saml:", absent: true},
	{name: "sts:", absent: true},
	{name: "www.amazon.com:", absent: true},
}

// keyInfo returns what is known of a key, in any case, or nil.
func keyInfo(key string) *conditionKey {
	for i := range conditionKeys {
		k := &conditionKeys[i]
		if open := strings.ContainsAny(k.name[len(k.name)-1:], "/:"); open && len(key) > len(k.name) && hasPrefix(key, k.name, true) || !open && equalFold(k.name, key) {
			return k
		}
	}
	return nil
}

// isFineGrained reports whether a key depends on the items and attributes of a
// request.
func isFineGrained(key string) bool {
	k := keyInfo(key)
	return k != nil && k.fine
}

func keyNames() []string {
	names := make([]string, len(conditionKeys))
	for i := range conditionKeys {
		names[i] = conditionKeys[i].name
	}
	return names
}

// KnownActions returns the names of the actions of DynamoDB, without their prefix.
func KnownActions() []string {
	names := make([]string, len(actions))
	for i := range actions {
		names[i] = actions[i].name
	}
	slices.Sort(names)
	return names
}
