package torture

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rebuild the archive of the present format")

// presentFormat is the format that is written now. Archives of earlier
// formats are kept.
const presentFormat = "v2"

// Data folders and backups of every released format can be opened, return the
// same answers as then, and can be written to.
func TestFoldersOfEachFormatAreOpened(t *testing.T) {
	if *update {
		makeArchive(t, filepath.Join("formats", presentFormat+".tar.gz"))
	}
	archives, err := filepath.Glob("formats/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("there are no archives: %v", err)
	}
	for _, archive := range archives {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, archive, dir)
			data := filepath.Join(dir, "data")
			if out, err := verify(t, data); err != nil || !strings.Contains(out, "Things") {
				t.Errorf("verify: %v\n%s", err, out)
			}
			s := start(t, data, "--log=error")
			text, err := os.ReadFile(filepath.Join(dir, "said.json"))
			if err != nil {
				t.Fatal(err)
			}
			var answers map[string]json.RawMessage
			if err := json.Unmarshal(text, &answers); err != nil {
				t.Fatal(err)
			}
			restore(t, s.door, answers)
			now := answersOf(t, s.door)
			if len(now) < 6 {
				t.Errorf("only %d questions are asked", len(now))
			}
			for question, answer := range now {
				if !sameJSON(t, answer, answers[question]) {
					t.Errorf("%s\nthe answer is  %s\nit was         %s", question, answer, answers[question])
				}
			}
			s.must(t, "UpdateItem", object{"TableName": "Things", "Key": object{"p": object{"S": "a"}, "k": num(1)},
				"UpdateExpression": "SET g = :g", "ExpressionAttributeValues": object{":g": object{"S": "red"}}}, nil)
			s.kill()
			if out, err := verify(t, data); err != nil {
				t.Errorf("verify after a write: %v\n%s", err, out)
			}
			// The control: an item that differs is noticed.
			s = start(t, data, "--log=error")
			differs := false
			for question, answer := range answersOf(t, s.door) {
				differs = differs || !sameJSON(t, answer, answers[question])
			}
			if !differs {
				t.Error("a change of the folder is not noticed")
			}
			s.kill()
		})
	}
}

const backupQuestion = "the backup"

// answersOf returns a server's answers to questions about everything in its
// folder.
func answersOf(t testing.TB, d door) map[string]json.RawMessage {
	t.Helper()
	answers := make(map[string]json.RawMessage)
	for question, body := range map[string]object{
		"Scan Things":          {"TableName": "Things", "ConsistentRead": true},
		"Scan Restored":        {"TableName": "Restored", "ConsistentRead": true},
		"Scan Things by group": {"TableName": "Things", "IndexName": "byGroup"},
		"Query one of a group": {"TableName": "Things", "IndexName": "byGroup", "KeyConditionExpression": "g = :g", "ExpressionAttributeValues": object{":g": object{"S": "blue"}}},
		"Query by rank":        {"TableName": "Things", "IndexName": "byRank", "KeyConditionExpression": "p = :p", "ExpressionAttributeValues": object{":p": object{"S": "a"}}},
		"Query a partition":    {"TableName": "Things", "KeyConditionExpression": "p = :p AND k > :k", "ExpressionAttributeValues": object{":p": object{"S": "a"}, ":k": num(-2)}},
		"ListTables":           {},
		"DescribeTimeToLive":   {"TableName": "Things"},
	} {
		operation, _, _ := strings.Cut(question, " ")
		var answer json.RawMessage
		d.must(t, operation, body, &answer)
		answers[question] = answer
	}
	var table struct {
		Table struct{ KeySchema, AttributeDefinitions, GlobalSecondaryIndexes, StreamSpecification any }
	}
	d.must(t, "DescribeTable", object{"TableName": "Things"}, &table)
	if indexes, ok := table.Table.GlobalSecondaryIndexes.([]any); ok && len(indexes) == 1 {
		table.Table.GlobalSecondaryIndexes = indexes[0].(object)["KeySchema"] // the counts are updated late
	}
	answer, err := json.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	answers["DescribeTable"] = answer
	return answers
}

// restore creates a table from the backup.
func restore(t testing.TB, d door, answers map[string]json.RawMessage) {
	t.Helper()
	d.must(t, "RestoreTableFromBackup", object{"BackupArn": answers[backupQuestion], "TargetTableName": "Restored"}, nil)
	untilIs(t, d, "DescribeTable", object{"TableName": "Restored"}, `"TableStatus":"ACTIVE"`)
}

