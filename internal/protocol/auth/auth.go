// Package auth reads who signed a request.
//
// It tells what is missing or malformed in a signature, in the service's
// words. Signatures are not verified yet.
package auth

import (
	"net/http"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
)

// Signer is who signed a request, as the request itself says.
type Signer struct {
	AccessKey string
	Region    string
}

// Read finds the signer of a request, in its headers or in its query.
func Read(r *http.Request) (Signer, error) {
	header := r.Header.Get("Authorization")
	query := r.URL.Query()
	switch {
	case query.Has("X-Amz-Algorithm") && header != "":
		return Signer{}, fault("InvalidSignatureException",
			"Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.")
	case query.Has("X-Amz-Algorithm"):
		return readQuery(query)
	case !strings.HasPrefix(header, "AWS4-"):
		return Signer{}, fault("MissingAuthenticationTokenException", "Request is missing Authentication Token")
	}
	return readHeader(r, header)
}

func readHeader(r *http.Request, header string) (Signer, error) {
	_, rest, _ := strings.Cut(header, " ")
	parts := map[string]string{}
	for _, p := range strings.FieldsFunc(rest, func(c rune) bool { return c == ',' || c == ' ' }) {
		name, value, _ := strings.Cut(p, "=")
		parts[name] = value
	}
	var missing strings.Builder
	for _, name := range []string{"Credential", "Signature", "SignedHeaders"} {
		if _, ok := parts[name]; !ok {
			missing.WriteString("Authorization header requires '" + name + "' parameter. ")
		}
	}
	if r.Header.Get("X-Amz-Date") == "" && r.Header.Get("Date") == "" {
		missing.WriteString("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ")
	}
	if missing.Len() > 0 {
		return Signer{}, fault("IncompleteSignatureException", missing.String()+"Authorization="+header)
	}
	return signer(parts["Credential"]), nil
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
	parts := strings.Split(credential, "/")
	s := Signer{AccessKey: parts[0]}
	if len(parts) >= 5 && validRegion(parts[len(parts)-3]) {
		s.Region = parts[len(parts)-3]
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
