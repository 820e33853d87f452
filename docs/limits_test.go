package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

// A table has a name of 3 to 255 characters.
func TestTableNameLength(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	for _, c := range []struct {
		length int
		fault  string
	}{
		{2, "Member must have length greater than or equal to 3"},
		{3, ""},
		{255, ""},
		{256, "Member must have length less than or equal to 255"},
	} {
		name := strings.Repeat("n", c.length)
		if c.fault == "" {
			d.must("CreateTable", createTable(name))
			d.must("PutItem", fmt.Sprintf(`{"TableName": %q, "Item": {"id": {"S": "1"}}}`, name))
			continue
		}
		d.refused("CreateTable", createTable(name), c.fault)
	}
}

// 300 exports may be in progress; the next is refused.
func TestExportsInProgress(t *testing.T) {
	d := openDatabase(t, stator.Options{NoBackground: true, Buckets: map[string]string{"files": t.TempDir()}})
	d.must("CreateTable", createTable("Orders"))
	d.must("UpdateContinuousBackups", `{"TableName": "Orders", "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}`)
	export := func(token int) string {
		return fmt.Sprintf(`{"TableArn": "arn:aws:dynamodb:us-east-1:000000000000:table/Orders", "S3Bucket": "files", "ClientToken": "token-%d"}`, token)
	}
	for i := range 300 {
		d.must("ExportTableToPointInTime", export(i))
	}
	d.refused("ExportTableToPointInTime", export(300), "LimitExceededException", "Too many exports are in progress")
}

// 50 imports may be in progress; the next is refused.
func TestImportsInProgress(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "items.json"), []byte(`{"Item": {"id": {"S": "1"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := openDatabase(t, stator.Options{NoBackground: true, Buckets: map[string]string{"files": folder}})
	imports := func(i int) string {
		return fmt.Sprintf(`{"S3BucketSource": {"S3Bucket": "files"}, "InputFormat": "DYNAMODB_JSON", "ClientToken": "token-%d",
			"TableCreationParameters": %s}`, i, createTable(fmt.Sprint("Imported", i)))
	}
	for i := range 50 {
		d.must("ImportTable", imports(i))
	}
	d.refused("ImportTable", imports(50), "LimitExceededException", "Too many imports are in progress")
}

// 50 backups may wait to be written; the next is refused.
func TestBackupsInProgress(t *testing.T) {
	d := openDatabase(t, stator.Options{NoBackground: true})
	d.must("CreateTable", createTable("Orders"))
	for i := range 50 {
		d.must("CreateBackup", fmt.Sprintf(`{"TableName": "Orders", "BackupName": "backup-%d"}`, i))
	}
	d.refused("CreateBackup", `{"TableName": "Orders", "BackupName": "last"}`, "LimitExceededException", "Too many backups are being created")
}

// clock is a time that a test sets.
type clock struct{ atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.Store(time.Unix(1_800_000_000, 0).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.Load()) }
func (c *clock) advance(d time.Duration) { c.Add(int64(d)) }

// A repeated transaction is recognised by its token for ten minutes.
func TestTransactionTokenLasts10Minutes(t *testing.T) {
	c := newClock()
	d := openDatabase(t, stator.Options{Now: c.now})
	d.must("CreateTable", createTable("Orders"))
	count := func() string {
		d.must("TransactWriteItems", `{"ClientRequestToken": "token", "TransactItems": [{"Update": {"TableName": "Orders", "Key": {"id": {"S": "1"}},
			"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}}]}`)
		return d.must("GetItem", `{"TableName": "Orders", "Key": {"id": {"S": "1"}}, "ProjectionExpression": "n"}`)
	}
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "1"}, {10 * time.Minute, "1"}, {time.Second, "2"}} {
		c.advance(step.after)
		if got, want := count(), `{"Item":{"n":{"N":"`+step.want+`"}}}`; got != want {
			t.Errorf("%v later the item is %s, want %s", step.after, got, want)
		}
	}
}

// A shard iterator is valid for 15 minutes.
func TestShardIteratorLasts15Minutes(t *testing.T) {
	c := newClock()
	d := openDatabase(t, stator.Options{Now: c.now})
	d.must("CreateTable", createTable("Orders", `"StreamSpecification": {"StreamEnabled": true, "StreamViewType": "KEYS_ONLY"}`))
	var reply struct {
		Table             struct{ LatestStreamArn string }
		StreamDescription struct{ Shards []struct{ ShardId string } }
		ShardIterator     string
	}
	decode(t, d.must("DescribeTable", `{"TableName": "Orders"}`), &reply)
	decode(t, d.must("DescribeStream", fmt.Sprintf(`{"StreamArn": %q}`, reply.Table.LatestStreamArn)), &reply)
	decode(t, d.must("GetShardIterator", fmt.Sprintf(`{"StreamArn": %q, "ShardId": %q, "ShardIteratorType": "TRIM_HORIZON"}`,
		reply.Table.LatestStreamArn, reply.StreamDescription.Shards[0].ShardId)), &reply)
	records := fmt.Sprintf(`{"ShardIterator": %q}`, reply.ShardIterator)
	c.advance(15 * time.Minute)
	d.must("GetRecords", records)
	c.advance(time.Second)
	d.refused("GetRecords", records, "ExpiredIteratorException")
}

// The token of an export identifies it for 8 hours, and a finished export is
// described for 90 days.
func TestExportsAreKept(t *testing.T) {
	c := newClock()
	d := openDatabase(t, stator.Options{Now: c.now, Buckets: map[string]string{"files": t.TempDir()}})
	d.must("CreateTable", createTable("Orders"))
	d.must("UpdateContinuousBackups", `{"TableName": "Orders", "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}`)
	type description struct {
		ExportDescription struct{ ExportArn, ExportStatus string }
	}
	export := func() string {
		var reply description
		decode(t, d.must("ExportTableToPointInTime", `{"TableArn": "arn:aws:dynamodb:us-east-1:000000000000:table/Orders", "S3Bucket": "files", "ClientToken": "token"}`), &reply)
		return reply.ExportDescription.ExportArn
	}
	first := export()
	describe := fmt.Sprintf(`{"ExportArn": %q}`, first)
	for {
		var reply description
		decode(t, d.must("DescribeExport", describe), &reply)
		if reply.ExportDescription.ExportStatus != "IN_PROGRESS" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c.advance(8*time.Hour - time.Second)
	if again := export(); again != first {
		t.Errorf("within 8 hours the export is %s, not %s", again, first)
	}
	c.advance(2 * time.Second)
	if again := export(); again == first {
		t.Error("after 8 hours the token still identifies the export")
	}
	c.advance(90*24*time.Hour - 8*time.Hour - 2*time.Second)
	d.must("DescribeExport", describe)
	c.advance(4 * time.Second)
	d.refused("DescribeExport", describe, "ExportNotFoundException")
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
