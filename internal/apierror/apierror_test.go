package apierror

import (
	"errors"
	"net/http"
	"testing"
)

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   *Error
		message string
		of      string // __type
		member  string
	}{
		{"a validation", Validation("%d is too much", 5), "5 is too much", "com.amazon.coral.validate#ValidationException", "message"},
		{"a request", Request("bad"), "bad", "com.amazon.coral.validate#ValidationException", "message"},
		{"invalid values", InvalidValues("x: %s", "y"), "One or more parameter values were invalid: x: y", "com.amazon.coral.validate#ValidationException", "message"},
		{"invalid values of a request", InvalidRequestValues("x"), "One or more parameter values were invalid: x", "com.amazon.coral.validate#ValidationException", "message"},
		{"a body of the wrong types", Serialization("x"), "x", "com.amazon.coral.service#SerializationException", "Message"},
		{"an unknown operation has no message", UnknownOperation(), "", "com.amazon.coral.service#UnknownOperationException", "message"},
		{"a caller without permission", AccessDenied("x"), "x", "com.amazon.coral.service#AccessDeniedException", "Message"},
		{"no table", NoTable(), "Requested resource not found", "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", "message"},
		{"no table of a name", NoTableNamed("a"), "Requested resource not found: Table: a not found", "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", "message"},
		{"a table in use", InUse("x"), "x", "com.amazonaws.dynamodb.v20120810#ResourceInUseException", "message"},
		{"too many", LimitExceeded("x"), "x", "com.amazonaws.dynamodb.v20120810#LimitExceededException", "message"},
		{"a condition", ConditionFailed(nil), "The conditional request failed", "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "message"},
		{"another key", KeyMismatch(), "The provided key element does not match the schema", "com.amazon.coral.validate#ValidationException", "message"},
		{"an empty key", EmptyKey("string", "id"), "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: id",
			"com.amazon.coral.validate#ValidationException", "message"},
		{"a large item", ItemTooLarge(), "Item size has exceeded the maximum allowed size", "com.amazon.coral.validate#ValidationException", "message"},
		{"the server is busy", Throttled(), "Rate of requests exceeds the allowed throughput.", "com.amazon.coral.availability#ThrottlingException", "message"},
		{"a large update", UpdateTooLarge(), "Item size to update has exceeded the maximum allowed size", "com.amazon.coral.validate#ValidationException", "message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.fault.Message != c.message || c.fault.Type() != c.of || c.fault.MessageMember() != c.member || c.fault.Status != http.StatusBadRequest {
				t.Errorf("it is %d %s with %s: %s", c.fault.Status, c.fault.Type(), c.fault.MessageMember(), c.fault.Message)
			}
			if got, want := c.fault.Error(), c.fault.Code+": "+c.message; got != want {
				t.Errorf("its text is %s, want %s", got, want)
			}
		})
	}
}

func TestEnveloped(t *testing.T) {
	fault := Request("bad")
	enveloped := fault.Enveloped()
	if enveloped.Message != "1 validation error detected: bad" || fault.Message != "bad" {
		t.Errorf("the enveloped message is %q, the original %q", enveloped.Message, fault.Message)
	}
	if again := enveloped.Enveloped(); again.Message != enveloped.Message {
		t.Errorf("enveloped twice it is %q", again.Message)
	}
	if other := Validation("bad"); other.Enveloped() != other {
		t.Error("a fault of another kind gets an envelope")
	}
	var bare *Error
	if !errors.As(Bare(fault), &bare) || bare.Enveloped() != bare || !fault.Request {
		t.Error("a bare fault gets an envelope, or the original has lost its mark")
	}
	if Bare(nil) != nil {
		t.Error("no error becomes one")
	}
}

func TestDetail(t *testing.T) {
	detail := new(int)
	var fault *Error
	if !errors.As(error(ConditionFailed(detail)), &fault) || fault.Detail != detail {
		t.Error("the detail is lost")
	}
}
