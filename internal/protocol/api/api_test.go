package api_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// shapes pairs each of our structs with the SDK's for the same operation.
var shapes = []struct{ ours, theirs any }{
	{api.GetItem{}, dynamodb.GetItemInput{}}, {api.GetItemReply{}, dynamodb.GetItemOutput{}},
	{api.PutItem{}, dynamodb.PutItemInput{}}, {api.PutItemReply{}, dynamodb.PutItemOutput{}},
	{api.UpdateItem{}, dynamodb.UpdateItemInput{}}, {api.UpdateItemReply{}, dynamodb.UpdateItemOutput{}},
	{api.DeleteItem{}, dynamodb.DeleteItemInput{}}, {api.DeleteItemReply{}, dynamodb.DeleteItemOutput{}},
	{api.Query{}, dynamodb.QueryInput{}}, {api.PageReply{}, dynamodb.QueryOutput{}},
	{api.Scan{}, dynamodb.ScanInput{}}, {api.PageReply{}, dynamodb.ScanOutput{}},
	{api.BatchGetItem{}, dynamodb.BatchGetItemInput{}}, {api.BatchGetItemReply{}, dynamodb.BatchGetItemOutput{}},
	{api.BatchWriteItem{}, dynamodb.BatchWriteItemInput{}}, {api.BatchWriteItemReply{}, dynamodb.BatchWriteItemOutput{}},
	{api.TransactGetItems{}, dynamodb.TransactGetItemsInput{}}, {api.TransactGetItemsReply{}, dynamodb.TransactGetItemsOutput{}},
	{api.TransactWriteItems{}, dynamodb.TransactWriteItemsInput{}}, {api.TransactWriteItemsReply{}, dynamodb.TransactWriteItemsOutput{}},
	{api.CreateTable{}, dynamodb.CreateTableInput{}}, {api.TableReply{}, dynamodb.CreateTableOutput{}},
	{api.UpdateTable{}, dynamodb.UpdateTableInput{}}, {api.TableReply{}, dynamodb.UpdateTableOutput{}},
	{api.DeleteTable{}, dynamodb.DeleteTableInput{}}, {api.TableReply{}, dynamodb.DeleteTableOutput{}},
	{api.DescribeTable{}, dynamodb.DescribeTableInput{}}, {api.DescribeTableReply{}, dynamodb.DescribeTableOutput{}},
	{api.ListTables{}, dynamodb.ListTablesInput{}}, {api.ListTablesReply{}, dynamodb.ListTablesOutput{}},
	{api.TagResource{}, dynamodb.TagResourceInput{}}, {api.Nothing{}, dynamodb.TagResourceOutput{}},
	{api.UntagResource{}, dynamodb.UntagResourceInput{}}, {api.Nothing{}, dynamodb.UntagResourceOutput{}},
	{api.ListTagsOfResource{}, dynamodb.ListTagsOfResourceInput{}}, {api.ListTagsOfResourceReply{}, dynamodb.ListTagsOfResourceOutput{}},
	{api.DescribeLimits{}, dynamodb.DescribeLimitsInput{}}, {api.DescribeLimitsReply{}, dynamodb.DescribeLimitsOutput{}},
	{api.DescribeEndpoints{}, dynamodb.DescribeEndpointsInput{}}, {api.DescribeEndpointsReply{}, dynamodb.DescribeEndpointsOutput{}},
	{api.UpdateContinuousBackups{}, dynamodb.UpdateContinuousBackupsInput{}}, {api.ContinuousBackupsReply{}, dynamodb.UpdateContinuousBackupsOutput{}},
	{api.DescribeContinuousBackups{}, dynamodb.DescribeContinuousBackupsInput{}}, {api.ContinuousBackupsReply{}, dynamodb.DescribeContinuousBackupsOutput{}},
	{api.RestoreTableToPointInTime{}, dynamodb.RestoreTableToPointInTimeInput{}}, {api.TableReply{}, dynamodb.RestoreTableToPointInTimeOutput{}},
	{api.RestoreTableFromBackup{}, dynamodb.RestoreTableFromBackupInput{}}, {api.TableReply{}, dynamodb.RestoreTableFromBackupOutput{}},
	{api.CreateBackup{}, dynamodb.CreateBackupInput{}}, {api.CreateBackupReply{}, dynamodb.CreateBackupOutput{}},
	{api.DescribeBackup{}, dynamodb.DescribeBackupInput{}}, {api.BackupReply{}, dynamodb.DescribeBackupOutput{}},
	{api.DeleteBackup{}, dynamodb.DeleteBackupInput{}}, {api.BackupReply{}, dynamodb.DeleteBackupOutput{}},
	{api.ListBackups{}, dynamodb.ListBackupsInput{}}, {api.ListBackupsReply{}, dynamodb.ListBackupsOutput{}},
	{api.ExportTableToPointInTime{}, dynamodb.ExportTableToPointInTimeInput{}}, {api.ExportReply{}, dynamodb.ExportTableToPointInTimeOutput{}},
	{api.DescribeExport{}, dynamodb.DescribeExportInput{}}, {api.ExportReply{}, dynamodb.DescribeExportOutput{}},
	{api.ListExports{}, dynamodb.ListExportsInput{}}, {api.ListExportsReply{}, dynamodb.ListExportsOutput{}},
	{api.ImportTable{}, dynamodb.ImportTableInput{}}, {api.ImportReply{}, dynamodb.ImportTableOutput{}},
	{api.DescribeImport{}, dynamodb.DescribeImportInput{}}, {api.ImportReply{}, dynamodb.DescribeImportOutput{}},
	{api.ListImports{}, dynamodb.ListImportsInput{}}, {api.ListImportsReply{}, dynamodb.ListImportsOutput{}},
	{api.ConditionFailure{}, types.ConditionalCheckFailedException{}}, {api.TransactionCanceled{}, types.TransactionCanceledException{}},
}

