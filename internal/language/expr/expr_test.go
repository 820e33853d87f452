package expr

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// doc reads an item in DynamoDB's JSON.
func doc(t testing.TB, text string) item.Item {
	t.Helper()
	attrs := make(map[string]item.Value)
	for name, raw := range members(t, []byte(text)) {
		attrs[name] = value(t, string(raw))
	}
	return item.Make(attrs)
}

// values reads ExpressionAttributeValues in DynamoDB's JSON.
func values(t testing.TB, text string) map[string]item.Value {
	t.Helper()
	vs := make(map[string]item.Value)
	if text != "" {
		for name, raw := range members(t, []byte(text)) {
			vs[name] = value(t, string(raw))
		}
	}
	return vs
}

// value reads one value in DynamoDB's JSON.
func value(t testing.TB, text string) item.Value {
	t.Helper()
	for name, raw := range members(t, []byte(text)) {
		switch name {
		case "S":
			return item.String(decode[string](t, raw))
		case "N":
			return num(t, decode[string](t, raw))
		case "B":
			return item.Binary(decode[[]byte](t, raw))
		case "BOOL":
			return item.Bool(decode[bool](t, raw))
		case "NULL":
			return item.Null()
		case "M":
			return item.Map(doc(t, string(raw)))
		case "L":
			var vs []item.Value
			for _, e := range decode[[]json.RawMessage](t, raw) {
				vs = append(vs, value(t, string(e)))
			}
			return item.List(vs...)
		case "SS":
			var vs []item.Value
			for _, e := range decode[[]string](t, raw) {
				vs = append(vs, item.String(e))
			}
			return item.Set(item.SS, vs...)
		case "NS":
			var vs []item.Value
			for _, e := range decode[[]string](t, raw) {
				vs = append(vs, num(t, e))
			}
			return item.Set(item.NS, vs...)
		case "BS":
			var vs []item.Value
			for _, e := range decode[[][]byte](t, raw) {
				vs = append(vs, item.Binary(e))
			}
			return item.Set(item.BS, vs...)
		}
	}
	t.Fatalf("no value: %s", text)
	return nil
}

func num(t testing.TB, text string) item.Value {
	t.Helper()
	n, err := item.ParseNumber(text)
	if err != nil {
		t.Fatal(err)
	}
	return item.Num(n)
}

func members(t testing.TB, text []byte) map[string]json.RawMessage {
	t.Helper()
	return decode[map[string]json.RawMessage](t, text)
}

func decode[T any](t testing.TB, text []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// message is the message of a fault, "" when there is no fault.
func message(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var fault *apierror.Error
	if !errors.As(err, &fault) || fault.Code != "ValidationException" {
		t.Fatalf("not a ValidationException: %v", err)
	}
	return fault.Message
}

// bindAny parses and binds a text of any kind.
func bindAny(kind Kind, text string, b *Bindings) error {
	switch kind {
	case UpdateExpression:
		p, err := ParseUpdate(text)
		if err == nil {
			_, err = p.Bind(b)
		}
		return err
	case ProjectionExpression:
		p, err := ParseProjection(text)
		if err == nil {
			_, err = p.Bind(b)
		}
		return err
	case KeyConditionExpression:
		p, err := ParseKeyCondition(text)
		if err == nil {
			_, err = p.Bind(b)
		}
		return err
	}
	p, err := ParseCondition(kind, text)
	if err == nil {
		_, err = p.Bind(b)
	}
	return err
}

// faultCase is a text, its bindings, and DynamoDB's message.
type faultCase struct {
	name, text string
	names      map[string]string
	values     string // in DynamoDB's JSON
	want       string // without "Invalid …Expression: "; "" for no fault
}

func testFaults(t *testing.T, kind Kind, cases []faultCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want := c.want
			if want != "" {
				want = "Invalid " + kind.String() + ": " + want
			}
			err := bindAny(kind, c.text, &Bindings{Names: c.names, Values: values(t, c.values)})
			if got := message(t, err); got != want {
				t.Errorf("%s\n got %s\nwant %s", c.text, got, want)
			}
			var fault *apierror.Error
			if errors.As(err, &fault) && !fault.Request {
				t.Errorf("%s: not a fault of the request", c.text)
			}
		})
	}
}
