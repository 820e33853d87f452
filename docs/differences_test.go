package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/logtest"
)

// All regions share their tables; an ARN shows the region of the request's signature.
func TestRegionsShareTables(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	d.must("CreateTable", createTable("Orders"))
	for _, region := range []string{"us-east-1", "eu-west-1"} {
		if _, reply := d.ask(region, "DescribeTable", `{"TableName": "Orders"}`); !strings.Contains(reply, `"TableArn":"arn:aws:dynamodb:`+region+`:000000000000:table/Orders"`) {
			t.Errorf("in %s the table is %s", region, reply)
		}
	}
}

// Counts include each write that was answered.
func TestItemCountsAreLive(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	d.must("CreateTable", `{"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "a", "AttributeType": "S"}],
		"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
		"GlobalSecondaryIndexes": [{"IndexName": "by-a", "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}], "Projection": {"ProjectionType": "KEYS_ONLY"}}]}`)
	type count struct {
		ItemCount                      int
		TableSizeBytes, IndexSizeBytes int
	}
	for i := 1; i <= 3; i++ {
		// The table has two bytes of names and three of values, the index what
		// it has of these: everything.
		d.must("PutItem", fmt.Sprintf(`{"TableName": "Orders", "Item": {"id": {"S": "%d"}, "a": {"S": "x"}}}`, i))
		var reply struct {
			Table struct {
				count
				GlobalSecondaryIndexes []count
			}
		}
		if err := json.Unmarshal([]byte(d.must("DescribeTable", `{"TableName": "Orders"}`)), &reply); err != nil {
			t.Fatal(err)
		}
		table, index := reply.Table.count, reply.Table.GlobalSecondaryIndexes[0]
		if table.ItemCount != i || table.TableSizeBytes != 5*i || index.ItemCount != i || index.IndexSizeBytes != 5*i {
			t.Errorf("after %d writes the counts are %+v and %+v", i, table, index)
		}
	}
}

// A BatchWriteItem with one item that does not fit writes nothing; one that
// succeeds leaves nothing unprocessed.
func TestBatchWriteIsAtomic(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	d.must("CreateTable", `{"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "a", "AttributeType": "S"}],
		"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
		"GlobalSecondaryIndexes": [{"IndexName": "by-a", "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}]}`)
	var puts []string
	for i := range 24 {
		puts = append(puts, fmt.Sprintf(`{"PutRequest": {"Item": {"id": {"S": "%d"}}}}`, i))
	}
	batch := func(last string) string {
		return fmt.Sprintf(`{"RequestItems": {"Orders": [%s, {"PutRequest": {"Item": {"id": {"S": "last"}, "a": %s}}}]}}`, strings.Join(puts, ", "), last)
	}
	d.refused("BatchWriteItem", batch(`{"N": "1"}`), "ValidationException")
	if reply := d.must("Scan", `{"TableName": "Orders", "Select": "COUNT"}`); !strings.Contains(reply, `"Count":0`) {
		t.Errorf("a batch that was refused left %s", reply)
	}
	if reply := d.must("BatchWriteItem", batch(`{"S": "1"}`)); reply != `{"UnprocessedItems":{}}` {
		t.Errorf("the batch answers %s", reply)
	}
}

// Reads without ConsistentRead, of a table and of a global index, have the last
// write that was answered.
func TestReadsAreCurrent(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	d.must("CreateTable", `{"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "a", "AttributeType": "S"}],
		"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
		"GlobalSecondaryIndexes": [{"IndexName": "by-a", "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}]}`)
	for i := range 200 {
		version := fmt.Sprintf(`"n":{"N":"%d"}`, i)
		d.must("PutItem", fmt.Sprintf(`{"TableName": "Orders", "Item": {"id": {"S": "1"}, "a": {"S": "x"}, %s}}`, version))
		for operation, body := range map[string]string{
			"GetItem":      `{"TableName": "Orders", "Key": {"id": {"S": "1"}}}`,
			"BatchGetItem": `{"RequestItems": {"Orders": {"Keys": [{"id": {"S": "1"}}]}}}`,
			"Scan":         `{"TableName": "Orders"}`,
			"Query":        `{"TableName": "Orders", "IndexName": "by-a", "KeyConditionExpression": "a = :a", "ExpressionAttributeValues": {":a": {"S": "x"}}}`,
		} {
			if reply := d.must(operation, body); !strings.Contains(reply, version) {
				t.Fatalf("%s after write %d answers %s", operation, i, reply)
			}
		}
	}
}

