package auth

import (
	"fmt"
	"testing"
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
			if fmt.Sprintf("%s %v", got, err) != fmt.Sprintf("%s %v", want, wantErr) {
				t.Errorf("after %q, %q is read as %s, %v, want %s, %v", before, r, got, err, want, wantErr)
			}
		}
	}
}
