package main

import (
	"strings"
	"testing"
)

// The example post-vanilla of AWS's test suite of Signature Version 4.
func TestAuthorization(t *testing.T) {
	s := newSigner("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1", "service")
	const date = "20150830T123600Z"
	headers := []header{{"host", "example.amazonaws.com"}, {"x-amz-date", date}}
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, " +
		"SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
	for range 2 { // the second time with the cached key
		if got := string(s.authorization(nil, date, headers, nil)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := string(s.authorization(nil, date, headers, []byte("x"))); strings.HasSuffix(got, want[len(want)-64:]) {
		t.Error("another body has the same signature")
	}
}