// missing lists members of the SDK that we do not have, with the reason. A
// member that is no longer missing must be removed from it.
var missing = map[string]string{
	"VectorIndex.IndexName":          "vector indexes are not supported yet",
	"VectorIndex.Projection":         "vector indexes are not supported yet",
	"VectorIndex.VectorAttribute":    "vector indexes are not supported yet",
	"VectorIndex.SearchSchema":       "vector indexes are not supported yet",
	"VectorIndex.Dimensions":         "vector indexes are not supported yet",
	"VectorIndex.DistanceFunction":   "vector indexes are not supported yet",
	"VectorIndex.Create":             "vector indexes are not supported yet",
	"VectorIndex.Delete":             "vector indexes are not supported yet",
	"ConsumedCapacity.VectorIndexes": "vector indexes are not supported yet",
	"TableDescription.VectorIndexes": "vector indexes are not supported yet",

	"RestoreTableToPointInTime.VectorIndexOverride": "vector indexes are not supported yet",
	"RestoreTableFromBackup.VectorIndexOverride":    "vector indexes are not supported yet",
	"SourceTableFeatureDetails.VectorIndexes":       "vector indexes are not supported yet",

	"ExportDescription.FilterSpecification": "exports of some items only are not supported yet",

	"ReplicaUpdate.Create":                                "global tables are not supported yet",
	"ReplicaUpdate.Update":                                "global tables are not supported yet",
	"ReplicaUpdate.Disassociate":                          "global tables are not supported yet",
	"ReplicaUpdate.Delete":                                "global tables are not supported yet",
	"TableDescription.DisassociationProtectionEnabled":    "global tables are not supported yet",
	"TableDescription.GlobalTableSettingsReplicationMode": "global tables are not supported yet",
	"TableDescription.GlobalTableVersion":                 "global tables are not supported yet",
	"TableDescription.GlobalTableWitnesses":               "global tables are not supported yet",
	"TableDescription.MultiRegionConsistency":             "global tables are not supported yet",
	"TableDescription.Replicas":                           "global tables are not supported yet",

	"TableDescription.ArchivalSummary":              "a table is archived when its encryption key is lost; ours are not",
	"SSEDescription.InaccessibleEncryptionDateTime": "a table is archived when its encryption key is lost; ours are not",
	"ConditionFailure.Message":                      "it is the message of the error",
	"ConditionFailure.ErrorCodeOverride":            "it is the SDK's own",
	"TransactionCanceled.Message":                   "it is the message of the error",
	"TransactionCanceled.ErrorCodeOverride":         "it is the SDK's own",
}

