// Package coding implements the content codings of HTTP bodies: gzip and deflate.
//
// It knows nothing of requests; package server bounds what it decodes and encodes.
package coding

import (
	"bytes"
	"math"
	"strconv"
)

// Coding is how the bytes of a body are encoded.
type Coding uint8

// The codings that DynamoDB supports. Deflate is the zlib format, as in RFC 9110; some
// programs mean the bare deflate format, which DynamoDB does not decode.
const (
	Identity Coding = iota // not encoded
	Gzip
	Deflate
)

var names = [...]string{Identity: "identity", Gzip: "gzip", Deflate: "deflate"}

// String is the name of a coding in Content-Encoding.
func (c Coding) String() string { return names[c] }

// Parse returns the coding that a Content-Encoding names. It reports false for one that is
// not supported, and for a list of several.
func Parse(name []byte) (Coding, bool) {
	name = bytes.TrimSpace(name)
	if len(name) == 0 {
		return Identity, true
	}
	for c, known := range names {
		if bytes.EqualFold(name, []byte(known)) {
			return Coding(c), true
		}
	}
	return Identity, false
}

// Negotiate returns the coding for a reply to a request with this Accept-Encoding.
//
// DynamoDB takes the coding with the highest quality, and of several the one that is named
// first. An asterisk stands for the codings that are not named, gzip first; one with a name
// goes before it. The quality of identity is ignored. A quality that is no number is 1, and
// one above 1 is 1, too. (ScyllaDB's test_compressed_response.py, which it runs against
// DynamoDB, has these cases.)
func Negotiate(accept []byte) Coding {
	var named [len(names)]bool
	best, quality, others := Identity, 0.0, 0.0
	for entry := range bytes.SplitSeq(accept, []byte(",")) {
		name, parameters, _ := bytes.Cut(entry, []byte(";"))
		name = bytes.TrimSpace(name)
		if string(name) == "*" {
			others = max(others, qualityOf(parameters))
			continue
		}
		c, ok := Parse(name)
		if !ok || c == Identity {
			continue
		}
		named[c] = true
		if q := qualityOf(parameters); q > quality {
			best, quality = c, q
		}
	}
	for _, c := range []Coding{Gzip, Deflate} {
		if !named[c] && others > quality {
			return c
		}
	}
	return best
}

// qualityOf returns the quality among the parameters of a coding, from 0 to 1. As in
// DynamoDB, it begins after the first "q=", wherever that is.
func qualityOf(parameters []byte) float64 {
	_, text, found := bytes.Cut(bytes.ToLower(parameters), []byte("q="))
	if !found {
		return 1
	}
	text, _, _ = bytes.Cut(text, []byte(";"))
	q, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
	if err != nil || math.IsNaN(q) {
		return 1
	}
	return min(max(q, 0), 1)
}
