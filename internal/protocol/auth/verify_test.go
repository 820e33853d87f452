package auth

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/virtualtime"
)

// The keys of AWS's test vectors.
const (
	vectorKey    = "AKIDEXAMPLE"
	vectorSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	vectorDate   = "20150830T123600Z"
	vectorToken  = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)

var vectorTime = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)

// headerList has headers in their order of arrival.
type headerList [][2]string

func (l headerList) Header(name string) []byte {
	value, _, _ := l.HeaderAt([]byte(name), 0)
	return value
}

func (l headerList) HeaderAt(name []byte, from int) ([]byte, int, bool) {
	for i, h := range l[from:] {
		if strings.EqualFold(h[0], string(name)) {
			return []byte(h[1]), from + i + 1, true
		}
	}
	return nil, 0, false
}

// with returns the headers with others in place of those of the same names.
func (l headerList) with(more ...[2]string) headerList {
	list := slices.DeleteFunc(slices.Clone(l), func(h [2]string) bool {
		return slices.ContainsFunc(more, func(m [2]string) bool { return strings.EqualFold(m[0], h[0]) })
	})
	return append(list, more...)
}

func vectorSet() *keys.Set {
	return keys.NewSet(
		&keys.Key{AccessKey: vectorKey, Secret: keys.NewSecret(vectorSecret), Principal: "arn:aws:iam::000000000000:user/a"},
		&keys.Key{AccessKey: "ASIATEMP", Secret: keys.NewSecret(vectorSecret), Token: keys.NewSecret("the token"), Expires: vectorTime.Add(time.Hour)},
	)
}

func newTestVerifier(now time.Time) *Verifier {
	return NewVerifier(vectorSet(), func() time.Time { return now }, slog.New(slog.DiscardHandler))
}

