package auth

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/protocol/principals"
)

// A Reader that has read one request reads the next as Read does.
func TestReader(t *testing.T) {
	const first, second = "AWS4-HMAC-SHA256 Credential=one/20260101/us-east-1/dynamodb/aws4_request", "AWS4-HMAC-SHA256 Credential=two/20260101/eu-west-1/dynamodb/aws4_request"
	type request struct{ authorization, date, dateHeader, query string }
	var requests []request
	for _, authorization := range []string{
		"", "Basic b25lOnR3bw==",
		first + ", SignedHeaders=host, Signature=aa",
		first + ", SignedHeaders=host, Signature=bb",
		first + ", SignedHeaders=host, Signature=",
		first + ", SignedHeaders=host, Signature=a=b",
		first + ", SignedHeaders=host, Signature=aa, Credential=three/20260101/us-west-2/dynamodb/aws4_request",
		first + ", SignedHeaders=host, Signature=aa Credential=three/20260101/us-west-2/dynamodb/aws4_request",
		first + ",SignedHeaders=host,Signature=aa",
		first + ", Signature=aa, SignedHeaders=host",
		first + ", Signature=aa, SignedHeaders=hostSignature=bb",
		first + ", Signature=aa, SignedHeaders=host, XSignature=bb",
		first + ", SignedHeaders=host, XSignature=aa",
		second + ", SignedHeaders=host, Signature=aa",
		"AWS4-HMAC-SHA256 SignedHeaders=host, Signature=aa, Credential=fourSignature=cc",
		"AWS4-HMAC-SHA256 SignedHeaders=host, Signature=aa, Credential=fourSignature=dd",
		"AWS4-Signature=aa", "Signature=aa",
	} {
		requests = append(requests, request{authorization, "20260101T000000Z", "X-Amz-Date", ""})
	}
	whole := first + ", SignedHeaders=host, Signature=cc"
	requests = append(requests, request{whole, "Thu, 01 Jan 2026 00:00:00 GMT", "Date", ""}, request{whole, "", "Date", ""},
		request{whole, "20260101T000000Z", "X-Amz-Date", "X-Amz-Algorithm=AWS4-HMAC-SHA256"}, request{whole, "20260101T000000Z", "X-Amz-Date", "a=b"})
	for _, before := range requests {
		for _, r := range requests {
			header := func(r request) func(string) []byte {
				return func(name string) []byte {
					switch name {
					case "Authorization":
						return []byte(r.authorization)
					case r.dateHeader:
						return []byte(r.date)
					}
					return nil
				}
			}
			var reader Reader
			_, _ = reader.Read(header(before), before.query)
			got, err := reader.Read(header(r), r.query)
			want, wantErr := Read(header(r), r.query)
			if fmt.Sprintf("%v %v", got, err) != fmt.Sprintf("%v %v", want, wantErr) {
				t.Errorf("after %q, %q is read as %v, %v, want %v, %v", before, r, got, err, want, wantErr)
			}
		}
	}
}

