// Package auth reads the signer of a request, and verifies its signature (AWS Signature
// Version 4).
//
// It reports missing, malformed and wrong parts of a signature in the service's words. Keys
// come from package keys, and what their owners may do from package principals.
package auth

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/principals"
)

// Signer is the signer that a request names.
type Signer struct {
	AccessKey []byte // it may share memory with the header
	Region    string
	Principal string // the ARN of the key's owner; empty if the signature is not verified

	// Identity is the key's owner with its policies, as they were when the signature was verified;
	// nil without policies.
	Identity *principals.Identity
}

// Read finds the signer of a request, in its headers or in its query. It does not verify the
// signature.
func Read(header func(name string) []byte, query string) (Signer, error) {
	var a authorization
	if err := a.find(header, query); err != nil {
		return Signer{}, err
	}
	if err := a.incomplete(); err != nil {
		return Signer{}, err
	}
	return signer(a.credential), nil
}

// ReadAccessKey returns the access key that a request names; nil if its credential does not have five
// parts, so that what precedes the first slash may be the beginning of something else.
func ReadAccessKey(header func(name string) []byte, query string) []byte {
	var a authorization
	if a.find(header, query) != nil || bytes.Count(bytes.TrimRight(a.credential, "/"), []byte("/")) != 4 {
		return nil
	}
	return signer(a.credential).AccessKey
}

// Repeated is the fault of a request with more than one Authorization header.
func Repeated() error {
	return fault(invalidSignature, "Found more than one 'Authorization' HTTP header.")
}

const (
	invalidSignature    = "InvalidSignatureException"
	incompleteSignature = "IncompleteSignatureException"
	unrecognizedClient  = "UnrecognizedClientException"
)

// authorization has the parts of a signature as they were sent.
type authorization struct {
	header []byte // the whole header; nil if the parts are in the query
	query  url.Values

	algorithm     []byte
	credential    []byte
	signature     []byte
	signedHeaders []byte
	date          []byte
	has           [len(parameters)]bool
	malformed     []byte // the first part without an equal sign
}

// find finds the parts of a signature in the header or in the query.
func (a *authorization) find(header func(name string) []byte, query string) error {
	text := header("Authorization")
	if query != "" {
		values, _ := url.ParseQuery(query) // malformed parameters are dropped
		switch {
		case values.Has("X-Amz-Algorithm") && len(text) > 0:
			return fault(invalidSignature, "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.")
		case values.Has("X-Amz-Algorithm"):
			a.readQuery(values)
			return nil
		}
	}
	if !bytes.HasPrefix(text, []byte("AWS4-")) {
		return fault("MissingAuthenticationTokenException", "Request is missing Authentication Token")
	}
	a.date = dateOf(header)
	a.readHeader(text)
	return nil
}

// dateOf returns the date of a signature in the headers.
func dateOf(header func(name string) []byte) []byte {
	if date := header("X-Amz-Date"); len(date) > 0 {
		return date
	}
	return header("Date")
}

// parameters are required in an Authorization header; missing ones are
// reported in this order.
var parameters = [...]string{"Credential", "Signature", "SignedHeaders"}

func (a *authorization) readHeader(text []byte) {
	a.header = text
	var rest []byte
	a.algorithm, rest, _ = bytes.Cut(text, []byte(" "))
	for len(rest) > 0 {
		part := rest
		if end := separator(rest); end >= 0 {
			part, rest = rest[:end], rest[end+1:]
		} else {
			rest = nil
		}
		name, value, ok := bytes.Cut(part, []byte("="))
		if !ok && len(part) > 0 && a.malformed == nil {
			a.malformed = part
		}
		for i := range parameters {
			if string(name) == parameters[i] {
				a.has[i] = true
				*a.parameter(i) = value
			}
		}
	}
}

// parameter is where a parameter of the header is stored.
func (a *authorization) parameter(i int) *[]byte {
	switch i {
	case 0:
		return &a.credential
	case 1:
		return &a.signature
	}
	return &a.signedHeaders
}

// incomplete returns the fault of parts that are missing.
func (a *authorization) incomplete() error {
	if a.query != nil {
		return incompleteQuery(a.query)
	}
	dated := len(a.date) > 0
	if a.has == [...]bool{true, true, true} && dated {
		return nil
	}
	var missing strings.Builder
	for i, name := range parameters {
		if !a.has[i] {
			missing.WriteString("Authorization header requires '" + name + "' parameter. ")
		}
	}
	if !dated {
		missing.WriteString("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ")
	}
	return fault(incompleteSignature, missing.String()+"Authorization="+string(a.header))
}

// separator returns the index of the first comma or space of b, -1 if it has none. For long
// parameters bytes.IndexAny is several times slower.
func separator(b []byte) int {
	comma := bytes.IndexByte(b, ',')
	if comma >= 0 {
		b = b[:comma]
	}
	if space := bytes.IndexByte(b, ' '); space >= 0 {
		return space
	}
	return comma
}

func (a *authorization) readQuery(query url.Values) {
	a.query = query
	a.algorithm = []byte(query.Get("X-Amz-Algorithm"))
	a.credential = []byte(query.Get("X-Amz-Credential"))
	a.signature = []byte(query.Get("X-Amz-Signature"))
	a.signedHeaders = []byte(query.Get("X-Amz-SignedHeaders"))
	a.date = []byte(query.Get("X-Amz-Date"))
}

func incompleteQuery(query url.Values) error {
	var missing strings.Builder
	for _, name := range []string{"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date"} {
		if v := query[name]; len(v) == 0 || name == "X-Amz-Algorithm" && v[0] == "" {
			missing.WriteString("AWS query-string parameters must include '" + name + "'. ")
		}
	}
	if missing.Len() > 0 {
		return fault(incompleteSignature, missing.String()+"Re-examine the query-string parameters.")
	}
	return nil
}

// signer splits a credential scope: key/date/region/service/aws4_request.
func signer(credential []byte) Signer {
	key, _, _ := bytes.Cut(credential, []byte("/"))
	s := Signer{AccessKey: key}
	if bytes.Count(credential, []byte("/")) < 4 {
		return s
	}
	scope := credential
	for range 2 {
		scope = scope[:bytes.LastIndexByte(scope, '/')]
	}
	if region := scope[bytes.LastIndexByte(scope, '/')+1:]; validRegion(region) {
		s.Region = string(region)
	}
	return s
}

// validRegion reports whether a region may be used in ARNs.
func validRegion(region []byte) bool {
	for _, c := range region {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') {
			return false
		}
	}
	return len(region) > 0 && len(region) <= 32
}

func fault(code, message string) error {
	return &apierror.Error{Code: code, Status: http.StatusBadRequest, Message: message}
}
