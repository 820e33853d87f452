// Package auth reads who signed a request.
//
// It tells what is missing or malformed in a signature, in the service's
// words. Signatures are not verified yet.
package auth

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
)

// Signer is who signed a request, as the request itself says.
type Signer struct {
	AccessKey string
	Region    string
}

// Read finds the signer of a request, in its headers or in its query.
func Read(header func(name string) string, query string) (Signer, error) {
	authorization := header("Authorization")
	if query != "" {
		values, _ := url.ParseQuery(query) // what is malformed is left out
		switch {
		case values.Has("X-Amz-Algorithm") && authorization != "":
			return Signer{}, fault("InvalidSignatureException",
				"Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.")
		case values.Has("X-Amz-Algorithm"):
			return readQuery(values)
		}
	}
	if !strings.HasPrefix(authorization, "AWS4-") {
		return Signer{}, fault("MissingAuthenticationTokenException", "Request is missing Authentication Token")
	}
	return readHeader(authorization, header("X-Amz-Date") != "" || header("Date") != "")
}

// parameters are those that an Authorization header must have, in the order in
// which missing ones are told.
var parameters = [...]string{"Credential", "Signature", "SignedHeaders"}

func readHeader(authorization string, dated bool) (Signer, error) {
	_, rest, _ := strings.Cut(authorization, " ")
	var credential string
	var has [len(parameters)]bool
	for rest != "" {
		part := rest
		if end := strings.IndexAny(rest, ", "); end >= 0 {
			part, rest = rest[:end], rest[end+1:]
		} else {
			rest = ""
		}
		name, value, _ := strings.Cut(part, "=")
		for i := range parameters {
			if name == parameters[i] {
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
	return Signer{}, fault("IncompleteSignatureException", missing.String()+"Authorization="+authorization)
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
	return signer(query["X-Amz-Credential"][0]), nil
}

// signer takes a credential scope apart: key/date/region/service/aws4_request.
func signer(credential string) Signer {
	key, _, _ := strings.Cut(credential, "/")
	s := Signer{AccessKey: key}
	if strings.Count(credential, "/") < 4 {
		return s
	}
	scope := credential
	for range 2 {
		scope = scope[:strings.LastIndexByte(scope, '/')]
	}
	if region := scope[strings.LastIndexByte(scope, '/')+1:]; validRegion(region) {
		s.Region = region
	}
	return s
}

// validRegion keeps what is no region out of ARNs.
func validRegion(region string) bool {
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