// Any number of clients read one shard at the same time.
func TestManyReadersOfOneShard(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	d.must("CreateTable", createTable("Orders", `"StreamSpecification": {"StreamEnabled": true, "StreamViewType": "KEYS_ONLY"}`))
	d.must("PutItem", `{"TableName": "Orders", "Item": {"id": {"S": "1"}}}`)
	var reply struct {
		Table             struct{ LatestStreamArn string }
		StreamDescription struct{ Shards []struct{ ShardId string } }
		ShardIterator     string
	}
	decode(t, d.must("DescribeTable", `{"TableName": "Orders"}`), &reply)
	decode(t, d.must("DescribeStream", fmt.Sprintf(`{"StreamArn": %q}`, reply.Table.LatestStreamArn)), &reply)
	decode(t, d.must("GetShardIterator", fmt.Sprintf(`{"StreamArn": %q, "ShardId": %q, "ShardIteratorType": "TRIM_HORIZON"}`, reply.Table.LatestStreamArn, reply.StreamDescription.Shards[0].ShardId)), &reply)
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			for range 20 {
				if status, text := d.ask("us-east-1", "GetRecords", fmt.Sprintf(`{"ShardIterator": %q}`, reply.ShardIterator)); status != 200 {
					t.Errorf("a reader gets %d %s", status, text)
				}
			}
		})
	}
	readers.Wait()
}

// A table with point-in-time recovery that is deleted leaves no backup.
func TestDeletedTableLeavesNoBackup(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	d.must("CreateTable", createTable("Orders"))
	d.must("UpdateContinuousBackups", `{"TableName": "Orders", "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}`)
	d.must("PutItem", `{"TableName": "Orders", "Item": {"id": {"S": "1"}}}`)
	d.must("DeleteTable", `{"TableName": "Orders"}`)
	for _, kind := range []string{"ALL", "SYSTEM"} {
		if reply := d.must("ListBackups", fmt.Sprintf(`{"BackupType": %q}`, kind)); reply != `{"BackupSummaries":[]}` {
			t.Errorf("the backups of type %s are %s", kind, reply)
		}
	}
}

// An export of some items only is refused.
func TestExportFilterIsRefused(t *testing.T) {
	d := openDatabase(t, stator.Options{Buckets: map[string]string{"files": t.TempDir()}})
	d.must("CreateTable", createTable("Orders"))
	d.must("UpdateContinuousBackups", `{"TableName": "Orders", "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}`)
	d.refused("ExportTableToPointInTime", `{"TableArn": "arn:aws:dynamodb:us-east-1:000000000000:table/Orders", "S3Bucket": "files", "FilterSpecification": {"FilterExpression": "a = :a"}}`,
		"ValidationException", "FilterSpecification is not supported yet")
}

// A reply lists attributes by name, in items and in maps within them.
func TestAttributesAreOrderedByName(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	d.must("CreateTable", createTable("Orders"))
	d.must("PutItem", `{"TableName": "Orders", "Item": {"z": {"M": {"c": {"N": "3"}, "b": {"N": "2"}}}, "id": {"S": "1"}, "a": {"S": "x"}}}`)
	const want = `{"a":{"S":"x"},"id":{"S":"1"},"z":{"M":{"b":{"N":"2"},"c":{"N":"3"}}}}`
	if reply := d.must("GetItem", `{"TableName": "Orders", "Key": {"id": {"S": "1"}}}`); reply != `{"Item":`+want+`}` {
		t.Errorf("the item is %s", reply)
	}
	if reply := d.must("Scan", `{"TableName": "Orders"}`); !strings.Contains(reply, `"Items":[`+want+`]`) {
		t.Errorf("the page is %s", reply)
	}
}

