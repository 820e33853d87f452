package console

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/stator-db/stator/internal/protocol/effect"
)

// Header is the header that the page sends with each request: the mode that the person has
// chosen.
const Header = "X-Stator-Console"

// SessionHeader is the header with the secret that the page got when the person signed in. Other
// servers of the host do not get it, but they do get the cookie.
const SessionHeader = "X-Stator-Session"

// policy is the content security policy: nothing but our own files, and no way to make code of
// text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; " +
	"form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// protect sets the headers of all replies. Files that may be kept replace Cache-Control.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
}

// fromOwnPage reports whether our own page has sent a request. Its Host is accepted already.
func fromOwnPage(r *http.Request) bool {
	if r.Header.Get(Header) == "" {
		return false
	}
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	switch {
	case origin != "" && origin != scheme(r)+"://"+r.Host:
		return false
	case site != "":
		return site == "same-origin"
	}
	return origin != "" // a browser that says neither is too old
}

// isForeign reports whether a request is for a page of another site.
func isForeign(site string) bool { return site != "" && site != "none" && site != "same-origin" }

func foreign(w http.ResponseWriter) {
	http.Error(w, "requests of other pages than the console are rejected", http.StatusForbidden)
}

type overTLSKey struct{}

// MarkSecure marks the context of requests that arrive over TLS, for servers whose requests do
// not say so themselves.
func MarkSecure(ctx context.Context) context.Context {
	return context.WithValue(ctx, overTLSKey{}, true)
}

// isSecure reports whether a request arrived over TLS.
func isSecure(r *http.Request) bool { return r.TLS != nil || r.Context().Value(overTLSKey{}) != nil }

func scheme(r *http.Request) string {
	if isSecure(r) {
		return "https"
	}
	return "http"
}

// isLoopback reports whether a client is on this machine.
func isLoopback(r *http.Request) bool {
	at, err := netip.ParseAddr(remote(r))
	return err == nil && at.IsLoopback()
}

// reads reports whether a request changes nothing.
func reads(target string, body []byte) bool {
	_, name, _ := strings.Cut(target, ".")
	return effect.Of(name, body) == effect.Nothing
}
