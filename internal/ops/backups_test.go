package ops_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// backups is a client of a database whose backups are in a folder.
type backups struct {
	*dynamodb.Client
	t      *testing.T
	folder string
}

func startBackups(t *testing.T) *backups {
	folder := t.TempDir()
	return &backups{statortest.StartWith(t, stator.Options{Backups: folder}), t, folder}
}

// orders creates a table with two indexes and some items.
func (b *backups) orders() {
	b.t.Helper()
	attr := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS}
	}
	_, err := b.CreateTable(b.t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions:   []types.AttributeDefinition{attr("id"), attr("a"), attr("b")},
		KeySchema:              []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{byAttribute("a"), byAttribute("b")},
		Tags:                   []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}},
	})
	b.must(err)
	for i := range 30 {
		b.put(fmt.Sprint(i))
	}
}

func byAttribute(name string) types.GlobalSecondaryIndex {
	return types.GlobalSecondaryIndex{
		IndexName: aws.String("by-" + name), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String(name), KeyType: types.KeyTypeHash}},
	}
}

func (b *backups) put(id string) {
	b.t.Helper()
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	_, err := b.PutItem(b.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"),
		Item: map[string]types.AttributeValue{"id": text(id), "a": text("x"), "b": text("y")}})
	b.must(err)
}

func (b *backups) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// active waits until a table is active.
func (b *backups) active(table string) *types.TableDescription {
	b.t.Helper()
	for {
		d, err := b.DescribeTable(b.t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
		b.must(err)
		if d.Table.TableStatus == types.TableStatusActive {
			return d.Table
		}
		time.Sleep(time.Millisecond)
	}
}

// count returns the number of items in a table or one of its indexes.
func (b *backups) count(table, index string) int32 {
	b.t.Helper()
	in := &dynamodb.ScanInput{TableName: &table, Select: types.SelectCount}
	if index != "" {
		in.IndexName = &index
	}
	found, err := b.Scan(b.t.Context(), in)
	b.must(err)
	return found.Count
}

func code(err error) string {
	var fault smithy.APIError
	if errors.As(err, &fault) {
		return fault.ErrorCode()
	}
	return fmt.Sprint(err)
}

// available creates a backup and waits until it is complete.
func (b *backups) available(name string) string {
	b.t.Helper()
	made, err := b.CreateBackup(b.t.Context(), &dynamodb.CreateBackupInput{TableName: aws.String("Orders"), BackupName: &name})
	b.must(err)
	if d := made.BackupDetails; d.BackupStatus != types.BackupStatusCreating || d.BackupType != types.BackupTypeUser || *d.BackupName != name {
		b.t.Errorf("the reply of CreateBackup is %+v", d)
	}
	for {
		d, err := b.DescribeBackup(b.t.Context(), &dynamodb.DescribeBackupInput{BackupArn: made.BackupDetails.BackupArn})
		b.must(err)
		if d.BackupDescription.BackupDetails.BackupStatus == types.BackupStatusAvailable {
			return *made.BackupDetails.BackupArn
		}
		time.Sleep(time.Millisecond)
	}
}

func TestRestoreFromBackup(t *testing.T) {
	b := startBackups(t)
	b.orders()
	arn := b.available("first")
	b.put("later")
	d, err := b.DescribeBackup(t.Context(), &dynamodb.DescribeBackupInput{BackupArn: &arn})
	b.must(err)
	if s := d.BackupDescription.SourceTableDetails; *s.ItemCount != 30 || *s.TableName != "Orders" || s.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("SourceTableDetails is %+v", s)
	}
	if n := len(d.BackupDescription.SourceTableFeatureDetails.GlobalSecondaryIndexes); n != 2 {
		t.Errorf("the backup has %d indexes", n)
	}
	made, err := b.RestoreTableFromBackup(t.Context(), &dynamodb.RestoreTableFromBackupInput{
		BackupArn: &arn, TargetTableName: aws.String("Again"),
		GlobalSecondaryIndexOverride:  []types.GlobalSecondaryIndex{{IndexName: aws.String("by-a"), KeySchema: byAttribute("a").KeySchema, Projection: byAttribute("a").Projection, ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(3), WriteCapacityUnits: aws.Int64(4)}}},
		BillingModeOverride:           types.BillingModeProvisioned,
		ProvisionedThroughputOverride: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(6)},
		SSESpecificationOverride:      &types.SSESpecification{Enabled: aws.Bool(true), SSEType: types.SSETypeKms},
	})
	b.must(err)
	if d := made.TableDescription; d.TableStatus != types.TableStatusCreating || !*d.RestoreSummary.RestoreInProgress {
		t.Errorf("the reply of the restore has status %s, %+v", d.TableStatus, d.RestoreSummary)
	}
	again := b.active("Again")
	if r := again.RestoreSummary; *r.RestoreInProgress || *r.SourceBackupArn != arn || !strings.HasSuffix(*r.SourceTableArn, "table/Orders") {
		t.Errorf("RestoreSummary is %+v", r)
	}
	if *again.ProvisionedThroughput.ReadCapacityUnits != 5 || again.SSEDescription == nil || len(again.GlobalSecondaryIndexes) != 1 || len(again.AttributeDefinitions) != 2 {
		t.Errorf("the restored table is %+v", again)
	}
	if n, indexed := b.count("Again", ""), b.count("Again", "by-a"); n != 30 || indexed != 30 {
		t.Errorf("the restored table has %d items and %d index entries", n, indexed)
	}
	gone, err := b.DeleteBackup(t.Context(), &dynamodb.DeleteBackupInput{BackupArn: &arn})
	b.must(err)
	if s := gone.BackupDescription.BackupDetails.BackupStatus; s != types.BackupStatusDeleted {
		t.Errorf("the status of a deleted backup is %s", s)
	}
	if _, err := b.DescribeBackup(t.Context(), &dynamodb.DescribeBackupInput{BackupArn: &arn}); code(err) != "BackupNotFoundException" {
		t.Errorf("describing a deleted backup: %v", err)
	}
}