// Tables are not throttled, whatever their units are, and report them.
func TestUnitsDoNotThrottle(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	for name, member := range map[string]string{
		"Provisioned": `"ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}`,
		"OnDemand":    `"OnDemandThroughput": {"MaxReadRequestUnits": 1, "MaxWriteRequestUnits": 1}`,
		"Warm":        `"WarmThroughput": {"ReadUnitsPerSecond": 12000, "WriteUnitsPerSecond": 4000}`,
	} {
		d.must("CreateTable", createTable(name, member))
		key, _, _ := strings.Cut(member, ":")
		if reply := d.must("DescribeTable", fmt.Sprintf(`{"TableName": %q}`, name)); !strings.Contains(reply, key) {
			t.Errorf("%s is described as %s", name, reply)
		}
		for i := range 400 { // more than a burst of 300 seconds
			d.must("PutItem", fmt.Sprintf(`{"TableName": %q, "Item": {"id": {"S": "%d"}}}`, name, i))
			d.must("GetItem", fmt.Sprintf(`{"TableName": %q, "Key": {"id": {"S": "%d"}}, "ConsistentRead": true}`, name, i))
		}
	}
}

// Whether data is encrypted is an option of the server: a table that asks for a KMS key is described
// so, and a server that does not encrypt logs a warning.
func TestEncryptionOfTableIsDescribed(t *testing.T) {
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(strings.Repeat("0f", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"", keyFile} {
		folder := filepath.Join(t.TempDir(), "data")
		var log logtest.Log
		d := openDatabase(t, stator.Options{Dir: folder, EncryptionKey: source, Log: log.Logger()})
		const key, secret = "arn:aws:kms:us-east-1:000000000000:key/does-not-exist", "7c1f0a95e2"
		if reply := d.must("CreateTable", createTable("Orders", `"SSESpecification": {"Enabled": true, "SSEType": "KMS", "KMSMasterKeyId": "`+key+`"}`)); !strings.Contains(reply, key) {
			t.Errorf("the table is %s", reply)
		}
		d.must("PutItem", `{"TableName": "Orders", "Item": {"id": {"S": "`+secret+`"}}}`)
		d.close()
		found := false
		err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			found = found || bytes.Contains(text, []byte(secret))
			return err
		})
		if err != nil || found != (source == "") {
			t.Errorf("with a key: %v: a file has the item in plain text: %v, %v", source != "", found, err)
		}
		if warned := strings.Contains(log.String(), "the data folder is not encrypted"); warned != (source == "") {
			t.Errorf("with a key: %v: the log is %s", source != "", log.String())
		}
	}
}

// A table's class is reported; requests cost the same in each.
func TestTableClassHasNoEffect(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	for _, class := range []string{"STANDARD", "STANDARD_INFREQUENT_ACCESS"} {
		d.must("CreateTable", createTable(class, fmt.Sprintf(`"TableClass": %q`, class)))
		if reply := d.must("DescribeTable", fmt.Sprintf(`{"TableName": %q}`, class)); !strings.Contains(reply, `"TableClassSummary":{"TableClass":"`+class+`"}`) {
			t.Errorf("the table is %s", reply)
		}
		reply := d.must("PutItem", fmt.Sprintf(`{"TableName": %q, "Item": {"id": {"S": "1"}}, "ReturnConsumedCapacity": "TOTAL"}`, class))
		if !strings.Contains(reply, `"CapacityUnits":1.0`) {
			t.Errorf("a put costs %s", reply)
		}
	}
}
