// Package auth reads the signer of a request.
//
// It reports missing and malformed parts of a signature in the service's
// words. Signatures are not verified yet.
package auth

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
)

// Signer is the signer that a request names.
type Signer struct {
	AccessKey []byte // shares memory with the header
	Region    string
}

// Read finds the signer of a request, in its headers or in its query.
func Read(header func(name string) []byte, query string) (Signer, error) {
	authorization := header("Authorization")
	if query != "" {
		values, _ := url.ParseQuery(query) // malformed parameters are dropped
		switch {
		case values.Has("X-Amz-Algorithm") && len(authorization) > 0:
			return Signer{}, fault("InvalidSignatureException",
				"Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.")
		case values.Has("X-Amz-Algorithm"):
			return readQuery(values)
		}
	}
	if !bytes.HasPrefix(authorization, []byte("AWS4-")) {
		return Signer{}, fault("MissingAuthenticationTokenException", "Request is missing Authentication Token")
	}
	return readHeader(authorization, len(header("X-Amz-Date")) > 0 || len(header("Date")) > 0)
}

// Repeated is the fault of a request with more than one Authorization header.
func Repeated() error {
	return fault("InvalidSignatureException", "Found more than one 'Authorization' HTTP header.")
}

// parameters are required in an Authorization header; missing ones are
// reported in this order.
var parameters = [...]string{"Credential", "Signature", "SignedHeaders"}

func readHeader(authorization []byte, dated bool) (Signer, error) {
	_, rest, _ := bytes.Cut(authorization, []byte(" "))
	var credential []byte
	var has [len(parameters)]bool
	for len(rest) > 0 {
		part := rest
		if end := separator(rest); end >= 0 {
			part, rest = rest[:end], rest[end+1:]
		} else {
			rest = nil
		}
		name, value, _ := bytes.Cut(part, []byte("="))
		for i := range parameters {
			if string(name) == parameters[i] {
				has[i] = true
				if i == 0 {
					credential = value
				}
			}
		}
	}
	if has == [...]bool{true, true, true} && dated {
		return signer(credential), nil
	}
	var missing strings.Builder
	for i, name := range parameters {
		if !has[i] {
			missing.WriteString("Authorization header requires '" + name + "' parameter. ")
		}
	}
	if !dated {
		missing.WriteString("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ")
	}
	return Signer{}, fault("IncompleteSignatureException", missing.String()+"Authorization="+string(authorization))
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

func readQuery(query map[string][]string) (Signer, error) {
	var missing strings.Builder
	for _, name := range []string{"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date"} {
		if v := query[name]; len(v) == 0 || name == "X-Amz-Algorithm" && v[0] == "" {
			missing.WriteString("AWS query-string parameters must include '" + name + "'. ")
		}
	}
	if missing.Len() > 0 {
		return Signer{}, fault("IncompleteSignatureException", missing.String()+"Re-examine the query-string parameters.")
	}
	return signer([]byte(query["X-Amz-Credential"][0])), nil
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
