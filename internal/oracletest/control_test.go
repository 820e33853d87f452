package oracletest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The control: each of these faults, planted between the test and the
// database, is noticed.
func TestFaultsAreNoticed(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault plantedFault
	}{
		{"a write loses a key attribute of an index", plantedFault{
			on: "PutItem", with: `"g1"`, every: 5,
			ask: func(body map[string]any) { delete(body["Item"].(map[string]any), "g1") },
		}},
		{"a condition is ignored", plantedFault{
			on: "DeleteItem", with: `"ConditionExpression":"attribute_exists`, every: 1,
			ask: func(body map[string]any) {
				for member := range body {
					if strings.HasPrefix(member, "Expression") || member == "ConditionExpression" {
						delete(body, member)
					}
				}
			},
		}},
		{"a filter drops an item too many", plantedFault{
			on: "Query", with: `"FilterExpression"`, every: 2,
			answer: func(reply map[string]any) {
				if items, ok := reply["Items"].([]any); ok && len(items) > 0 {
					reply["Items"], reply["Count"] = items[1:], len(items)-1
				}
			},
		}},
		{"a query returns the reverse order", plantedFault{
			on: "Query", every: 3,
			answer: func(reply map[string]any) {
				if items, ok := reply["Items"].([]any); ok {
					slices.Reverse(items)
				}
			},
		}},
		{"a scan finds an item twice", plantedFault{
			on: "Scan", every: 3,
			answer: func(reply map[string]any) {
				if items, ok := reply["Items"].([]any); ok && len(items) > 0 {
					reply["Items"] = append(items, items[0])
				}
			},
		}},
		{"a read shows an old item", plantedFault{on: "GetItem", every: 3, stale: true}},
		{"half a unit too much is charged", plantedFault{
			on: "Query", with: `"INDEXES"`, every: 3,
			answer: func(reply map[string]any) {
				if units, ok := reply["ConsumedCapacity"].(map[string]any); ok {
					units["CapacityUnits"] = units["CapacityUnits"].(float64) + 0.5
				}
			},
		}},
		{"a fault has another code", plantedFault{
			on: "UpdateItem", every: 1,
			answer: func(reply map[string]any) {
				if code, ok := reply["__type"].(string); ok {
					reply["__type"] = strings.Replace(code, "ConditionalCheckFailed", "Validation", 1)
				}
			},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(10) {
				if f := run(t, seed+1, 200, c.fault.wrap); f != nil {
					return
				}
			}
			t.Error("the fault was not noticed")
		})
	}
}

// plantedFault changes every n-th of the requests to one operation that
// contain a text.
type plantedFault struct {
	on, with string
	every    int
	ask      func(body map[string]any)
	answer   func(reply map[string]any)
	stale    bool // repeats the answer to an earlier equal request
}

// wrap plants the fault.
func (f plantedFault) wrap(h http.Handler) http.Handler {
	seen := 0
	before := make(map[string]*httptest.ResponseRecorder)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		hit := strings.HasSuffix(r.Header.Get("X-Amz-Target"), "."+f.on) && bytes.Contains(body, []byte(f.with))
		if hit {
			seen++
			hit = seen%f.every == 0
		}
		if hit && f.ask != nil {
			body = changed(body, f.ask)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		answered := httptest.NewRecorder()
		h.ServeHTTP(answered, r)
		if f.stale {
			earlier := before[string(body)]
			before[string(body)] = answered
			if hit && earlier != nil {
				answered = earlier
			}
		}
		answer := answered.Body.Bytes()
		if hit && f.answer != nil {
			answer = changed(answer, f.answer)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		w.WriteHeader(answered.Code)
		w.Write(answer)
	})
}

// changed returns a JSON object after a change.
func changed(b []byte, change func(map[string]any)) []byte {
	var o map[string]any
	if err := json.Unmarshal(b, &o); err != nil {
		panic(err)
	}
	change(o)
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return b
}
