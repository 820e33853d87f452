// Package serialtest runs many concurrent clients and proves from their
// replies that the history is strictly serialisable: equivalent to a serial
// order that agrees with the clock.
//
// Each proof has a control: planted faults are found.
package serialtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

var seedFlag = flag.Uint64("serial.seed", 0, "random seed; defaults to a new one")

// seedOf returns the seed of a test, and logs it.
func seedOf(t testing.TB) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-serial.seed=%d", seed)
	return seed
}

var windowsTime = flag.Duration("serial.for", 0, "time after which no window of a check begins; defaults to no limit")

// runWindows runs the windows of a check, each as a test, so that its database is closed
// after it. It returns how many ran: it stops at a fault, and when the time is over.
func runWindows(t *testing.T, most int, run func(t *testing.T, window int)) (ran int) {
	t.Helper()
	began := time.Now()
	for ran < most && !t.Failed() && (ran == 0 || *windowsTime == 0 || time.Since(began) < *windowsTime) {
		t.Run(fmt.Sprintf("window %d", ran), func(t *testing.T) { run(t, ran) })
		ran++
	}
	return ran
}

// jsonObject is a JSON object.
type jsonObject = map[string]any

// fault is a reply with a status other than 200.
type fault struct {
	Status              int
	Type                string `json:"__type"`
	Message             string
	Item                attributes
	CancellationReasons []reason
}

type reason struct {
	Code    string
	Message string
	Item    attributes
}

func (f *fault) Error() string { return fmt.Sprintf("%d %s: %s", f.Status, f.code(), f.Message) }

// code is the type without its prefix.
func (f *fault) code() string {
	_, code, ok := bytes.Cut([]byte(f.Type), []byte("#"))
	if !ok {
		return f.Type
	}
	return string(code)
}

// codeOf is the code of a fault; empty for other errors.
func codeOf(err error) string {
	var f *fault
	if errors.As(err, &f) {
		return f.code()
	}
	return ""
}

// conflictCode is the code of a single write that was rejected because others held its item
// for seconds, which occurs when the machine is overloaded.
const conflictCode = "TransactionConflictException"

// attributes is an item in DynamoDB's JSON.
type attributes map[string]attributeValue

// attributeValue has the types that these tests use.
type attributeValue struct {
	S *string           `json:",omitempty"`
	N *string           `json:",omitempty"`
	L *[]attributeValue `json:",omitempty"`
}

func str(s string) attributeValue { return attributeValue{S: &s} }

func num(n int) attributeValue {
	text := fmt.Sprint(n)
	return attributeValue{N: &text}
}

// list is a list of numbers.
func list(numbers ...int) attributeValue {
	elements := make([]attributeValue, 0, len(numbers))
	for _, n := range numbers {
		elements = append(elements, num(n))
	}
	return attributeValue{L: &elements}
}

// errUnknown is returned when the request was cancelled before its answer, or
// the server ended: it may have been applied.
var errUnknown = errors.New("the outcome is unknown")

// door sends requests to a handler.
type door struct{ http.Handler }

// call sends a request. The error is a *fault, or errUnknown when the context
// ended first.
func (d door) call(ctx context.Context, operation string, body, reply any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w := new(answer)
	if err := w.ask(ctx, d.Handler, operation, b); err != nil {
		return err
	}
	if ctx.Err() != nil || w.status == statusLost {
		return errUnknown
	}
	if w.status != http.StatusOK {
		f := &fault{Status: w.status}
		if err := json.Unmarshal(w.body.Bytes(), f); err != nil {
			return err
		}
		return f
	}
	if reply == nil {
		return nil
	}
	return json.Unmarshal(w.body.Bytes(), reply)
}

// answer records the reply of a handler.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answer) Header() http.Header         { return w.header }
func (w *answer) WriteHeader(status int)      { w.status = status }
func (w *answer) Write(b []byte) (int, error) { return w.body.Write(b) }

func (w *answer) ask(ctx context.Context, h http.Handler, operation string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none")
	w.header, w.status = make(http.Header), http.StatusOK
	h.ServeHTTP(w, r)
	return nil
}

// must is call for requests that have to succeed.
func (d door) must(t testing.TB, operation string, body, reply any) {
	t.Helper()
	if err := d.call(context.Background(), operation, body, reply); err != nil {
		t.Fatalf("%s: %v", operation, err)
	}
}

// open opens a database that is closed after the test.
func open(t testing.TB, o stator.Options) (*stator.DB, door) {
	t.Helper()
	s, err := stator.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, door{s.Handler()}
}

// expectSound fails unless items and indexes agree.
func expectSound(t testing.TB, s *stator.DB) {
	t.Helper()
	found, err := s.Verify(context.Background(), func(string, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		if v.Faults > 0 {
			t.Errorf("table %s has %d faults: %v", v.Table, v.Faults, v.First)
		}
	}
}

// createTable creates a table with the partition key p and the sort key k.
func createTable(t testing.TB, d door, name string, more jsonObject) {
	t.Helper()
	body := jsonObject{
		"TableName": name, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []jsonObject{{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "k", "AttributeType": "N"}},
		"KeySchema":            []jsonObject{{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "k", "KeyType": "RANGE"}},
	}
	for member, v := range more {
		body[member] = v
	}
	d.must(t, "CreateTable", body, nil)
}
