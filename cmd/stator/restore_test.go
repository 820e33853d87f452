package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A server that is killed during a backup and a restore repeats both, shows neither
// before it is complete, and its data passes stator verify.
func TestKillDuringRestoreAndBackup(t *testing.T) {
	const items = 6000
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, data)
	s.ask(t, "CreateTable", `{"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`)
	s.ask(t, "UpdateContinuousBackups", `{"TableName": "Orders", "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}`)
	text := strings.Repeat("x", 1000)
	for i := 0; i < items; i += 25 {
		var puts []string
		for j := range 25 {
			puts = append(puts, fmt.Sprintf(`{"PutRequest": {"Item": {"id": {"S": "%d"}, "text": {"S": "%s"}}}}`, i+j, text))
		}
		s.ask(t, "BatchWriteItem", `{"RequestItems": {"Orders": [`+strings.Join(puts, ",")+`]}}`)
	}
	for n := range 4 {
		backup := s.ask(t, "CreateBackup", `{"TableName": "Orders", "BackupName": "backup"}`)
		_, arn, _ := strings.Cut(backup, `"BackupArn":"`)
		arn, _, _ = strings.Cut(arn, `"`)
		table := fmt.Sprintf("Restored%d", n)
		s.ask(t, "RestoreTableToPointInTime", `{"SourceTableName": "Orders", "TargetTableName": "`+table+`", "UseLatestRestorableTime": true}`)
		time.Sleep(time.Duration(n) * 15 * time.Millisecond) // so that the kill is somewhere in the middle
		s.kill()
		s = startServer(t, data)
		s.until(t, "DescribeTable", `{"TableName": "`+table+`"}`, `"TableStatus":"ACTIVE"`)
		if got := s.ask(t, "DescribeTable", `{"TableName": "`+table+`"}`); !strings.Contains(got, fmt.Sprintf(`"ItemCount":%d,`, items)) {
			t.Errorf("the restored table is %s", got)
		}
		s.until(t, "DescribeBackup", `{"BackupArn": "`+arn+`"}`, `"BackupStatus":"AVAILABLE"`)
		if got := s.ask(t, "DescribeBackup", `{"BackupArn": "`+arn+`"}`); !strings.Contains(got, fmt.Sprintf(`"ItemCount":%d,`, items)) {
			t.Errorf("the backup is %s", got)
		}
	}
	s.kill()
	binary, _ := buildOnce()
	if out, err := exec.Command(binary, "verify", "--data", data).CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

// ask sends a request, which must succeed.
func (s *server) ask(t *testing.T, operation, body string) string {
	t.Helper()
	var got json.RawMessage
	if err := s.call(operation, body, &got); err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// until repeats a request until the reply contains a text.
func (s *server) until(t *testing.T, operation, body, want string) {
	t.Helper()
	for range 3000 {
		if strings.Contains(s.ask(t, operation, body), want) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no reply of %s contains %s", operation, want)
}