func TestListBackupsPages(t *testing.T) {
	b := startBackups(t)
	b.orders()
	var arns []string
	for i := range 5 {
		arns = append(arns, b.available(fmt.Sprintf("backup-%d", i)))
		time.Sleep(2 * time.Millisecond) // ids are ordered by millisecond
	}
	var found []string
	var from *string
	for {
		page, err := b.ListBackups(t.Context(), &dynamodb.ListBackupsInput{TableName: aws.String("Orders"), Limit: aws.Int32(2), ExclusiveStartBackupArn: from})
		b.must(err)
		for _, s := range page.BackupSummaries {
			found = append(found, *s.BackupArn)
		}
		if from = page.LastEvaluatedBackupArn; from == nil {
			break
		}
	}
	if strings.Join(found, " ") != strings.Join(arns, " ") {
		t.Errorf("the pages have %v, want %v", found, arns)
	}
	for name, in := range map[string]*dynamodb.ListBackupsInput{
		"other table": {TableName: aws.String("Other")},
		"system":      {BackupType: types.BackupTypeFilterSystem},
		"earlier":     {TimeRangeUpperBound: aws.Time(time.Now().Add(-time.Hour))},
		"later":       {TimeRangeLowerBound: aws.Time(time.Now().Add(time.Hour))},
	} {
		if page, err := b.ListBackups(t.Context(), in); err != nil || len(page.BackupSummaries) > 0 {
			t.Errorf("%s: %v, %v", name, page, err)
		}
	}
}

