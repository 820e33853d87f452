package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"time"
)

// These credentials are made up.
const (
	accessKey = "BENCHBENCHBENCHBENCH"
	secretKey = "bench"
	region    = "us-east-1"
)

// A signer signs requests with AWS's Signature Version 4. It caches the signing
// key of the day, and must not be used concurrently.
type signer struct {
	access, secret, scope string // the scope is region/service/aws4_request
	day                   string
	mac                   hash.Hash // with the key of the day
	text                  []byte
}

func newSigner(access, secret, region, service string) *signer {
	return &signer{access: access, secret: secret, scope: region + "/" + service + "/aws4_request"}
}

// header is one header of a request. Names are in lower case.
type header struct{ name, value string }

// authorization appends the value of the Authorization header for a POST of / with
// headers, sorted by name, and a body. The date is that of the header x-amz-date.
func (s *signer) authorization(b []byte, date string, headers []header, body []byte) []byte {
	if day := date[:8]; day != s.day {
		s.day, s.mac = day, hmac.New(sha256.New, s.key(day))
	}
	sum := sha256.Sum256(body)
	t := append(s.text[:0], "POST\n/\n\n"...)
	for _, h := range headers {
		t = append(append(append(append(t, h.name...), ':'), h.value...), '\n')
	}
	t = appendNames(append(t, '\n'), headers)
	t = hex.AppendEncode(append(t, '\n'), sum[:])
	sum = sha256.Sum256(t)

	t = append(append(append(t[:0], "AWS4-HMAC-SHA256\n"...), date...), '\n')
	t = append(append(append(append(t, s.day...), '/'), s.scope...), '\n')
	t = hex.AppendEncode(t, sum[:])
	s.text = t
	s.mac.Reset()
	s.mac.Write(t)

	b = append(append(append(b, "AWS4-HMAC-SHA256 Credential="...), s.access...), '/')
	b = append(append(append(b, s.day...), '/'), s.scope...)
	b = appendNames(append(b, ", SignedHeaders="...), headers)
	return hex.AppendEncode(append(b, ", Signature="...), s.mac.Sum(sum[:0]))
}

func appendNames(b []byte, headers []header) []byte {
	for i, h := range headers {
		if i > 0 {
			b = append(b, ';')
		}
		b = append(b, h.name...)
	}
	return b
}

// key returns the signing key of a day.
func (s *signer) key(day string) []byte {
	key := []byte("AWS4" + s.secret)
	for _, part := range append([]string{day}, strings.Split(s.scope, "/")...) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return key
}

// amzDate formats a time for x-amz-date.
func amzDate(t time.Time) string { return t.UTC().Format("20060102T150405Z") }