// A request is verified as it is without a Reader, whatever the request before it was.
func TestVerifyNext(t *testing.T) {
	first := signed(vectorKey, vectorSecret, vectorTime)
	headers := first.Headers.(headerList)
	with := func(more ...[2]string) Request {
		r := first
		r.Headers = headers.with(more...)
		return r
	}
	authorization := string(headers.Header("Authorization"))
	otherBody, otherService, query := first, first, first
	otherBody.Body, otherService.Service, query.Query = append([]byte(" "), first.Body...), "monitoring", "a=b"
	// rightly returns a request with another header whose signature is right.
	rightly := func(name, value string) Request {
		r := with([2]string{name, value})
		right := sign(r, vectorDate, vectorSecret, vectorKey+"/20150830/eu-west-1/dynamodb/aws4_request", "host;x-amz-date;x-amz-target")
		r.Headers = r.Headers.(headerList).with([2]string{"Authorization", authorization[:len(authorization)-64] + right})
		return r
	}
	now := vectorTime
	v := NewVerifier(vectorSet(), func() time.Time { return now }, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		name string
		r    Request
		now  time.Time
		keys *keys.Set
	}{
		{name: "the same", r: first},
		{name: "of a later second", r: signed(vectorKey, vectorSecret, vectorTime.Add(time.Second))},
		{name: "of another key", r: signed("ASIATEMP", vectorSecret, vectorTime)},
		{name: "of an unknown key", r: signed("AKIAOTHER", vectorSecret, vectorTime)},
		{name: "of another secret", r: signed(vectorKey, "other", vectorTime)},
		{name: "with another body", r: otherBody},
		{name: "to another service", r: otherService},
		{name: "with a query", r: query},
		{name: "with another signature", r: with([2]string{"Authorization", authorization[:len(authorization)-1] + "x"})},
		{name: "with a longer signature", r: with([2]string{"Authorization", authorization + "0"})},
		{name: "with one more part", r: with([2]string{"Authorization", authorization + ", a=b"})},
		{name: "with a part that is not a pair", r: with([2]string{"Authorization", authorization + " a"})},
		{name: "with another target", r: with([2]string{"X-Amz-Target", "DynamoDB_20120810.DeleteTable"})},
		{name: "with a second target", r: with([2]string{"X-Amz-Target", "DynamoDB_20120810.GetItem"}, [2]string{"X-Amz-Target", "DynamoDB_20120810.GetItem"})},
		{name: "with a fork that is not signed", r: with([2]string{"X-Stator-Fork", "one"})},
		{name: "with another target and a right signature", r: rightly("X-Amz-Target", "DynamoDB_20120810.DeleteTable")},
		{name: "with a short host and a right signature", r: rightly("Host", "a")},
		{name: "with a long host and a right signature", r: rightly("Host", strings.Repeat("a", 2000))},
		{name: "with another date", r: with([2]string{"X-Amz-Date", "20150830T123601Z"})},
		{name: "without a date", r: with([2]string{"X-Amz-Date", ""})},
		{name: "with the date in Date", r: with([2]string{"X-Amz-Date", ""}, [2]string{"Date", vectorDate})},
		{name: "with a wrong hash of the body", r: with([2]string{"X-Amz-Content-Sha256", "00"})},
		{name: "that is old", r: first, now: vectorTime.Add(skew + time.Minute)},
		{name: "that is almost old", r: first, now: vectorTime.Add(skew + time.Second/2)},
		{name: "that is early", r: first, now: vectorTime.Add(-skew - time.Minute)},
		{name: "after the key was removed", r: first, keys: keys.NewSet()},
		{name: "after the secret was changed", r: first, keys: keys.NewSet(&keys.Key{AccessKey: vectorKey, Secret: keys.NewSecret("new")})},
	} {
		for before := range 3 { // requests of the connection; the second one hashes what the next have in common
			t.Run(fmt.Sprintf("%s, after %d", c.name, before), func(t *testing.T) {
				var last Reader
				now = vectorTime
				v.Replace(vectorSet(), nil)
				for n := range before {
					if _, err := v.VerifyNext(first, &last); err != nil || last.verified == nil || (last.verified.known != nil) != (n > 0) {
						t.Fatalf("request %d: %v, remembered: %+v", n, err, last.verified)
					}
				}
				if !c.now.IsZero() {
					now = c.now
				}
				if c.keys != nil {
					v.Replace(c.keys, nil)
				}
				got, err := v.VerifyNext(c.r, &last)
				want, wantErr := v.Verify(c.r)
				if fmt.Sprintf("%v %v", got, err) != fmt.Sprintf("%v %v", want, wantErr) {
					t.Errorf("%v, %v, want %v, %v", got, err, want, wantErr)
				}
			})
		}
	}
}