func untilIs(t testing.TB, d door, operation string, body object, want string) {
	t.Helper()
	for range 3000 {
		var answer json.RawMessage
		if d.must(t, operation, body, &answer); strings.Contains(string(answer), want) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s never has %s", operation, want)
}

func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	var texts [2]string
	for i, raw := range [][]byte{a, b} {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return false
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(out)
	}
	return texts[0] == texts[1]
}

// makeArchive creates a folder that has some of everything: values of all
// types, indexes of both kinds, a stream, a time to live, point-in-time
// recovery, a backup, sstables and a WAL that is not flushed.
func makeArchive(t testing.TB, archive string) {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	s := start(t, data, "--log=error")
	s.must(t, "CreateTable", object{
		"TableName": "Things", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []object{{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "k", "AttributeType": "N"},
			{"AttributeName": "g", "AttributeType": "S"}, {"AttributeName": "r", "AttributeType": "B"}},
		"KeySchema": []object{{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "k", "KeyType": "RANGE"}},
		"GlobalSecondaryIndexes": []object{{"IndexName": "byGroup", "Projection": object{"ProjectionType": "INCLUDE", "NonKeyAttributes": []string{"text"}},
			"KeySchema": []object{{"AttributeName": "g", "KeyType": "HASH"}}}},
		"LocalSecondaryIndexes": []object{{"IndexName": "byRank", "Projection": object{"ProjectionType": "ALL"},
			"KeySchema": []object{{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "r", "KeyType": "RANGE"}}}},
		"StreamSpecification": object{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"},
	}, nil)
	s.must(t, "UpdateTimeToLive", object{"TableName": "Things", "TimeToLiveSpecification": object{"AttributeName": "until", "Enabled": true}}, nil)
	s.must(t, "UpdateContinuousBackups", object{"TableName": "Things", "PointInTimeRecoverySpecification": object{"PointInTimeRecoveryEnabled": true}}, nil)
	put := func(k string, more object) {
		it := object{"p": object{"S": "a"}, "k": object{"N": k}, "text": object{"S": "größe ✓ " + k}}
		for name, v := range more {
			it[name] = v
		}
		s.must(t, "PutItem", object{"TableName": "Things", "Item": it}, nil)
	}
	for _, k := range []string{"-99999999999999999999999999999999999999", "-1.5", "-1E-130", "0", "1E-130", "1", "2.50", "9.9999999999999999999999999999999999999E+125"} {
		put(k, object{"g": object{"S": "blue"}, "r": object{"B": "AAEC/w=="}})
	}
	put("7", object{"until": object{"N": "32503680000"}, "b": object{"BOOL": true}, "z": object{"NULL": true},
		"ss": object{"SS": []string{"y", "x"}}, "ns": object{"NS": []string{"3", "-1"}}, "bs": object{"BS": []string{"AA=="}},
		"l": object{"L": []object{{"N": "1"}, {"M": object{"d": object{"L": []object{}}}}}}, "": object{"S": ""}, "m": object{"M": object{}}})
	var made struct{ BackupDetails struct{ BackupArn string } }
	s.must(t, "CreateBackup", object{"TableName": "Things", "BackupName": "kept"}, &made)
	untilIs(t, s.door, "DescribeBackup", object{"BackupArn": made.BackupDetails.BackupArn}, `"BackupStatus":"AVAILABLE"`)
	arn, err := json.Marshal(made.BackupDetails.BackupArn)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // for a flush
	s.must(t, "DeleteItem", object{"TableName": "Things", "Key": object{"p": object{"S": "a"}, "k": object{"N": "0"}}}, nil)
	put("8", object{"g": object{"S": "red"}})
	s.kill()

	// The answers are taken from a copy, since a question creates a table.
	copied := filepath.Join(t.TempDir(), "data")
	copyFolder(t, data, copied)
	copyFolder(t, data+"-backups", copied+"-backups")
	s = start(t, copied, "--log=error")
	answers := map[string]json.RawMessage{backupQuestion: arn}
	restore(t, s.door, answers)
	recorded := answersOf(t, s.door)
	recorded[backupQuestion] = arn
	s.kill()
	text, err := json.MarshalIndent(recorded, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "said.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	pack(t, dir, archive)
}

func pack(t testing.TB, dir, archive string) {
	t.Helper()
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zip)
	err = errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), zip.Close(), os.WriteFile(archive, out.Bytes(), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

func unpack(t testing.TB, archive, dir string) {
	t.Helper()
	in, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r := tar.NewReader(zip)
	for {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.FileInfo().Mode()&fs.ModeDir != 0 {
			err = root.MkdirAll(strings.TrimSuffix(head.Name, "/"), 0o700)
		} else if err = root.MkdirAll(filepath.Dir(head.Name), 0o700); err == nil {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = root.WriteFile(head.Name, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
