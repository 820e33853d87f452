package oracletest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
)

// harness is a database and the model of its content.
type harness struct {
	handler http.Handler
	reopen  func() error // closes the database and opens it again; nil if it is in memory
	close   func()
	tables  map[string]*tableModel
	log     []string // the requests so far
}

// result is the result of a request: a reply, or a fault.
type result struct {
	code     string   // of a fault; empty for a reply
	messages []string // any of these may be reported; nil if the message is not known
	item     object   // of a failed condition
	reply    reply
	or       *result // an alternative that is right as well
}

// reply has the members of all replies with items.
type reply struct {
	Attributes            object              `json:",omitempty"`
	Item                  object              `json:",omitempty"`
	Items                 []object            `json:",omitempty"`
	Count                 *int                `json:",omitempty"`
	ScannedCount          *int                `json:",omitempty"`
	LastEvaluatedKey      object              `json:",omitempty"`
	Responses             map[string][]object `json:",omitempty"`
	UnprocessedKeys       map[string]any      `json:",omitempty"`
	UnprocessedItems      map[string]any      `json:",omitempty"`
	ConsumedCapacity      consumed            `json:",omitempty"`
	ItemCollectionMetrics *collection         `json:",omitempty"`
}

type collection struct {
	ItemCollectionKey   object
	SizeEstimateRangeGB []float64
}

// consumed is a ConsumedCapacity: of one table, or of several tables in a
// batch, by name.
type consumed []tableConsumed

type tableConsumed struct {
	TableName              string
	CapacityUnits          float64
	Table                  *capacityUnits           `json:",omitempty"`
	LocalSecondaryIndexes  map[string]capacityUnits `json:",omitempty"`
	GlobalSecondaryIndexes map[string]capacityUnits `json:",omitempty"`
}

type capacityUnits struct{ CapacityUnits float64 }

// UnmarshalJSON reads both forms.
func (c *consumed) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte("[")) {
		b = slices.Concat([]byte("["), b, []byte("]"))
	}
	var all []tableConsumed
	if err := strict(b, &all); err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b tableConsumed) int { return strings.Compare(a.TableName, b.TableName) })
	*c = all
	return nil
}

// strict decodes JSON and rejects unknown members.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// difference is an answer that differs from the model's.
type difference struct {
	operation string
	body      map[string]any
	want, got string
}

func (d *difference) Error() string {
	return fmt.Sprintf("%s %s\nwant %s\ngot  %s", d.operation, show(d.body), d.want, d.got)
}

func (o result) String() string {
	switch {
	case o.code == "":
		return show(o.reply)
	case o.item != nil:
		return o.code + ": " + strings.Join(o.messages, "\n  or ") + " with the item " + show(o.item)
	}
	return o.code + ": " + strings.Join(o.messages, "\n  or ")
}

// expect sends a request and compares the answer.
func (w *harness) expect(operation string, body map[string]any, want result) error {
	got, err := w.ask(operation, body)
	if err != nil {
		return &difference{operation, body, want.String(), err.Error()}
	}
	if !want.matches(got) {
		return &difference{operation, body, want.String(), got.String()}
	}
	return nil
}

// matches reports whether a result is the wanted one.
func (o result) matches(got result) bool {
	if o.or != nil && o.or.matches(got) {
		return true
	}
	if o.code == "" || o.code != got.code {
		return o.code == got.code && reflect.DeepEqual(o.reply, got.reply)
	}
	return equal(o.item, got.item) && (o.messages == nil || slices.Contains(o.messages, got.messages[0]))
}

// ask sends a request and reads the answer.
func (w *harness) ask(operation string, body map[string]any) (result, error) {
	status, answer := w.send(operation, body)
	if status == http.StatusOK {
		var o result
		if err := strict(answer, &o.reply); err != nil {
			return o, fmt.Errorf("%w in %s", err, answer)
		}
		for _, items := range o.reply.Responses {
			sortItems(items)
		}
		return o, nil
	}
	return readFault(status, answer)
}

func readFault(status int, answer []byte) (result, error) {
	var fault struct {
		Type    string `json:"__type"`
		Message string
		Item    object
	}
	if err := strict(answer, &fault); err != nil || status != http.StatusBadRequest {
		return result{}, fmt.Errorf("status %d: %s", status, answer)
	}
	_, code, _ := strings.Cut(fault.Type, "#")
	return result{code: code, messages: []string{fault.Message}, item: fault.Item}, nil
}

func (w *harness) send(operation string, body map[string]any) (status int, answer []byte) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.log = append(w.log, "> "+operation+" "+show(body))
	r := httptest.NewRequest(http.MethodPost, "http://localhost/", bytes.NewReader(b))
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	answered := httptest.NewRecorder()
	w.handler.ServeHTTP(answered, r)
	return answered.Code, answered.Body.Bytes()
}

// sortItems sorts items whose order has no meaning.
func sortItems(items []object) {
	slices.SortFunc(items, func(a, b object) int { return strings.Compare(show(a), show(b)) })
}

// invalid is a fault of the request with any of the messages; without
// messages, the text is not known.
func invalid(messages ...string) result {
	return result{code: "ValidationException", messages: messages}
}

func noTable() result {
	return result{code: "ResourceNotFoundException", messages: []string{"Requested resource not found"}}
}
