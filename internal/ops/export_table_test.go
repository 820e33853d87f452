package ops_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/statortest"
)

const ordersARN = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders"

// transfers is a client of a database with the bucket "files" and a table that
// can be exported.
type transfers struct {
	*backups
}

func startTransfers(t *testing.T) *transfers {
	folder := t.TempDir()
	b := &backups{statortest.StartWith(t, stator.Options{Buckets: map[string]string{"files": folder}}), t, folder}
	b.orders()
	_, err := b.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{TableName: aws.String("Orders"),
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
	b.must(err)
	return &transfers{b}
}

func (x *transfers) exported(arn *string) *types.ExportDescription {
	x.t.Helper()
	for {
		out, err := x.DescribeExport(x.t.Context(), &dynamodb.DescribeExportInput{ExportArn: arn})
		x.must(err)
		if out.ExportDescription.ExportStatus != types.ExportStatusInProgress {
			return out.ExportDescription
		}
		time.Sleep(time.Millisecond)
	}
}

func (x *transfers) imported(arn *string) *types.ImportTableDescription {
	x.t.Helper()
	for {
		out, err := x.DescribeImport(x.t.Context(), &dynamodb.DescribeImportInput{ImportArn: arn})
		x.must(err)
		if out.ImportTableDescription.ImportStatus != types.ImportStatusInProgress {
			return out.ImportTableDescription
		}
		time.Sleep(time.Millisecond)
	}
}

// into returns a request to import the files of an export.
func into(table, prefix string) *dynamodb.ImportTableInput {
	return &dynamodb.ImportTableInput{
		S3BucketSource: &types.S3BucketSource{S3Bucket: aws.String("files"), S3KeyPrefix: &prefix},
		InputFormat:    types.InputFormatDynamodbJson, InputCompressionType: types.InputCompressionTypeGzip,
		TableCreationParameters: &types.TableCreationParameters{
			TableName: &table, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions:   []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("a"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:              []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
			GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{byAttribute("a")},
		},
	}
}

// A table is exported and imported, and both jobs are described and listed.
func TestExportAndImport(t *testing.T) {
	x := startTransfers(t)
	for range 2 {
		ask := &dynamodb.ExportTableToPointInTimeInput{
			TableArn: aws.String(ordersARN), S3Bucket: aws.String("files"), S3Prefix: aws.String("daily"), ClientToken: aws.String("a-token"),
			S3SseAlgorithm: types.S3SseAlgorithmAes256,
		}
		begun, err := x.ExportTableToPointInTime(t.Context(), ask)
		x.must(err)
		done := x.exported(begun.ExportDescription.ExportArn)
		if done.ExportStatus != types.ExportStatusCompleted || *done.ItemCount != 30 || done.ExportFormat != types.ExportFormatDynamodbJson ||
			done.ExportType != types.ExportTypeFullExport || *done.S3Prefix != "daily" || done.EndTime == nil || *done.BilledSizeBytes == 0 || *done.ClientToken != "a-token" {
			t.Errorf("the export is %+v", done)
		}
		if _, err := os.Stat(filepath.Join(x.folder, *done.ExportManifest)); err != nil {
			t.Error(err)
		}
	}
	exports, err := x.ListExports(t.Context(), &dynamodb.ListExportsInput{TableArn: aws.String(ordersARN)})
	x.must(err)
	if len(exports.ExportSummaries) != 1 || exports.ExportSummaries[0].ExportStatus != types.ExportStatusCompleted {
		t.Fatalf("the exports are %+v", exports.ExportSummaries) // the requests have the same token
	}
	id := (*exports.ExportSummaries[0].ExportArn)[strings.LastIndex(*exports.ExportSummaries[0].ExportArn, "/")+1:]
	for i := range 3 {
		begun, err := x.ImportTable(t.Context(), into(fmt.Sprint("Again", i), "daily/AWSDynamoDB/"+id+"/data/"))
		x.must(err)
		if d := begun.ImportTableDescription; d.ImportStatus != types.ImportStatusInProgress || d.TableId == nil || *d.TableCreationParameters.TableName != fmt.Sprint("Again", i) ||
			len(d.TableCreationParameters.GlobalSecondaryIndexes) != 1 {
			t.Errorf("the import is %+v", d)
		}
		done := x.imported(begun.ImportTableDescription.ImportArn)
		if done.ImportStatus != types.ImportStatusCompleted || done.ImportedItemCount != 30 || done.ProcessedItemCount != 30 || done.ErrorCount != 0 || *done.ProcessedSizeBytes == 0 {
			t.Errorf("the import is %+v", done)
		}
	}
	found, err := x.Query(t.Context(), &dynamodb.QueryInput{TableName: aws.String("Again1"), IndexName: aws.String("by-a"), KeyConditionExpression: aws.String("a = :a"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":a": &types.AttributeValueMemberS{Value: "x"}}})
	x.must(err)
	if found.Count != 30 {
		t.Errorf("the index has %d items", found.Count)
	}
	if d := x.active("Again1"); d.RestoreSummary != nil {
		t.Errorf("an imported table has a RestoreSummary: %+v", d.RestoreSummary)
	}
	pages, seen := 0, map[string]bool{}
	for p := dynamodb.NewListImportsPaginator(x.Client, &dynamodb.ListImportsInput{PageSize: aws.Int32(2)}); p.HasMorePages(); pages++ {
		page, err := p.NextPage(t.Context())
		x.must(err)
		for _, s := range page.ImportSummaryList {
			seen[*s.ImportArn] = true
		}
	}
	if pages != 2 || len(seen) != 3 {
		t.Errorf("%d pages list %d imports", pages, len(seen))
	}
}

// A request that cannot be fulfilled has its own fault and starts nothing.
func TestTransferFaults(t *testing.T) {
	x := startTransfers(t)
	expect := func(code string, err error) {
		t.Helper()
		var fault smithy.APIError
		if !errors.As(err, &fault) || fault.ErrorCode() != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	export := func(change func(*dynamodb.ExportTableToPointInTimeInput)) error {
		in := &dynamodb.ExportTableToPointInTimeInput{TableArn: aws.String(ordersARN), S3Bucket: aws.String("files")}
		change(in)
		_, err := x.ExportTableToPointInTime(t.Context(), in)
		return err
	}
	expect("ValidationException", export(func(in *dynamodb.ExportTableToPointInTimeInput) { in.S3Bucket = aws.String("other") }))
	expect("ValidationException", export(func(in *dynamodb.ExportTableToPointInTimeInput) { in.S3Prefix = aws.String("a/../../b") }))
	expect("TableNotFoundException", export(func(in *dynamodb.ExportTableToPointInTimeInput) { in.TableArn = aws.String(ordersARN + "2") }))
	expect("InvalidExportTimeException", export(func(in *dynamodb.ExportTableToPointInTimeInput) {
		in.ExportTime = aws.Time(time.Now().Add(time.Minute))
	}))
	expect("InvalidExportTimeException", export(func(in *dynamodb.ExportTableToPointInTimeInput) { in.ExportTime = aws.Time(time.Now().Add(-time.Hour)) }))
	expect("InvalidExportTimeException", export(func(in *dynamodb.ExportTableToPointInTimeInput) {
		in.ExportType, in.IncrementalExportSpecification = types.ExportTypeIncrementalExport, &types.IncrementalExportSpecification{ExportFromTime: aws.Time(time.Now().Add(-time.Hour))}
	}))
	x.must(export(func(in *dynamodb.ExportTableToPointInTimeInput) { in.ClientToken = aws.String("t") }))
	expect("ExportConflictException", export(func(in *dynamodb.ExportTableToPointInTimeInput) {
		in.ClientToken, in.ExportFormat = aws.String("t"), types.ExportFormatIon
	}))

	_, err := x.ImportTable(t.Context(), into("Orders", ""))
	expect("ResourceInUseException", err)
	in := into("Again", "nowhere/")
	in.ClientToken = aws.String("t")
	begun, err := x.ImportTable(t.Context(), in)
	x.must(err)
	if done := x.imported(begun.ImportTableDescription.ImportArn); done.ImportStatus != types.ImportStatusFailed || !strings.Contains(*done.FailureMessage, "nowhere/") {
		t.Errorf("an import of no files is %+v", done)
	}
	in.InputCompressionType = types.InputCompressionTypeNone
	_, err = x.ImportTable(t.Context(), in)
	expect("ImportConflictException", err)
	_, err = x.DescribeImport(t.Context(), &dynamodb.DescribeImportInput{ImportArn: aws.String(ordersARN + "/import/01234567890123-01234567")})
	expect("ImportNotFoundException", err)
	_, err = x.DescribeExport(t.Context(), &dynamodb.DescribeExportInput{ExportArn: aws.String(ordersARN + "/export/01234567890123-01234567")})
	expect("ExportNotFoundException", err)
}

// A prefix that is too long for the names of the files is rejected. It does not
// crash the background work, now and after every start.
func TestExportWithALongPrefix(t *testing.T) {
	x := startTransfers(t)
	out, err := x.ExportTableToPointInTime(t.Context(), &dynamodb.ExportTableToPointInTimeInput{
		TableArn: aws.String(ordersARN), S3Bucket: aws.String("files"), S3Prefix: aws.String(strings.Repeat("abcdefghi/", 100)),
	})
	if err == nil {
		t.Errorf("the request is accepted, and the export is %s", x.exported(out.ExportDescription.ExportArn).ExportStatus)
	}
}
