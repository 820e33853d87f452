package ops

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store/pebble"
)

// newThrottledService returns a service that throttles, in which no time passes.
func newThrottledService(t *testing.T) *Service {
	t.Helper()
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	d, err := db.Open(t.Context(), engine, db.Options{Throttle: true, Clock: clock.New(clock.Options{Now: func() time.Time { return now }})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return New(Parts{DB: d})
}

// answerWithin executes a request that may use the memory of a room.
func answerWithin(ctx context.Context, s *Service, room buffer.Room, operation, body string) error {
	var memory buffer.Scratch
	memory.Within(room)
	_, err := answer(WithCaller(ctx, Caller{Room: room}), s, operation, []byte(body), &memory)
	return err
}

// createProvisioned creates a table with a partition key.
func createProvisioned(t *testing.T, s *Service, name string, reads int) {
	t.Helper()
	if err := answerWithin(t.Context(), s, nil, "CreateTable", fmt.Sprintf(`{"TableName":"%s","ProvisionedThroughput":{"ReadCapacityUnits":%d,"WriteCapacityUnits":1000},`+
		`"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]}`, name, reads)); err != nil {
		t.Fatal(err)
	}
}

// smallRoom has a limit.
type smallRoom struct{ limit, used int }

func (r *smallRoom) Reserve(bytes int) bool {
	if r.used+bytes > r.limit {
		return false
	}
	r.used += bytes
	return true
}

func (r *smallRoom) Force(bytes int)  { r.used += bytes }
func (r *smallRoom) Return(bytes int) { r.used -= bytes }
func (r *smallRoom) Free(bytes int)   { r.used -= bytes }
func (r *smallRoom) Commit()          { r.limit = math.MaxInt }

// total returns the sum of a counter since the start.
func total(d *db.DB, name string) (sum float64) {
	for _, m := range d.Meter().Metrics() {
		if m.Name == name {
			for _, s := range m.Samples {
				sum += s.Value
			}
		}
	}
	return sum
}

// A request that is repeated because there is no memory for its reply consumes its units
// once, in the metrics and of the limits of throughput.
func TestRepeatedRequestsConsumeOnce(t *testing.T) {
	key := `{"pk":{"S":"large"}}`
	for _, c := range []struct {
		operation, body string
		units           float64
	}{
		{"GetItem", `{"TableName":"Large","Key":` + key + `,"ConsistentRead":true}`, 51},
		{"BatchGetItem", `{"RequestItems":{"Large":{"ConsistentRead":true,"Keys":[` + key + `]}}}`, 51},
		{"TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"Large","Key":` + key + `}}]}`, 102},
		{"Query", `{"TableName":"Large","ConsistentRead":true,"KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"large"}}}`, 51},
		{"Scan", `{"TableName":"Large","ConsistentRead":true}`, 51},
		{"ExecuteStatement", `{"Statement":"SELECT * FROM Large WHERE pk='large'","ConsistentRead":true}`, 51},
		{"BatchExecuteStatement", `{"Statements":[{"Statement":"SELECT * FROM Large WHERE pk='large'","ConsistentRead":true},{"Statement":"SELECT * FROM Large WHERE pk='none'"}]}`, 51.5},
	} {
		t.Run(c.operation, func(t *testing.T) {
			s := newThrottledService(t)
			do := func(room buffer.Room, operation, body string) error {
				return answerWithin(t.Context(), s, room, operation, body)
			}
			createProvisioned(t, s, "Large", int(c.units)+1)
			if err := do(nil, "PutItem", `{"TableName":"Large","Item":{"pk":{"S":"large"},"s":{"S":"`+strings.Repeat("x", 201<<10)+`"}}}`); err != nil {
				t.Fatal(err)
			}
			// Without memory for the item, and with memory for the item, but not for its text.
			for _, limit := range []int{0, 300 << 10, 0, 300 << 10} {
				if err := do(&smallRoom{limit: limit}, c.operation, c.body); !errors.Is(err, buffer.ErrNoRoom) {
					t.Fatalf("with %d bytes it returns %v", limit, err)
				}
			}
			const name = "dynamodb_consumed_read_capacity_units_total"
			if got := total(s.DB, name); got != 0 {
				t.Errorf("%v units are counted before it is answered", got)
			}
			if err := do(nil, c.operation, c.body); err != nil {
				t.Fatal(err)
			}
			if got := total(s.DB, name); got != c.units {
				t.Errorf("%v units are counted, want %v", got, c.units)
			}
			for _, want := range []bool{true, false} { // a unit is left, and then none
				if err := do(nil, "GetItem", `{"TableName":"Large","Key":{"pk":{"S":"small"}},"ConsistentRead":true}`); (err == nil) != want {
					t.Errorf("a small read after it returns %v, admitted: want %v", err, want)
				}
			}
			if got := total(s.DB, "dynamodb_read_throttle_events_total"); got != 1 {
				t.Errorf("%v throttled reads are counted, want 1", got)
			}
		})
	}
}

// A read of a batch that is throttled is counted once, although the batch is repeated.
func TestRepeatedRequestsAreThrottledOnce(t *testing.T) {
	s := newThrottledService(t)
	createProvisioned(t, s, "Large", 1000)
	createProvisioned(t, s, "Earlier", 1)
	if err := answerWithin(t.Context(), s, nil, "PutItem", `{"TableName":"Large","Item":{"pk":{"S":"large"},"s":{"S":"`+strings.Repeat("x", 201<<10)+`"}}}`); err != nil {
		t.Fatal(err)
	}
	body := `{"RequestItems":{"Large":{"Keys":[{"pk":{"S":"large"}}]},"Earlier":{"ConsistentRead":true,"Keys":[{"pk":{"S":"1"}},{"pk":{"S":"2"}}]}}}`
	if err := answerWithin(t.Context(), s, fullRoom{}, "BatchGetItem", body); !errors.Is(err, buffer.ErrNoRoom) {
		t.Fatalf("without memory it returns %v", err)
	}
	if err := answerWithin(t.Context(), s, nil, "BatchGetItem", body); err != nil {
		t.Fatal(err)
	}
	if got := total(s.DB, "dynamodb_read_throttle_events_total"); got != 1 {
		t.Errorf("%v throttled reads are counted, want 1", got)
	}
}