// What is remembered of a connection is bounded, whatever its requests have in their headers.
func TestRememberedIsBounded(t *testing.T) {
	r := signed(vectorKey, vectorSecret, vectorTime)
	headers := r.Headers.(headerList).with([2]string{"Host", strings.Repeat("a", 100_000)})
	authorization := string(headers.Header("Authorization"))
	r.Headers = headers
	right := sign(r, vectorDate, vectorSecret, vectorKey+"/20150830/eu-west-1/dynamodb/aws4_request", "host;x-amz-date;x-amz-target")
	r.Headers = headers.with([2]string{"Authorization", authorization[:len(authorization)-64] + right})
	v := newTestVerifier(vectorTime)
	var last Reader
	for range 2 {
		if _, err := v.VerifyNext(r, &last); err != nil || last.verified == nil {
			t.Fatalf("%v, remembered: %v", err, last.verified != nil)
		}
	}
	if n := len(last.verified.known.canonical); n == 0 || n > maxRemembered {
		t.Errorf("%d bytes of the canonical form are remembered", n)
	}
}

// countedHeaders counts how often the hash of a body is compared with a declared one.
type countedHeaders struct {
	headerList
	hashed *int
}

func (h countedHeaders) Header(name string) []byte {
	if name == "X-Amz-Content-Sha256" {
		*h.hashed++
	}
	return h.headerList.Header(name)
}

// A wrong signature costs no more than a right one: the body is hashed once, also after a request
// that is remembered.
func TestWrongSignatureIsHashedOnce(t *testing.T) {
	first := signed(vectorKey, vectorSecret, vectorTime)
	headers := first.Headers.(headerList)
	authorization := string(headers.Header("Authorization"))
	v := NewVerifier(vectorSet(), func() time.Time { return vectorTime }, slog.New(slog.DiscardHandler))
	for _, signature := range []string{authorization, authorization[:len(authorization)-64] + strings.Repeat("0", 64), authorization[:len(authorization)-1], authorization + "0"} {
		var last Reader
		if _, err := v.VerifyNext(first, &last); err != nil || last.verified == nil {
			t.Fatalf("the first request: %v", err)
		}
		hashed, r := 0, first
		r.Headers = countedHeaders{headers.with([2]string{"Authorization", signature}), &hashed}
		_, err := v.VerifyNext(r, &last)
		if hashed != 1 || (err == nil) != (signature == authorization) {
			t.Errorf("%s: hashed %d times, %v", signature, hashed, err)
		}
	}
}

// A request has the policies of the set that its key is of.
func TestSignerHasPoliciesOfItsKeys(t *testing.T) {
	const arn = "arn:aws:iam::000000000000:user/me"
	set := func(tag string) *principals.Set {
		s, err := principals.Define([]principals.Definition{{ARN: arn, Tags: map[string]string{"set": tag}}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	key := func() *keys.Set {
		return keys.NewSet(&keys.Key{AccessKey: vectorKey, Secret: keys.NewSecret(vectorSecret), Principal: arn})
	}
	r := signed(vectorKey, vectorSecret, vectorTime)
	v := NewVerifier(key(), func() time.Time { return vectorTime }, slog.New(slog.DiscardHandler))
	var last Reader
	if s, err := v.VerifyNext(r, &last); err != nil || s.Identity != nil {
		t.Errorf("without policies: %v, %v", s, err)
	}
	for _, tag := range []string{"first", "second"} {
		v.Replace(key(), set(tag))
		for range 2 { // the second is remembered
			s, err := v.VerifyNext(r, &last)
			if err != nil || s.Identity == nil || s.Identity.Tags["set"] != tag || !s.Identity.Listed {
				t.Fatalf("%s: %+v, %v", tag, s.Identity, err)
			}
		}
	}
	v.Replace(keys.NewSet(&keys.Key{AccessKey: vectorKey, Secret: keys.NewSecret(vectorSecret), Principal: "no ARN"}), set("third"))
	if s, err := v.Verify(r); err != nil || s.Identity == nil || s.Identity.Listed || s.Identity.Policies.Identity != nil {
		t.Errorf("an owner that is no principal: %+v, %v", s.Identity, err)
	}
}
