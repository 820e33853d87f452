package cli

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

// The log files of CloudTrail give the access patterns of a table in a file.
func TestModelInferCloudTrail(t *testing.T) {
	dir := t.TempDir()
	var items, events strings.Builder
	for i := range 300 {
		fmt.Fprintf(&items, `{"Item":{"PK":{"S":"CUSTOMER#%d"},"SK":{"S":"PROFILE"},"name":{"S":"name %d"},"points":{"N":"%d"}}}`+"\n", i, i, i)
		for n := range 4 {
			fmt.Fprintf(&items, `{"Item":{"PK":{"S":"CUSTOMER#%d"},"SK":{"S":"ORDER#%d"},"orderId":{"S":"%d"},"total":{"N":"%d"}}}`+"\n", i, n, n, i)
		}
	}
	event := func(second int, name, parameters string) {
		fmt.Fprintf(&events, `,{"eventID":"%d-%s","eventTime":"2026-11-01T10:%02d:%02dZ","eventSource":"dynamodb.amazonaws.com","eventName":"%s","requestParameters":{"tableName":"shop",%s}}`,
			second, name, second/60, second%60, name, parameters)
	}
	for second := range 1000 {
		event(second, "GetItem", fmt.Sprintf(`"key":{"PK":"CUSTOMER#%d","SK":"PROFILE"}`, second))
		if second%10 == 0 {
			event(second, "PutItem", fmt.Sprintf(`"key":{"PK":"CUSTOMER#%d","SK":"ORDER#1"},"items":["PK","SK","orderId","total"],"conditionExpression":"attribute_not_exists(PK)"`, second))
			event(second, "UpdateItem", fmt.Sprintf(`"key":{"PK":"CUSTOMER#%d","SK":"PROFILE"},"updateExpression":"SET #n = :n ADD points :p","expressionAttributeNames":{"#n":"name"}`, second))
		}
		if second%5 == 0 {
			event(second, "Query", fmt.Sprintf(`"key":{"PK":"CUSTOMER#%d","SK":"ORDER#"},"keyConditionExpression":"PK = :pk AND begins_with(SK, :sk)"`, second))
		}
	}
	event(999, "GetItem", `"key":{"PK":"CUSTOMER#999","SK":"PROFILE"}`) // delivered twice
	writeFile(t, filepath.Join(dir, "shop.json"), []byte(items.String()))
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	fmt.Fprintf(z, `{"Records":[{"eventSource":"s3.amazonaws.com","eventName":"GetObject"}%s]}`, events.String())
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "AWSLogs", "111122223333", "CloudTrail", "1.json.gz"), compressed.Bytes())

	code, stdout, stderr := runStator(t, "model", "infer", filepath.Join(dir, "shop.json"), "--key", "PK,SK", "--cloudtrail", filepath.Join(dir, "AWSLogs"))
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	m, err := model.Parse("inferred", []byte(stdout))
	if err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	rates := make(map[string]float64)
	for _, p := range m.Patterns {
		a := p.Actions()[0]
		rates[fmt.Sprint(a.Verb(), " ", a.Entity().Name)] = p.Rate.PerSecond
		if a.Verb() == model.Query && p.Matches != 4 {
			t.Errorf("the query returns %d items, want 4", p.Matches)
		}
	}
	for what, want := range map[string]float64{"get customer": 1, "put order": 0.1, "update customer": 0.1, "query order": 0.2} {
		if got := rates[what]; got < 0.9*want || got > 1.1*want {
			t.Errorf("%s has a rate of %v, want %v\n%s", what, got, want, stdout)
		}
	}
	if len(m.Patterns) != 4 {
		t.Errorf("%d patterns, want 4:\n%s", len(m.Patterns), stdout)
	}
}

// A log without data events, and a file that is no log, are reported as such.
func TestModelInferCloudTrailFaults(t *testing.T) {
	dir := t.TempDir()
	items := filepath.Join(dir, "shop.json")
	writeFile(t, items, []byte(`{"Item":{"PK":{"S":"A#1"},"n":{"N":"1"}}}{"Item":{"PK":{"S":"A#2"},"n":{"N":"2"}}}`))
	for text, want := range map[string]string{
		`{"Records":[]}`:   "data events are enabled",
		`{"Items":[]}`:     "not a log file of CloudTrail",
		`{"Records":null}`: "data events are enabled",
		`{"Records":[{"eventSource":"dynamodb.amazonaws.com","eventName":"GetItem","requestParameters":{"tableName":"shop","key":{"PK":"A#1"}}}]}`:                                                                                                                                                     "1 events: the event has no time",
		`{"Records":[{"eventTime":"2026-11-01T10:00:00Z","eventSource":"dynamodb.amazonaws.com","eventName":"Query","requestParameters":{"tableName":"shop","exclusiveStartKey":{"PK":"A#1"},"keyConditionExpression":"PK = :a"}}]}`:                                                                   "a further page",
		`{"Records":[{"eventTime":"2026-11-01T10:00:00Z","eventSource":"dynamodb.amazonaws.com","eventName":"GetItem","errorCode":"a\nb","requestParameters":{"tableName":"shop","key":{"PK":"A#1"}}}]}`:                                                                                               `failed (a\nb)`,
		`{"Records":[{"eventTime":"2026-11-01T10:00:00Z","eventSource":"dynamodb.amazonaws.com","eventName":"TransactWriteItems","requestParameters":{"requestItems":[{"operation":"Delete","tableName":"shop","key":{"PK":"A#1"}},{"operation":"Delete","tableName":"other","key":{"PK":"A#1"}}]}}]}`: "the others are derived",
		`{"Records":[{"eventSource":"dynamodb.amazonaws.com","eventName":"UpdateItem","errorCode":"ConditionalCheckFailedException","requestParameters":{"tableName":"shop","key":{"PK":"A#1"}}}]}`:                                                                                                    "1 events: the request failed (ConditionalCheckFailedException)",
		`{"Records":[{"eventSource":"dynamodb.amazonaws.com","eventName":"ExecuteStatement","requestParameters":{"statement":"SELECT"}}]}`:                                                                                                                                                             "statements are not derived",
		`{"Records":[{"eventSource":"dynamodb.amazonaws.com","eventName":"UpdateItem","requestParameters":{"tableName":"shop","key":{"PK":"A#1"},"updateExpression":"SET a ="}}]}`:                                                                                                                     "its update",
	} {
		log := filepath.Join(dir, "log.json")
		writeFile(t, log, []byte(text))
		_, _, stderr := runStator(t, "model", "infer", items, "--key", "PK", "--cloudtrail", log)
		if !strings.Contains(stderr, want) {
			t.Errorf("%s: %q is not in %s", text, want, stderr)
		}
	}
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
