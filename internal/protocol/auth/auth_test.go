package auth

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
)

const scope = "AKID/20260101/eu-west-1/dynamodb/aws4_request"

func TestReadHeader(t *testing.T) {
	const date = "X-Amz-Date: 20260101T000000Z"
	missing := func(names ...string) (text string) {
		for _, n := range names {
			text += "Authorization header requires '" + n + "' parameter. "
		}
		return text
	}
	const noDate = "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
	for _, c := range []struct {
		name, authorization, header string
		want                        Signer
		fault                       string
	}{
		{"a whole header names its signer", "AWS4-HMAC-SHA256 Credential=" + scope + ", SignedHeaders=host, Signature=ab", date, Signer{AccessKey: []byte("AKID"), Region: "eu-west-1"}, ""},
		{"spaces are not needed", "AWS4-HMAC-SHA256 Credential=" + scope + ",SignedHeaders=host,Signature=ab", date, Signer{AccessKey: []byte("AKID"), Region: "eu-west-1"}, ""},
		{"the order does not matter", "AWS4-HMAC-SHA256 Signature=ab, SignedHeaders=host, Credential=" + scope, date, Signer{AccessKey: []byte("AKID"), Region: "eu-west-1"}, ""},
		{"a plain date is enough", "AWS4-HMAC-SHA256 Credential=" + scope + ", SignedHeaders=host, Signature=ab", "Date: now", Signer{AccessKey: []byte("AKID"), Region: "eu-west-1"}, ""},
		{"a missing header is reported", "", date, Signer{}, "MissingAuthenticationTokenException: Request is missing Authentication Token"},
		{"another scheme is not a signature", "Bearer abc", date, Signer{}, "MissingAuthenticationTokenException: Request is missing Authentication Token"},
		{"each missing part is reported", "AWS4-HMAC-SHA256", "", Signer{},
			"IncompleteSignatureException: " + missing("Credential", "Signature", "SignedHeaders") + noDate + "Authorization=AWS4-HMAC-SHA256"},
		{"a missing signature is reported", "AWS4-HMAC-SHA256 Credential=" + scope + ", SignedHeaders=host", date, Signer{},
			"IncompleteSignatureException: " + missing("Signature") + "Authorization=AWS4-HMAC-SHA256 Credential=" + scope + ", SignedHeaders=host"},
		{"a missing date is reported", "AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host, Signature=ab", "", Signer{},
			"IncompleteSignatureException: " + noDate + "Authorization=AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host, Signature=ab"},
		{"a part without a value is not missing", "AWS4-HMAC-SHA256 Credential, SignedHeaders, Signature", date, Signer{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", nil)
			r.Header.Set("Authorization", c.authorization)
			if name, value, ok := strings.Cut(c.header, ": "); ok {
				r.Header.Set(name, value)
			}
			expect(t, r, c.want, c.fault)
		})
	}
}

func TestReadQuery(t *testing.T) {
	const whole = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + scope + "&X-Amz-Signature=ab&X-Amz-SignedHeaders=host&X-Amz-Date=now"
	for _, c := range []struct {
		name, query, authorization string
		want                       Signer
		fault                      string
	}{
		{"a whole query names its signer", whole, "", Signer{AccessKey: []byte("AKID"), Region: "eu-west-1"}, ""},
		{"header and query together are rejected", whole, "AWS4-HMAC-SHA256 Credential=a", Signer{},
			"InvalidSignatureException: Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."},
		{"each missing part is reported", "X-Amz-Algorithm=", "", Signer{},
			"IncompleteSignatureException: AWS query-string parameters must include 'X-Amz-Algorithm'. " +
				"AWS query-string parameters must include 'X-Amz-Credential'. AWS query-string parameters must include 'X-Amz-Signature'. " +
				"AWS query-string parameters must include 'X-Amz-SignedHeaders'. AWS query-string parameters must include 'X-Amz-Date'. " +
				"Re-examine the query-string parameters."},
		{"other parts are ignored without the algorithm", "X-Amz-Credential=" + scope, "", Signer{},
			"MissingAuthenticationTokenException: Request is missing Authentication Token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/?"+c.query, nil)
			if c.authorization != "" {
				r.Header.Set("Authorization", c.authorization)
			}
			expect(t, r, c.want, c.fault)
		})
	}
}

func expect(t *testing.T, r *http.Request, want Signer, fault string) {
	t.Helper()
	got, err := Read(headerOf(r), r.URL.RawQuery)
	switch {
	case fault == "" && err != nil, fault != "" && (err == nil || err.Error() != fault):
		t.Errorf("the error is\n%v, want\n%s", err, fault)
	case !same(got, want):
		t.Errorf("the signer is %+v, want %+v", got, want)
	}
}

func headerOf(r *http.Request) func(name string) []byte {
	return func(name string) []byte { return []byte(r.Header.Get(name)) }
}

func same(a, b Signer) bool {
	return string(a.AccessKey) == string(b.AccessKey) && a.Region == b.Region
}

func TestCredential(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     Signer
	}{
		{"a scope has a key and a region", scope, Signer{AccessKey: []byte("AKID"), Region: "eu-west-1"}},
		{"an empty scope names no signer", "", Signer{}},
		{"a key alone has no region", "AKID", Signer{AccessKey: []byte("AKID")}},
		{"a short scope has no region", "AKID/date/region/service", Signer{AccessKey: []byte("AKID")}},
		{"the region is counted from the end", "AK/ID/20260101/us-east-1/dynamodb/aws4_request", Signer{AccessKey: []byte("AK"), Region: "us-east-1"}},
		{"an invalid region is dropped", "AKID/20260101/EU:West/dynamodb/aws4_request", Signer{AccessKey: []byte("AKID")}},
		{"an empty region is dropped", "AKID/20260101//dynamodb/aws4_request", Signer{AccessKey: []byte("AKID")}},
		{"a long region is dropped", "AKID/20260101/" + strings.Repeat("a", 33) + "/dynamodb/aws4_request", Signer{AccessKey: []byte("AKID")}},
		{"a local region is valid", "AKID/20260101/localhost/dynamodb/aws4_request", Signer{AccessKey: []byte("AKID"), Region: "localhost"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := signer([]byte(c.in)); !same(got, c.want) {
				t.Errorf("the signer is %+v, want %+v", got, c.want)
			}
		})
	}
}

// Any header yields a signer or a fault, and no region can break an ARN.
func FuzzRead(f *testing.F) {
	f.Add("AWS4-HMAC-SHA256 Credential="+scope+", SignedHeaders=host, Signature=ab", "")
	f.Add("AWS4-", "X-Amz-Algorithm=a&X-Amz-Credential=////")
	f.Add("AWS4-HMAC-SHA256 Credential=a/b/c:d/e/f,SignedHeaders,Signature==", "%zz")
	f.Fuzz(func(t *testing.T, authorization, query string) {
		r := httptest.NewRequest("POST", "/", nil)
		r.URL.RawQuery = query
		r.Header.Set("Authorization", authorization)
		r.Header.Set("Date", "now")
		s, err := Read(headerOf(r), r.URL.RawQuery)
		if err != nil {
			var fault *apierror.Error
			if !errors.As(err, &fault) || !same(s, Signer{}) {
				t.Errorf("the signer is %+v, the error %v", s, err)
			}
			return
		}
		if strings.Trim(s.Region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || len(s.Region) > 32 {
			t.Errorf("%q is taken for a region", s.Region)
		}
		if bytes.Contains(s.AccessKey, []byte("/")) {
			t.Errorf("%q is taken for an access key", s.AccessKey)
		}
	})
}
