package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