// Restoring a damaged backup reports the name of the file and creates no table.
func TestRestoreReportsDamagedBackup(t *testing.T) {
	b := startBackups(t)
	b.orders()
	arn := b.available("first")
	name := arn[strings.LastIndex(arn, "/")+1:] + ".items"
	path := filepath.Join(b.folder, name)
	text, err := os.ReadFile(path)
	b.must(err)
	text[len(text)/2] ^= 1
	b.must(os.WriteFile(path, text, 0o600))
	_, err = b.RestoreTableFromBackup(t.Context(), &dynamodb.RestoreTableFromBackupInput{BackupArn: &arn, TargetTableName: aws.String("Again")},
		func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
	if err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("the error is %v", err)
	}
	if _, err := b.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("Again")}); code(err) != "ResourceNotFoundException" {
		t.Errorf("the table exists: %v", err)
	}
}

// A table is restored to the latest second and to an earlier one, without its
// tags and its recovery.
func TestRestoreToPointInTime(t *testing.T) {
	b := startBackups(t)
	b.orders()
	_, err := b.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{TableName: aws.String("Orders"),
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
	b.must(err)
	then := time.Now().Truncate(time.Second)
	time.Sleep(time.Until(then.Add(1100 * time.Millisecond)))
	b.put("later")
	for target, want := range map[string]int32{"Then": 30, "Latest": 31} {
		in := &dynamodb.RestoreTableToPointInTimeInput{SourceTableName: aws.String("Orders"), TargetTableName: &target}
		if target == "Then" {
			in.RestoreDateTime = &then
		} else {
			in.UseLatestRestorableTime = aws.Bool(true)
			in.GlobalSecondaryIndexOverride = []types.GlobalSecondaryIndex{}
		}
		_, err := b.RestoreTableToPointInTime(t.Context(), in)
		b.must(err)
		d := b.active(target)
		if n := b.count(target, ""); n != want {
			t.Errorf("%s has %d items, want %d", target, n, want)
		}
		tags, err := b.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: d.TableArn})
		b.must(err)
		recovery, err := b.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: &target})
		b.must(err)
		if len(tags.Tags) > 0 || recovery.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus != types.PointInTimeRecoveryStatusDisabled {
			t.Errorf("%s has %v, %+v", target, tags.Tags, recovery)
		}
		if indexes := map[string]int{"Then": 2, "Latest": 0}[target]; len(d.GlobalSecondaryIndexes) != indexes {
			t.Errorf("%s has %d indexes, want %d", target, len(d.GlobalSecondaryIndexes), indexes)
		}
	}
}

// Scheduled backups have the type AWS_BACKUP, and ListBackups lists them if it is
// asked to.
func TestScheduledBackupType(t *testing.T) {
	folder := t.TempDir()
	b := &backups{statortest.StartWith(t, stator.Options{Backups: folder, BackupEvery: 100 * time.Millisecond, BackupKeep: 1000}), t, folder}
	b.orders()
	own := b.available("mine")
	for _, c := range []struct {
		filter types.BackupTypeFilter
		want   []types.BackupType
	}{
		{"", []types.BackupType{types.BackupTypeUser}},
		{types.BackupTypeFilterUser, []types.BackupType{types.BackupTypeUser}},
		{types.BackupTypeFilterAwsBackup, []types.BackupType{types.BackupTypeAwsBackup}},
		{types.BackupTypeFilterAll, []types.BackupType{types.BackupTypeAwsBackup, types.BackupTypeUser}},
		{types.BackupTypeFilterSystem, nil},
	} {
		found := make(map[types.BackupType]bool)
		for len(found) < len(c.want) { // the first scheduled backups may have no table yet
			page, err := b.ListBackups(t.Context(), &dynamodb.ListBackupsInput{TableName: aws.String("Orders"), BackupType: c.filter})
			b.must(err)
			for _, s := range page.BackupSummaries {
				found[s.BackupType] = true
				if isOwn := *s.BackupArn == own; isOwn != (s.BackupType == types.BackupTypeUser) {
					t.Errorf("%s has the type %s", *s.BackupArn, s.BackupType)
				}
			}
		}
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, c.want) {
			t.Errorf("the filter %q finds %v, want %v", c.filter, got, c.want)
		}
	}
}
