package cloudtrail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/prove"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/workload"
)

func server(t *testing.T, m *model.Model) *apply.Endpoint {
	t.Helper()
	s, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e := &apply.Endpoint{URL: "http://stator.invalid", Client: s.Client(), Sign: func(r *http.Request, _ []byte) error {
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		return nil
	}}
	if err := prove.Create(t.Context(), e.Send, m, false, apply.Waiting{Every: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return e
}

// The shapes that a log gives are those that a server counts for the same requests,
// apart from the prefixes of queries, whose values a log does not have.
func TestShapesOfLogs(t *testing.T) {
	files, err := filepath.Glob("../../../apps/*/*.model.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found the models %v, %v", files, err)
	}
	for _, file := range append(files, "../testdata/shapes.model.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := parse(t, file)
			e := server(t, m)
			l := New(schemas(m))
			sent := 0
			for i, p := range m.Patterns {
				plan := m.Plan(p)
				scenario, err := m.Scenario(plan, model.Generator{}, i)
				if err != nil {
					continue // the pattern has a fault on purpose
				}
				for _, s := range scenario.Before {
					put := map[string]any{"TableName": s.Table, "Item": json.RawMessage(wire.AppendItem(nil, s.Item))}
					if _, err := e.Send(t.Context(), "PutItem", put); err != nil {
						t.Fatal(err)
					}
				}
				reset(t, e)
				l.recorder.Reset(time.Time{})
				for _, c := range scenario.Calls {
					if _, err := e.Send(t.Context(), c.Operation, c.Body); err != nil {
						t.Fatalf("%s: %v", p.Name, err)
					}
					if err := l.Read("a log", bytes.NewReader(logOf(t, m, c.Request, sent))); err != nil {
						t.Fatal(err)
					}
					sent++
				}
				want, got := comparable(shapesOf(t, e)), comparable(l.Report())
				if !slices.Equal(got, want) {
					t.Errorf("%s: the log gives %v\nthe server counts %v", p.Name, got, want)
				}
			}
			if left := l.Left(); left != nil {
				t.Errorf("not counted: %v", left)
			}
			if sent < 5 {
				t.Errorf("only %d requests were sent", sent)
			}
		})
	}
}

func parse(t *testing.T, file string) *model.Model {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func schemas(m *model.Model) (all []*schema.Table) {
	for _, t := range m.Tables {
		all = append(all, t.Schema())
	}
	return all
}

func reset(t *testing.T, e *apply.Endpoint) {
	t.Helper()
	if _, err := e.Delete(t.Context(), "/shapes"); err != nil {
		t.Fatal(err)
	}
}

func shapesOf(t *testing.T, e *apply.Endpoint) (report workload.Report) {
	t.Helper()
	text, err := e.Get(t.Context(), "/shapes")
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// comparable returns the shapes of a report as text, without what a log does not have.
func comparable(r workload.Report) (texts []string) {
	for _, c := range r.Shapes {
		s := c.Shape
		if s.Operation == "Query" {
			s.Partition, s.Sort = "", ""
		}
		texts = append(texts, fmt.Sprintf("%+v", s))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// logOf returns a request as CloudTrail logs it: parameters begin with a small letter,
// keys have plain values, other values are left out.
func logOf(t *testing.T, m *model.Model, r model.Request, n int) []byte {
	t.Helper()
	text, err := json.Marshal(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatal(err)
	}
	var parameters map[string]any
	switch r.Operation {
	case "TransactWriteItems", "TransactGetItems":
		var parts []any
		for _, p := range body["TransactItems"].([]any) {
			for operation, inner := range p.(map[string]any) {
				logged := logged(m, inner.(map[string]any))
				logged["operation"] = operation
				parts = append(parts, logged)
			}
		}
		parameters = map[string]any{"requestItems": parts}
	case "BatchWriteItem", "BatchGetItem":
		tables := make(map[string]any)
		for table, inner := range body["RequestItems"].(map[string]any) {
			tables[table] = loggedBatch(m, table, inner)
		}
		parameters = map[string]any{"requestItems": tables}
	default:
		parameters = logged(m, body)
	}
	record := map[string]any{"eventID": fmt.Sprint(n), "eventTime": "2026-11-01T10:00:00Z", "eventSource": "dynamodb.amazonaws.com",
		"eventName": r.Operation, "requestParameters": parameters, "eventCategory": "Data"}
	text, err = json.Marshal(map[string]any{"Records": []any{record}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func loggedBatch(m *model.Model, table string, inner any) any {
	if gets, ok := inner.(map[string]any); ok {
		var keys []any
		for _, key := range gets["Keys"].([]any) {
			keys = append(keys, logged(m, map[string]any{"TableName": table, "Key": key})["key"])
		}
		return map[string]any{"keys": keys, "consistentRead": gets["ConsistentRead"] == true}
	}
	var writes []any
	for _, w := range inner.([]any) {
		for operation, request := range w.(map[string]any) {
			request := maps.Clone(request.(map[string]any))
			request["TableName"] = table
			one := logged(m, request)
			delete(one, "tableName")
			writes = append(writes, map[string]any{strings.ToLower(operation[:1]) + operation[1:]: one})
		}
	}
	return writes
}

func logged(m *model.Model, body map[string]any) map[string]any {
	all := make(map[string]any)
	for name, v := range body {
		small := strings.ToLower(name[:1]) + name[1:]
		switch name {
		case "ExpressionAttributeValues", "ReturnConsumedCapacity":
			continue
		case "Key", "Item":
			plain := make(map[string]any)
			table, _ := m.Table(body["TableName"].(string))
			for attribute, typed := range v.(map[string]any) {
				for _, value := range typed.(map[string]any) {
					if table.Schema().Key.Has(attribute) {
						plain[attribute] = value
					}
				}
			}
			small, v = "key", plain
		}
		all[small] = v
	}
	return all
}