// The signatures are those of AWS's test suite for Signature Version 4. Its requests are to a
// service named service; several of its forms have the same signature.
func TestVectors(t *testing.T) {
	const vanilla = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
	const unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	one := func(values ...string) (l headerList) {
		for _, v := range values {
			l = append(l, [2]string{"My-Header1", v})
		}
		return l
	}
	for _, c := range []struct {
		name, method, path, query string
		headers                   headerList
		body                      string
		signed, signature         string
	}{
		{"nothing special", "GET", "/", "", nil, "", "host;x-amz-date", vanilla},
		{"a POST", "POST", "/", "", nil, "", "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{"a header three times", "GET", "/", "", one("value2", "value2", "value1"), "", "host;my-header1;x-amz-date", "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
		{"values in their order of arrival", "GET", "/", "", one("value4", "value1", "value3", "value2"), "", "host;my-header1;x-amz-date", "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
		{"a value of several lines, as net/http joins them", "GET", "/", "", one("value1 value2 value3"), "", "host;my-header1;x-amz-date", "cfd34249e4b1c8d6b91ef74165d41a32e5fab3306300901bb65a51a73575eefd"},
		{"spaces at the ends and in quotes", "GET", "/", "", headerList{{"My-Header1", " value1"}, {"My-Header2", ` "a   b   c"  `}}, "", "host;my-header1;my-header2;x-amz-date", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
		{"letters that need no escape", "GET", "/" + unreserved, "", nil, "", "host;x-amz-date", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
		{"UTF-8 in the path", "GET", "/ሴ", "", nil, "", "host;x-amz-date", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
		{"a parameter", "GET", "/", "Param1=value1", nil, "", "host;x-amz-date", "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
		{"parameters sorted by their escaped names", "GET", "/", "Param-3=Value3&Param=Value2&%E1%88%B4=Value1", nil, "", "host;x-amz-date", "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
		{"parameters sorted by name", "GET", "/", "Param2=value2&Param1=value1", nil, "", "host;x-amz-date", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		{"values sorted with capitals first", "GET", "/", "Param1=value2&Param1=Value1", nil, "", "host;x-amz-date", "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1"},
		{"values sorted", "GET", "/", "Param1=value2&Param1=value1", nil, "", "host;x-amz-date", "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"},
		{"parameters that need no escape", "GET", "/", unreserved + "=" + unreserved, nil, "", "host;x-amz-date", "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
		{"UTF-8 in the query", "GET", "/", "ሴ=bar", nil, "", "host;x-amz-date", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
		{"no path", "GET", "", "", nil, "", "host;x-amz-date", vanilla},
		{"two segments up", "GET", "/example1/example2/../..", "", nil, "", "host;x-amz-date", vanilla},
		{"one segment up", "GET", "/example/..", "", nil, "", "host;x-amz-date", vanilla},
		{"up from the root", "GET", "/..", "", nil, "", "host;x-amz-date", vanilla},
		{"a segment of one dot", "GET", "/./", "", nil, "", "host;x-amz-date", vanilla},
		{"a segment of one dot before another", "GET", "/./example", "", nil, "", "host;x-amz-date", "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5"},
		{"an empty segment", "GET", "//", "", nil, "", "host;x-amz-date", vanilla},
		{"empty segments", "GET", "//example//", "", nil, "", "host;x-amz-date", "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"},
		{"a space in the path", "GET", "/example space/", "", nil, "", "host;x-amz-date", "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
		{"a dollar in the path", "GET", "/example/$delete", "", nil, "", "host;x-amz-date", "a853c9b21b528b19643d00910d35b83a10c366a10833ceefb45edd6c80e40f27"},
		{"a header", "POST", "/", "", one("value1"), "", "host;my-header1;x-amz-date", "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
		{"a header in capitals", "POST", "/", "", headerList{{"MY-HEADER1", "value1"}}, "", "host;my-header1;x-amz-date", "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
		{"a value in capitals", "POST", "/", "", one("VALUE1"), "", "host;my-header1;x-amz-date", "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
		{"a session token", "POST", "/", "", headerList{{"X-Amz-Security-Token", vectorToken}}, "", "host;x-amz-date;x-amz-security-token", "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
		{"a session token that is not signed", "POST", "/", "", headerList{{"X-Amz-Security-Token", vectorToken}}, "", "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{"a POST with a query", "POST", "/", "Param1=value1", nil, "", "host;x-amz-date", "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
		{"an empty parameter", "POST", "/", "&Param1=value1&", nil, "", "host;x-amz-date", "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
		{"a body", "POST", "/", "", headerList{{"Content-Type", "application/x-www-form-urlencoded"}}, "Param1=value1", "content-type;host;x-amz-date", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
		{"a body with a character set", "POST", "/", "", headerList{{"Content-Type", "application/x-www-form-urlencoded; charset=utf8"}}, "Param1=value1", "content-type;host;x-amz-date", "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe"},
		{"a name of a header in capitals", "POST", "/", "", one("value1"), "", "host;My-Header1;X-Amz-Date", "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
		{"names of headers in another order", "POST", "/", "", one("value1"), "", "x-amz-date;my-header1;host", "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers := append(headerList{{"Host", "example.amazonaws.com"}, {"X-Amz-Date", vectorDate},
				{"Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=" + c.signed + ", Signature=" + c.signature}}, c.headers...)
			r := Request{Method: c.method, Path: c.path, Query: c.query, Headers: headers, Body: []byte(c.body), Service: "service"}
			v := newTestVerifier(vectorTime)
			if got, err := v.Verify(r); err != nil || string(got.AccessKey) != vectorKey || got.Region != "us-east-1" || got.Principal != "arn:aws:iam::000000000000:user/a" {
				t.Errorf("Verify returns %+v, %v", got, err)
			}
			r.Body = append(r.Body, ' ')
			if _, err := v.Verify(r); err == nil {
				t.Error("another body has the same signature")
			}
		})
	}
}

// sign signs a request independently of the code under test, for what the SDK does not make.
func sign(r Request, date, secret, credential, signedHeaders string) string {
	canonical := r.Method + "\n/\n\n"
	for name := range strings.SplitSeq(signedHeaders, ";") {
		canonical += name + ":" + string(r.Headers.Header(name)) + "\n"
	}
	sum := sha256.Sum256(r.Body)
	canonical += "\n" + signedHeaders + "\n" + hex.EncodeToString(sum[:])
	_, scope, _ := strings.Cut(credential, "/")
	sum = sha256.Sum256([]byte(canonical))
	text := "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope+"/"+text, "/") {
		mac := hmac.New(sha256.New, key)
		if strings.HasPrefix(part, "AWS4-HMAC") {
			part = text // its scope has slashes
		}
		mac.Write([]byte(part))
		key = mac.Sum(nil)
		if part == text {
			break
		}
	}
	return hex.EncodeToString(key)
}

// signed returns a signed request to DynamoDB.
func signed(accessKey, secret string, at time.Time, more ...[2]string) Request {
	date := at.UTC().Format(dateFormat)
	r := Request{Method: "POST", Path: "/", Body: []byte(`{"TableName":"Orders"}`), Service: "dynamodb",
		Headers: append(headerList{{"Host", "localhost:8000"}, {"X-Amz-Target", "DynamoDB_20120810.GetItem"}, {"X-Amz-Date", date}}, more...)}
	credential := accessKey + "/" + date[:8] + "/eu-west-1/dynamodb/aws4_request"
	const names = "host;x-amz-date;x-amz-target"
	r.Headers = append(r.Headers.(headerList), [2]string{"Authorization", "AWS4-HMAC-SHA256 Credential=" + credential + ", SignedHeaders=" + names + ", Signature=" + sign(r, date, secret, credential, names)})
	return r
}

const wrongSignature = "InvalidSignatureException: The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details."

// Each request has the fault of its case and all that come after it in the list, so the order
// of the checks is that of the list.
func TestOrderOfFaults(t *testing.T) {
	authorization := func(text string) [2]string { return [2]string{"Authorization", text} }
	const bad = "AWS4-HMAC-SHA25 Credential=a/b/C/d/e, SignedHeaders=x, Signature=ab"
	sum := sha256.Sum256([]byte("AWS4-HMAC-SHA25 Credential"))
	now := vectorTime.Add(24 * time.Hour)
	for _, c := range []struct {
		name  string
		query string
		with  [][2]string
		want  string
	}{
		{"both places", "X-Amz-Algorithm=a", [][2]string{authorization("AWS4-")},
			"InvalidSignatureException: Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."},
		{"none", "", [][2]string{authorization("Bearer Credential")}, "MissingAuthenticationTokenException: Request is missing Authentication Token"},
		{"a part without a value", "", [][2]string{authorization("AWS4-HMAC-SHA25 Credential")},
			"IncompleteSignatureException: 'Credential' not a valid key=value pair (missing equal-sign) in Authorization header (hashed with SHA-256 and encoded with Base64): '" + base64.StdEncoding.EncodeToString(sum[:]) + "'."},
		{"parts missing", "", [][2]string{authorization("AWS4-HMAC-SHA25 Credential=a/b"), {"X-Amz-Date", "201"}},
			"IncompleteSignatureException: Authorization header requires 'Signature' parameter. Authorization header requires 'SignedHeaders' parameter. Authorization=AWS4-HMAC-SHA25 Credential=a/b"},
		{"the form of the date", "", [][2]string{authorization(bad), {"X-Amz-Date", "201"}},
			"IncompleteSignatureException: Date must be in ISO-8601 'basic format'. Got '201'. See http://en.wikipedia.org/wiki/ISO_8601"},
		{"too old", "", [][2]string{authorization(bad), {"X-Amz-Date", vectorDate}},
			"InvalidSignatureException: Signature expired: 20150830T123600Z is now earlier than 20150831T122100Z (20150831T123600Z - 15 min.)"},
		{"too new", "", [][2]string{authorization(bad), {"X-Amz-Date", "20150831T130000Z"}},
			"InvalidSignatureException: Signature not yet current: 20150831T130000Z is still later than 20150831T125100Z (20150831T123600Z + 15 min.)"},
		{"the host is not signed", "", [][2]string{authorization(bad)}, "InvalidSignatureException: 'Host' must be a 'SignedHeader' in the AWS Authorization."},
		{"the operation is not signed", "", [][2]string{authorization(strings.Replace(bad, "=x", "=host", 1))}, "InvalidSignatureException: 'X-Amz-Target' must be a 'SignedHeader' in the AWS Authorization."},
		{"the fork is not signed", "", [][2]string{authorization(strings.Replace(bad, "=x", "=host;x-amz-target", 1)), {"X-Stator-Fork", "one"}},
			"InvalidSignatureException: 'X-Stator-Fork' must be a 'SignedHeader' in the AWS Authorization."},
		{"the algorithm", "", [][2]string{authorization(strings.Replace(bad, "=x", "=host;x-amz-target", 1))},
			"IncompleteSignatureException: Unsupported AWS 'algorithm': 'AWS4-HMAC-SHA25' (only AWS4-HMAC-SHA256 for now). "},
		{"the algorithm of version 4A", "", [][2]string{authorization("AWS4-ECDSA-P256-SHA256 Credential=a/b/c/d, SignedHeaders=host;x-amz-target, Signature=ab")},
			"IncompleteSignatureException: Unsupported AWS 'algorithm': 'AWS4-ECDSA-P256-SHA256' (only AWS4-HMAC-SHA256 for now). "},
		{"four parts of the credential", "", [][2]string{authorization("AWS4-HMAC-SHA256 Credential=a/b/c/d, SignedHeaders=host;x-amz-target, Signature=ab")},
			"IncompleteSignatureException: Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got 'a/b/c/d'"},
		{"six parts of the credential", "", [][2]string{authorization("AWS4-HMAC-SHA256 Credential=a/b/c/d/e/f, SignedHeaders=host;x-amz-target, Signature=ab")},
			"IncompleteSignatureException: Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got 'a/b/c/d/e/f'"},
		{"the scope, slashes at its end do not count", "", [][2]string{authorization("AWS4-HMAC-SHA256 Credential=a/b/C/d/e//, SignedHeaders=host;x-amz-target, Signature=ab")},
			"InvalidSignatureException: Credential should be scoped to a valid region, not 'C'. Credential should be scoped to correct service: 'dynamodb'. " +
				"Credential should be scoped with a valid terminator: 'aws4_request', not 'e'. " +
				"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: 'b' != '20150831', from '20150831T123600Z'."},
		{"another service", "", [][2]string{authorization("AWS4-HMAC-SHA256 Credential=a/20150831/eu-west-1/s3/aws4_request, SignedHeaders=host;x-amz-target, Signature=ab")},
			"InvalidSignatureException: Credential should be scoped to correct service: 'dynamodb'. "},
		{"an unknown key", "", [][2]string{authorization("AWS4-HMAC-SHA256 Credential=a/20150831/eu-west-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-target, Signature=ab")},
			"UnrecognizedClientException: The security token included in the request is invalid."},
		{"the signature", "", [][2]string{authorization("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150831/eu-west-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-target, Signature=ab")}, wrongSignature},
		{"the signature, before the token", "", [][2]string{authorization("AWS4-HMAC-SHA256 Credential=ASIATEMP/20150831/eu-west-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-target, Signature=ab")}, wrongSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := signed("a", "b", now)
			r.Query, r.Headers = c.query, r.Headers.(headerList).with(c.with...)
			got, err := newTestVerifier(now).Verify(r)
			if err == nil || err.Error() != c.want || got.AccessKey != nil {
				t.Errorf("the error is\n%v, want\n%s", err, c.want)
			}
			var fault *apierror.Error
			if !errors.As(err, &fault) || fault.Status != 400 || !strings.HasPrefix(fault.Type(), "com.amazon.coral.service#") {
				t.Errorf("the error is %+v", fault)
			}
		})
	}
}

func TestSessionTokens(t *testing.T) {
	expires := vectorTime.Add(time.Hour)
	for _, c := range []struct {
		name, key, token string
		at               time.Time
		want             string
	}{
		{"the right token", "ASIATEMP", "the token", vectorTime, ""},
		{"the last moment", "ASIATEMP", "the token", expires.Add(-time.Nanosecond), ""},
		{"an expired token", "ASIATEMP", "the token", expires, "ExpiredTokenException: The security token included in the request is expired"},
		{"a wrong token", "ASIATEMP", "the tokem", vectorTime, "UnrecognizedClientException: The security token included in the request is invalid"},
		{"a token with more", "ASIATEMP", "the token!", vectorTime, "UnrecognizedClientException: The security token included in the request is invalid"},
		{"no token", "ASIATEMP", "", vectorTime, "UnrecognizedClientException: The security token included in the request is invalid"},
		{"a wrong token after its expiry", "ASIATEMP", "a", expires, "UnrecognizedClientException: The security token included in the request is invalid"},
		{"a token that is not needed", vectorKey, "a", vectorTime, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := signed(c.key, vectorSecret, c.at)
			if c.token != "" {
				r.Headers = r.Headers.(headerList).with([2]string{"X-Amz-Security-Token", c.token})
			}
			_, err := newTestVerifier(c.at).Verify(r)
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
		})
	}
}

// The clocks of client and server may differ by 15 minutes.
func TestClockSkew(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		v := NewVerifier(vectorSet(), time.Now, slog.New(slog.DiscardHandler))
		early, late := signed(vectorKey, vectorSecret, time.Now()), signed(vectorKey, vectorSecret, time.Now().Add(30*time.Minute+time.Second))
		for _, c := range []struct {
			after           time.Duration
			earlyOK, lateOK bool
		}{
			{0, true, false}, {15 * time.Minute, true, false}, {time.Second, false, true}, {15 * time.Minute, false, true}, {15 * time.Minute, false, true}, {time.Second, false, false},
		} {
			time.Sleep(c.after)
			_, earlyErr := v.Verify(early)
			_, lateErr := v.Verify(late)
			if c.earlyOK != (earlyErr == nil) || c.lateOK != (lateErr == nil) {
				t.Errorf("at %v: %v, %v", time.Now(), earlyErr, lateErr)
			}
		}
	})
}

// Keys expire by a clock that is followed; requests are dated by it only if that is asked for.
func TestFollow(t *testing.T) {
	expires := vectorTime.Add(time.Hour)
	for _, c := range []struct {
		name       string
		clock      time.Time
		dates      bool
		signed     time.Time
		key, fault string
	}{
		{"by the real time", expires.Add(-1), false, vectorTime, "ASIATEMP", ""},
		{"expired by the clock", expires, false, vectorTime, "ASIATEMP", "ExpiredTokenException"},
		{"far ahead", vectorTime.AddDate(1, 0, 0), false, vectorTime, vectorKey, ""},
		{"dated by the real time, far ahead", vectorTime.AddDate(1, 0, 0), true, vectorTime, vectorKey, "InvalidSignatureException"},
		{"dated by the clock", vectorTime.AddDate(1, 0, 0), true, vectorTime.AddDate(1, 0, 0), vectorKey, ""},
	} {
		v := newTestVerifier(vectorTime)
		v.Follow(func() time.Time { return c.clock }, c.dates)
		r := signed(c.key, vectorSecret, c.signed)
		r.Headers = r.Headers.(headerList).with([2]string{"X-Amz-Security-Token", "the token"})
		_, err := v.Verify(r)
		if (err == nil) != (c.fault == "") || err != nil && !strings.HasPrefix(err.Error(), c.fault+":") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Dates are parsed and written as package time does it.
func TestDates(t *testing.T) {
	for _, text := range []string{vectorDate, "00010101T000000Z", "99991231T235959Z", "20240229T000000Z", "20230229T000000Z", "20241301T000000Z", "20240001T000000Z", "20240100T000000Z",
		"20240132T000000Z", "20240101T240000Z", "20240101T006000Z", "20240101T000060Z", "20240101T000000z", "20240101 000000Z", "2024010aT000000Z", "20240101T00000/Z", "20240101T000000Z0", "", "T"} {
		got, ok := parseDate([]byte(text))
		want, err := time.Parse(dateFormat, text)
		if ok != (err == nil) || ok && !got.Equal(want) {
			t.Errorf("%s is parsed as %v, %v, want %v, %v", text, got, ok, want, err)
		}
		if ok && string(appendDate(nil, got)) != text {
			t.Errorf("%s is written as %s", text, appendDate(nil, got))
		}
	}
}

// A plain Date header can be in the place of X-Amz-Date, in both of its forms.
func TestPlainDate(t *testing.T) {
	for _, date := range []string{vectorDate, vectorTime.Format(http.TimeFormat)} {
		r := signed(vectorKey, vectorSecret, vectorTime)
		text := strings.Replace(string(r.Headers.Header("Authorization")), "host;x-amz-date;x-amz-target", "host;x-amz-target", 1)
		head, _, _ := strings.Cut(text, "Signature=")
		r.Headers = headerList{{"Host", "localhost:8000"}, {"X-Amz-Target", "DynamoDB_20120810.GetItem"}, {"Date", date}}
		text = head + "Signature=" + sign(r, vectorDate, vectorSecret, "AKIDEXAMPLE/20150830/eu-west-1/dynamodb/aws4_request", "host;x-amz-target")
		r.Headers = append(r.Headers.(headerList), [2]string{"Authorization", text})
		if _, err := newTestVerifier(vectorTime).Verify(r); err != nil {
			t.Errorf("with the date %s: %v", date, err)
		}
	}
}

// webHeaders are the headers of a request that the SDK has signed.
func webHeaders(r *http.Request) (l headerList) {
	l = headerList{{"Host", r.Host}}
	for name, values := range r.Header {
		if name == "Host" || name == "Content-Length" {
			continue
		}
		for _, v := range values {
			l = append(l, [2]string{name, v})
		}
	}
	if r.ContentLength > 0 {
		l = append(l, [2]string{"Content-Length", fmt.Sprint(r.ContentLength)})
	}
	return l
}

func sdkRequest(t *testing.T, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "db.internal:8443"
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Accept-Encoding", "identity")
	r.Header["X-Several"] = []string{"one", "  two   spaces "}
	return r
}

// What the SDK for Go signs is accepted; with another byte anywhere it is not.
func TestRoundTrip(t *testing.T) {
	const body = `{"TableName":"Orders","Item":{"id":{"S":"1"}}}`
	sum := sha256.Sum256([]byte(body))
	credentials := aws.Credentials{AccessKeyID: "ASIATEMP", SecretAccessKey: vectorSecret, SessionToken: "the token"}
	hash := hex.EncodeToString(sum[:])
	for _, c := range []struct {
		name, service, path, query string
		presigned                  bool
	}{
		{"a request of DynamoDB", "dynamodb", "/", "", false},
		{"one with a declared hash", "dynamodb", "/", "", false},
		{"a request of CloudWatch, with a path", "monitoring", "/service/GraniteServiceVersion20100801/operation/ListMetrics", "", false},
		{"a path with escapes", "dynamodb", "/a%20b/%E1%88%B4/$c", "", false},
		{"a query", "application-autoscaling", "/", "b=2&a=%2F+x&a=1&c", false},
		{"a presigned request", "dynamodb", "/", "", true},
		{"a presigned request with a query", "dynamodb", "/", "z=1&A=%20", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sdkRequest(t, "https://db.internal:8443"+c.path+"?"+c.query, body)
			if strings.Contains(c.name, "declared") {
				r.Header.Set("X-Amz-Content-Sha256", hash)
			}
			if c.presigned {
				uri, header, err := v4.NewSigner().PresignHTTP(context.Background(), credentials, r, hash, c.service, "eu-west-1", vectorTime)
				if err != nil {
					t.Fatal(err)
				}
				r = sdkRequest(t, uri, body)
				for name, values := range header {
					r.Header[name] = values
				}
			} else if err := v4.NewSigner().SignHTTP(context.Background(), credentials, r, hash, c.service, "eu-west-1", vectorTime); err != nil {
				t.Fatal(err)
			}
			sent := Request{Method: "POST", Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Headers: webHeaders(r), Body: []byte(body), Service: c.service}
			v := newTestVerifier(vectorTime)
			if got, err := v.Verify(sent); err != nil || got.Region != "eu-west-1" {
				t.Fatalf("Verify returns %+v, %v\n%+v", got, err, sent)
			}
			rejectsChanges(t, v, sent)
		})
	}
}

// rejectsChanges changes each byte of what is signed.
func rejectsChanges(t *testing.T, v *Verifier, sent Request) {
	t.Helper()
	refused := func(what string, r Request) {
		t.Helper()
		if _, err := v.Verify(r); err == nil {
			t.Errorf("accepted: %s", what)
		}
	}
	for _, text := range []*string{&sent.Method, &sent.Path, &sent.Query} {
		was := *text
		for i := range was {
			b := []byte(was)
			b[i] ^= 2
			if i == 0 && b[i] == '-' || was[i] == '/' && text == &sent.Path {
				b[i] = 'x'
			}
			if text == &sent.Query && (unescape(string(b)) == unescape(was) || sameQuery(string(b), was)) {
				continue // %2f is %2F
			}
			*text = string(b)
			refused(fmt.Sprintf("%q for %q", b, was), sent)
		}
		*text = was
	}
	for i := range sent.Body {
		changed := sent
		changed.Body = bytes.Clone(sent.Body)
		changed.Body[i] ^= 2
		refused(string(changed.Body), changed)
	}
	signedNames, authorization := signedNamesOf(sent)
	headers := sent.Headers.(headerList)
	for i, h := range headers {
		if !slices.Contains(signedNames, strings.ToLower(h[0])) && h[0] != "Authorization" {
			continue
		}
		for j := range h[1] {
			b := []byte(h[1])
			if b[j] == ' ' {
				continue // spaces can be more or fewer
			}
			b[j] ^= 1
			changed := sent
			changed.Headers = slices.Clone(headers)
			changed.Headers.(headerList)[i][1] = string(b)
			refused(h[0]+": "+string(b), changed)
		}
	}
	if authorization != "" {
		changed := sent
		changed.Headers = headers.with([2]string{"Authorization", authorization + "0"})
		refused("a longer signature", changed)
		changed.Headers = headers.with([2]string{"Authorization", authorization[:len(authorization)-1]})
		refused("a shorter signature", changed)
		changed.Headers = headers.with([2]string{"Authorization", strings.TrimRight(authorization, "0123456789abcdef")})
		refused("an empty signature", changed)
	}
}

// sameQuery reports whether two queries have the same canonical form.
func sameQuery(a, b string) bool {
	return string(appendQuery(nil, a)) == string(appendQuery(nil, b)) && strings.Contains(a, "X-Amz-Signature=") == strings.Contains(b, "X-Amz-Signature=") && signatureIn(a) == signatureIn(b)
}

func signatureIn(query string) string {
	_, rest, _ := strings.Cut(query, "X-Amz-Signature=")
	text, _, _ := strings.Cut(rest, "&")
	return text
}

func signedNamesOf(r Request) (names []string, header string) {
	var a authorization
	_ = a.find(r.Headers.Header, r.Query)
	return strings.Split(string(a.signedHeaders), ";"), string(a.header)
}

// A hash of the body that the client declares is never used in place of the body's.
func TestDeclaredHashes(t *testing.T) {
	const body = `{}`
	for _, declared := range []string{"UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", strings.Repeat("0", 64), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"} {
		for _, presigned := range []bool{false, true} {
			r := sdkRequest(t, "https://localhost/", body)
			r.Header.Set("X-Amz-Content-Sha256", declared)
			credentials := aws.Credentials{AccessKeyID: vectorKey, SecretAccessKey: vectorSecret}
			if presigned {
				uri, header, err := v4.NewSigner().PresignHTTP(context.Background(), credentials, r, declared, "dynamodb", "eu-west-1", vectorTime)
				if err != nil {
					t.Fatal(err)
				}
				r = sdkRequest(t, uri, body)
				for name, values := range header {
					r.Header[name] = values
				}
			} else if err := v4.NewSigner().SignHTTP(context.Background(), credentials, r, declared, "dynamodb", "eu-west-1", vectorTime); err != nil {
				t.Fatal(err)
			}
			_, err := newTestVerifier(vectorTime).Verify(Request{Method: "POST", Path: "/", Query: r.URL.RawQuery, Headers: webHeaders(r), Body: []byte(body), Service: "dynamodb"})
			if err == nil || err.Error() != wrongSignature {
				t.Errorf("with %s, presigned %v: %v", declared, presigned, err)
			}
		}
	}
	r := signed(vectorKey, vectorSecret, vectorTime, [2]string{"X-Amz-Content-Sha256", strings.Repeat("0", 64)})
	if _, err := newTestVerifier(vectorTime).Verify(r); err == nil || err.Error() != wrongSignature {
		t.Errorf("with a wrong hash that is not signed: %v", err)
	}
}

func TestPresignedExpiry(t *testing.T) {
	for _, c := range []struct {
		expires string
		at      time.Duration
		want    string
	}{
		{"300", 0, ""},
		{"300", 300 * time.Second, ""},
		{"300", -15 * time.Minute, ""},
		{"300", -15*time.Minute - time.Second, "InvalidSignatureException: Signature not yet current: 20150830T123600Z is still later than 20150830T123559Z (20150830T122059Z + 15 min.)"},
		{"300", 301 * time.Second, "InvalidSignatureException: Signature expired: 20150830T123600Z is now earlier than 20150830T123601Z (20150830T124101Z - 5 min.)"},
		{"1", 2 * time.Second, "InvalidSignatureException: Signature expired: 20150830T123600Z is now earlier than 20150830T123601Z (20150830T123602Z - 1 sec.)"},
		{"604800", 604800 * time.Second, ""},
		{"604801", 0, "IncompleteSignatureException: X-Amz-Expires must be a number of seconds from 1 to 604800."},
		{"0", 0, "IncompleteSignatureException: X-Amz-Expires must be a number of seconds from 1 to 604800."},
		{"-1", 0, "IncompleteSignatureException: X-Amz-Expires must be a number of seconds from 1 to 604800."},
		{"soon", 0, "IncompleteSignatureException: X-Amz-Expires must be a number of seconds from 1 to 604800."},
		{"", 14 * time.Minute, ""},
		{"", 16 * time.Minute, "InvalidSignatureException: Signature expired: 20150830T123600Z is now earlier than 20150830T123700Z (20150830T125200Z - 15 min.)"},
	} {
		t.Run(c.expires+c.at.String(), func(t *testing.T) {
			query := ""
			if c.expires != "" {
				query = "?X-Amz-Expires=" + c.expires
			}
			const body = `{}`
			sum := sha256.Sum256([]byte(body))
			uri, header, err := v4.NewSigner().PresignHTTP(context.Background(), aws.Credentials{AccessKeyID: vectorKey, SecretAccessKey: vectorSecret},
				sdkRequest(t, "https://localhost/"+query, body), hex.EncodeToString(sum[:]), "dynamodb", "eu-west-1", vectorTime)
			if err != nil {
				t.Fatal(err)
			}
			r := sdkRequest(t, uri, body)
			for name, values := range header {
				r.Header[name] = values
			}
			_, err = newTestVerifier(vectorTime.Add(c.at)).Verify(Request{Method: "POST", Path: "/", Query: r.URL.RawQuery, Headers: webHeaders(r), Body: []byte(body), Service: "dynamodb"})
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
		})
	}
}

// A list of signed headers cannot make the canonical form larger than the request.
func TestSignedHeadersAreBounded(t *testing.T) {
	for _, names := range []string{"host;x-amz-target;x-amz-target", "host" + strings.Repeat(";", 5000) + "x-amz-target", "Host;host;x-amz-target", manyNames()} {
		r := signed(vectorKey, vectorSecret, vectorTime)
		text := strings.Replace(string(r.Headers.Header("Authorization")), "host;x-amz-date;x-amz-target", names, 1)
		r.Headers = r.Headers.(headerList).with([2]string{"Authorization", text})
		if _, err := newTestVerifier(vectorTime).Verify(r); err == nil || err.Error() != wrongSignature {
			t.Errorf("the error is %v", err)
		}
	}
}

func manyNames() string {
	names := []string{"host", "x-amz-target"}
	for i := range 2 * maxSignedHeaders {
		names = append(names, fmt.Sprintf("x-%05d", i))
	}
	return strings.Join(names, ";")
}

// A broken signature costs no more than a good one, whatever names of headers it claims to sign.
func TestBrokenSignaturesCostNoMore(t *testing.T) {
	v := newTestVerifier(vectorTime)
	allocated := func(names string) uint64 {
		r := signed(vectorKey, vectorSecret, vectorTime)
		text := strings.Replace(string(r.Headers.Header("Authorization")), "host;x-amz-date;x-amz-target", names, 1)
		r.Headers = r.Headers.(headerList).with([2]string{"Authorization", text})
		const rounds = 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			_, _ = v.Verify(r)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / rounds
	}
	const bound = 64 << 10 // the headers of the test are copied, with 40 KB
	for _, c := range []struct{ name, names string }{
		{"the control", "x-amz-target;x-amz-date;host"},
		{"many names", "x-amz-target;host" + strings.Repeat(";b;a", 10_000)},
		{"empty names", "x-amz-target;host" + strings.Repeat(";", 40_000)},
	} {
		if got := allocated(c.names); got > bound {
			t.Errorf("%s: %d bytes are allocated", c.name, got)
		}
	}
}

// Keys can be replaced while requests are verified; a secret that was replaced is refused.
func TestReplace(t *testing.T) {
	v := newTestVerifier(vectorTime)
	old, replaced := signed(vectorKey, vectorSecret, vectorTime), signed(vectorKey, "another", vectorTime)
	other := keys.NewSet(&keys.Key{AccessKey: vectorKey, Secret: keys.NewSecret("another")})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				_, oldErr := v.Verify(old)
				_, newErr := v.Verify(replaced)
				for _, err := range []error{oldErr, newErr} {
					if err != nil && err.Error() != wrongSignature {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 100 {
		v.Replace(other, nil)
		if _, err := v.Verify(replaced); err != nil {
			t.Error(err)
		}
		if _, err := v.Verify(old); err == nil {
			t.Error("the old secret is accepted")
		}
		v.Replace(vectorSet(), nil)
	}
	wg.Wait()
	v.Replace(keys.NewSet(), nil)
	if _, err := v.Verify(old); err == nil || !strings.HasPrefix(err.Error(), unrecognizedClient) {
		t.Errorf("without keys: %v", err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	c, key := newSigningKeys(), vectorSet().Find([]byte(vectorKey))
	find := func(day, region, service string) *signingKey {
		return c.find([]byte(day+region+service), key, []byte(day), []byte(region), service)
	}
	first := find("20150830", "eu-west-1", "dynamodb")
	if find("20150830", "eu-west-1", "dynamodb") != first {
		t.Error("a key is derived twice")
	}
	for _, other := range []*signingKey{find("20150831", "eu-west-1", "dynamodb"), find("20150830", "eu-west-2", "dynamodb"), find("20150830", "eu-west-1", "monitoring")} {
		if other == first || bytes.Equal(other.appendSum(nil, nil), first.appendSum(nil, nil)) {
			t.Errorf("%+v has the key of another scope", other.signingScope)
		}
	}
	for i := range 4 * cachedKeys {
		region := fmt.Sprintf("region-%d", i)
		if got := find("20150830", region, "dynamodb"); got.region != region {
			t.Fatalf("region %s has the key of %s", region, got.region)
		}
	}
}

// The signing keys of all unknown keys are one, which is cached like that of a known key.
func TestUnknownKeysAreCached(t *testing.T) {
	v := newTestVerifier(vectorTime)
	cached := func() (n int) {
		for i := range v.current.Load().cache.slots {
			if v.current.Load().cache.slots[i].Load() != nil {
				n++
			}
		}
		return n
	}
	for i := range 100 {
		if _, err := v.Verify(signed(fmt.Sprintf("AKIA%d", i), "a", vectorTime)); err == nil {
			t.Fatal("an unknown key is accepted")
		}
	}
	if n := cached(); n != 1 {
		t.Errorf("%d signing keys are cached", n)
	}
}

func TestVerifyPassword(t *testing.T) {
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for text, want := range map[string]bool{
		basic(vectorKey + ":" + vectorSecret): true, basic(vectorKey + ":"): false, basic(vectorKey): false, basic(":" + vectorSecret): false, basic(""): false,
		basic("other:" + vectorSecret): false, basic("ASIATEMP:" + vectorSecret): false, "Basic ?": false, "": false, "Bearer " + vectorSecret: false,
	} {
		if _, got := newTestVerifier(vectorTime).VerifyPassword([]byte(text)); got != want {
			t.Errorf("VerifyPassword(%q) is %v", text, got)
		}
	}
}

// The log says what the client should have signed, without its token and without any secret.
func TestWrongSignatureIsLogged(t *testing.T) {
	var text bytes.Buffer
	v := NewVerifier(vectorSet(), func() time.Time { return vectorTime }, slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	r := sdkRequest(t, "https://localhost/?X-Amz-Security-Token=PLANTED%20query&a=b", "{}")
	credentials := aws.Credentials{AccessKeyID: "ASIATEMP", SecretAccessKey: "PLANTED secret", SessionToken: "PLANTED  token"}
	if err := v4.NewSigner().SignHTTP(context.Background(), credentials, r, "0", "dynamodb", "eu-west-1", vectorTime); err != nil {
		t.Fatal(err)
	}
	_, err := v.Verify(Request{Method: "POST", Path: "/", Query: r.URL.RawQuery, Headers: webHeaders(r), Body: []byte("{}"), Service: "dynamodb"})
	if err == nil || !strings.Contains(text.String(), `x-amz-security-token:[secret]\n`) || !strings.Contains(text.String(), "X-Amz-Security-Token=[secret]") || !strings.Contains(text.String(), "host:db.internal:8443") {
		t.Errorf("%v, the log is %s", err, &text)
	}
	if strings.Contains(text.String(), "PLANTED") || strings.Contains(text.String(), vectorSecret) {
		t.Errorf("the log has a secret: %s", &text)
	}
}

// byteHeaders are headers as the door has them.
type byteHeaders []struct{ name, value []byte }

func (l byteHeaders) Header(name string) []byte {
	for _, h := range l {
		if len(h.name) == len(name) && strings.EqualFold(string(h.name), name) {
			return h.value
		}
	}
	return nil
}

func (l byteHeaders) HeaderAt(name []byte, from int) ([]byte, int, bool) {
	for i, h := range l[from:] {
		if len(h.name) == len(name) && bytes.EqualFold(h.name, name) {
			return h.value, from + i + 1, true
		}
	}
	return nil, 0, false
}

func doorRequest() Request {
	r := signed(vectorKey, vectorSecret, vectorTime)
	list := new(byteHeaders)
	for _, h := range r.Headers.(headerList) {
		*list = append(*list, struct{ name, value []byte }{[]byte(h[0]), []byte(h[1])})
	}
	r.Headers = list
	return r
}

func BenchmarkVerify(b *testing.B) {
	v, r := newTestVerifier(vectorTime), doorRequest()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifyNext verifies a request like the one before it on its connection.
func BenchmarkVerifyNext(b *testing.B) {
	v, r := newTestVerifier(vectorTime), doorRequest()
	var last Reader
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.VerifyNext(r, &last); err != nil {
			b.Fatal(err)
		}
	}
}

// Any header and query yield a signer only with the right signature.
func FuzzVerify(f *testing.F) {
	r := signed(vectorKey, vectorSecret, vectorTime)
	right := string(r.Headers.Header("Authorization"))
	f.Add(right, "", vectorDate)
	f.Add("AWS4-", "X-Amz-Algorithm=a&X-Amz-Credential=////&X-Amz-Signature=&X-Amz-SignedHeaders=;&X-Amz-Date=20150830T123600Z", "")
	f.Add("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/a/dynamodb/aws4_request,SignedHeaders=host;;Host;x-amz-target,Signature=", "%zz&+=%", vectorDate)
	v := newTestVerifier(vectorTime)
	f.Fuzz(func(t *testing.T, authorization, query, date string) {
		sent := r
		sent.Query, sent.Headers = query, headerList{{"Host", "localhost:8000"}, {"X-Amz-Target", "DynamoDB_20120810.GetItem"}, {"X-Amz-Date", date}, {"Authorization", authorization}}
		got, err := v.Verify(sent)
		var fault *apierror.Error
		switch {
		case err != nil && (!errors.As(err, &fault) || got.AccessKey != nil):
			t.Errorf("Verify returns %+v, %v", got, err)
		case err == nil && !strings.Contains(authorization, right[len(right)-64:]):
			t.Errorf("%q is accepted", authorization)
		}
	})
}
