package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
)

// run executes a command line.
func run(args ...string) (code int, out string) {
	var text bytes.Buffer
	code = Run(args, &text, &text)
	return code, text.String()
}

// A backup of a running server can be restored into a new data folder.
func TestBackupAndRestore(t *testing.T) {
	db, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	web := httptest.NewServer(db.Handler())
	defer web.Close()
	client := dynamodb.New(dynamodb.Options{BaseEndpoint: &web.URL, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
	for _, table := range []string{"Orders", "Carts"} {
		if _, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &table, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		}); err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table,
				Item: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: fmt.Sprint(i)}}}); err != nil {
				t.Fatal(err)
			}
		}
	}

	to, data := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
	if code, out := run("backup", "--endpoint", web.URL, "--to", to); code != exitDone || strings.Count(out, " 12 ") != 2 {
		t.Fatalf("backup exits with %d:\n%s", code, out)
	}
	if code, out := run("restore", "--from", to, "--data", data); code != exitDone || strings.Count(out, " 12 ") != 2 {
		t.Fatalf("restore exits with %d:\n%s", code, out)
	}
	if code, out := run("verify", "--data", data); code != exitDone || !strings.Contains(out, "Orders") || !strings.Contains(out, "Carts") {
		t.Errorf("verify exits with %d:\n%s", code, out)
	}
	if code, out := run("restore", "--from", to, "--data", data); code != exitFailed || !strings.Contains(out, "already exists") {
		t.Errorf("a restore over data exits with %d:\n%s", code, out)
	}

	files, err := filepath.Glob(filepath.Join(to, "*.items"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the files are %v, %v", files, err)
	}
	text, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 4
	if err := os.WriteFile(files[1], text, 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "data")
	if code, out := run("restore", "--from", to, "--data", other); code != exitFailed || !strings.Contains(out, filepath.Base(files[1])) {
		t.Errorf("a restore from a damaged file exits with %d:\n%s", code, out)
	}
	if entries, _ := os.ReadDir(filepath.Dir(other)); len(entries) > 0 {
		t.Errorf("the failed restore left %v", entries)
	}
}

// A place with scheduled backups of two databases is restored only if one of them is named.
func TestRestoreOfOneOfTwoDatabases(t *testing.T) {
	from, ids := t.TempDir(), make(map[string]bool)
	for range 2 {
		before := len(ids)
		db, err := stator.Open(t.Context(), stator.Options{Backups: from, BackupEvery: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for len(ids) == before {
			time.Sleep(time.Millisecond)
			sets, err := filepath.Glob(filepath.Join(from, "*.set"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range sets {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				var set struct{ Database string }
				if err := json.NewDecoder(bytes.NewReader(text)).Decode(&set); err != nil {
					t.Fatal(err)
				}
				ids[set.Database] = true
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(t.TempDir(), "data")
	code, out := run("restore", "--from", from, "--data", data)
	if code != exitFailed || !strings.Contains(out, "choose one with --database") {
		t.Errorf("without --database, restore exits with %d:\n%s", code, out)
	}
	if entries, _ := os.ReadDir(filepath.Dir(data)); len(entries) > 0 {
		t.Errorf("the failed restore left %v", entries)
	}
	for id := range ids {
		if !strings.Contains(out, id+": newest of 1: ") {
			t.Errorf("the error does not name %s:\n%s", id, out)
		}
		if code, out := run("restore", "--from", from, "--data", data+id, "--database", id); code != exitDone {
			t.Errorf("with --database %s, restore exits with %d:\n%s", id, code, out)
		}
	}
}

func TestBackupErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"backup"}, exitUsage, "--to must name"},
		{[]string{"backup", "--to", "x", "--endpoint", "here"}, exitUsage, "--endpoint is"},
		{[]string{"backup", "--to", t.TempDir(), "--endpoint", "http://127.0.0.1:1"}, exitFailed, "no part of the backup was stored"},
		{[]string{"serve", "--in-memory", "--backup-every", "0s"}, exitUsage, "--backup-every is 0s, but must be at least 1s"},
		{[]string{"serve", "--in-memory", "--backup-every", "-1h"}, exitUsage, "must not be negative"},
		{[]string{"serve", "--in-memory", "--backup-every", "1h", "--backup-keep", "0"}, exitUsage, "--backup-keep is 0, but must be at least 1"},
		{[]string{"serve", "--in-memory", "--backup-every", "1h", "--backup-max-age", "-1s"}, exitUsage, "must not be negative"},
		{[]string{"serve", "--in-memory", "--backup-keep", "3"}, exitUsage, "require --backup-every"},
		{[]string{"restore"}, exitUsage, "--from must name"},
		{[]string{"restore", "--from", t.TempDir(), "--data", filepath.Join(t.TempDir(), "new")}, exitFailed, "no backup of a whole server"},
		{[]string{"restore", "--from", t.TempDir(), "--data", filepath.Join(t.TempDir(), "new"), "--database", "unknown"}, exitFailed, "database unknown: there is no backup of a whole server"},
	} {
		if code, out := run(c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v exits with %d:\n%s", c.args, code, out)
		}
	}
}