// added lists our members that the SDK does not have, with the reason.
var added = map[string]string{
	"TableDescription.TableThroughputModeSummary": "the service sends it in addition to BillingModeSummary",
}

// Every member that the SDK has for one of our operations is declared with
// its type, and no others are.
func TestMembersAreTheSDKs(t *testing.T) {
	c := sdkComparison{t: t, seen: make(map[[2]reflect.Type]bool), used: make(map[string]bool)}
	for _, s := range shapes {
		c.structs(reflect.TypeOf(s.ours), reflect.TypeOf(s.theirs))
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(missing)), slices.Sorted(maps.Keys(added))) {
		if !c.used[name] {
			t.Errorf("%s is listed as an exception but is not one", name)
		}
	}
}

type sdkComparison struct {
	t    *testing.T
	seen map[[2]reflect.Type]bool
	used map[string]bool // exceptions
}

func (c *sdkComparison) structs(ours, theirs reflect.Type) {
	pair := [2]reflect.Type{ours, theirs}
	if c.seen[pair] {
		return
	}
	c.seen[pair] = true
	has := make(map[string]bool)
	for _, f := range reflect.VisibleFields(ours) {
		if f.Anonymous || f.Tag.Get("json") == "-" {
			continue
		}
		has[f.Name] = true
		name := ours.Name() + "." + f.Name
		other, ok := theirs.FieldByName(f.Name)
		if _, known := added[name]; known && !ok {
			c.used[name] = true
		} else if !ok {
			c.t.Errorf("%s is not in the SDK's %s", name, theirs)
		} else {
			c.types(name, f.Type, other.Type)
		}
	}
	for _, f := range reflect.VisibleFields(theirs) {
		if !f.IsExported() || has[f.Name] || f.Name == "ResultMetadata" {
			continue
		}
		name := ours.Name() + "." + f.Name
		if _, known := missing[name]; known {
			c.used[name] = true
		} else {
			c.t.Errorf("%s is missing; the SDK's %s has it", name, theirs)
		}
	}
}

// types compares the types of two members. Pointers are ignored.
func (c *sdkComparison) types(name string, ours, theirs reflect.Type) {
	for ours.Kind() == reflect.Pointer {
		ours = ours.Elem()
	}
	for theirs.Kind() == reflect.Pointer {
		theirs = theirs.Elem()
	}
	values := reflect.TypeFor[map[string]types.AttributeValue]()
	switch ours {
	case reflect.TypeFor[item.Item](), reflect.TypeFor[api.Attributes]():
		c.must(name, ours, theirs, theirs == values)
		return
	case reflect.TypeFor[api.Value]():
		c.must(name, ours, theirs, theirs == values.Elem())
		return
	case reflect.TypeFor[api.Time]():
		c.must(name, ours, theirs, theirs == reflect.TypeFor[time.Time]())
		return
	}
	switch ours.Kind() {
	case reflect.Struct:
		if c.must(name, ours, theirs, theirs.Kind() == reflect.Struct) {
			c.structs(ours, theirs)
		}
	case reflect.Slice, reflect.Map:
		if c.must(name, ours, theirs, theirs.Kind() == ours.Kind()) {
			c.types(name, ours.Elem(), theirs.Elem())
		}
	case reflect.Int: // of a reply
		c.must(name, ours, theirs, theirs.Kind() == reflect.Int32)
	default:
		c.must(name, ours, theirs, theirs.Kind() == ours.Kind())
	}
}

func (c *sdkComparison) must(name string, ours, theirs reflect.Type, ok bool) bool {
	if !ok {
		c.t.Errorf("%s is %s, the SDK has %s", name, ours, theirs)
	}
	return ok
}

func TestTimeOf(t *testing.T) {
	if got := api.TimeOf(time.Time{}); got != nil {
		t.Errorf("no time is %v", got)
	}
	now := time.Unix(1, 0)
	if got := api.TimeOf(now); got == nil || !got.Equal(now) {
		t.Errorf("%v is %v", now, got)
	}
}
