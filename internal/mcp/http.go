package mcp

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Path is where the protocol is served over HTTP.
const Path = "/mcp"

// Handler serves the protocol over HTTP, to who has the token. It keeps no sessions, so it serves
// clients of all versions.
func (s *Server) Handler(token string) http.Handler {
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxArguments, PropagateRequestCancellation: true,
	})
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case !isLoopbackHost(r.Host):
			http.Error(w, "requests for this host are rejected: it is no loopback address", http.StatusForbidden)
			return
		case !fromOwnOrigin(r):
			http.Error(w, "requests of pages in a browser are rejected", http.StatusForbidden)
			return
		case !hasToken(r, want):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the request needs the header Authorization: Bearer TOKEN, with the token of the server's token file", http.StatusUnauthorized)
			return
		case r.URL.Path != Path:
			http.Error(w, "the path is "+Path, http.StatusNotFound)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// isLoopbackHost reports whether the Host of a request is this machine. The name of another one
// that resolves to it is that of a page which wants to reach us.
func isLoopbackHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	at, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && at.IsLoopback()
}

// fromOwnOrigin reports whether no page of another origin has sent a request.
func fromOwnOrigin(r *http.Request) bool {
	origin, site := r.Header.Values("Origin"), r.Header.Get("Sec-Fetch-Site")
	if site != "" && site != "none" && site != "same-origin" {
		return false
	}
	return len(origin) == 0 || len(origin) == 1 && origin[0] == "http://"+r.Host
}

// hasToken compares the token of a request in constant time.
func hasToken(r *http.Request, want [sha256.Size]byte) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

const minToken = 20 // characters

// Token reads the token in a file that only its owner can read. If there is no file it makes one
// with a random token.
func Token(path string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newToken(path)
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > 1024 || !isPrivate(info.Mode()) {
		return "", fmt.Errorf("cannot use the token in %s: it must be a file that only its owner can read\n        remove it, and a new one is made", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("cannot use the token in %s: it must be one word of at least %d characters\n        remove the file, and a new one is made", path, minToken)
	}
	return token, nil
}

func newToken(path string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("cannot make the folder of the token: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("cannot make the file of the token: %w", err)
	}
	token := rand.Text()
	_, err = fmt.Fprintln(f, token)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("cannot write the token: %w", err)
	}
	return token, nil
}
