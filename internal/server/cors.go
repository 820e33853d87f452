package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/stator-db/stator/internal/server/door"
)

// origins are the web sites whose pages may send requests (CORS): an origin such as
// http://localhost:3000, all below a domain (https://*.example.org), or all (*).
type origins []string

// AllowOrigins returns a handler that answers pages of these sites, too. They need no
// credentials of the browser: a page that knows an access key signs its requests itself.
func (h *Handler) AllowOrigins(sites []string) *Handler {
	allowed := *h
	allowed.origins = sites
	return &allowed
}

// CheckOrigin returns the error of a site of AllowOrigins that no origin can match.
func CheckOrigin(site string) error {
	scheme, host, hasScheme := strings.Cut(site, "://")
	if !hasScheme {
		scheme, host = "http", scheme
	}
	host = strings.TrimRight(host, "/")
	below, wild := strings.CutPrefix(host, "*")
	switch {
	case site == "*":
		return nil
	case host == "" || scheme == "":
		return fmt.Errorf("%q is not a web site: it has no name; for example http://localhost:3000", site)
	case strings.ContainsAny(host, "/?#@ "):
		return fmt.Errorf("%q is not a web site: it must have a scheme and a name, and nothing after them, as browsers send no paths; for example http://localhost:3000", site)
	case wild && (len(below) < 2 || below[0] != '.') || strings.Contains(below, "*"):
		return fmt.Errorf("%q is not a web site: the name may begin with \"*.\" for all names below one, such as https://*.example.org; * alone is for all sites", site)
	}
	return nil
}

// allows reports whether an origin, as a browser sends it, is one of the sites.
func (o origins) allows(origin string) bool {
	scheme, host, _ := strings.Cut(strings.ToLower(origin), "://")
	for _, site := range o {
		wantScheme, want, hasScheme := strings.Cut(strings.ToLower(strings.TrimRight(site, "/")), "://")
		if !hasScheme {
			wantScheme, want = scheme, wantScheme
		}
		below, wild := strings.CutPrefix(want, "*")
		switch {
		case site == "*":
			return true
		case host == "" || want == "": // null, the origin of files and sandboxes, is only one of all
		case scheme == wantScheme && want == host,
			scheme == wantScheme && wild && strings.HasPrefix(below, ".") && strings.HasSuffix(host, below):
			return true
		}
	}
	return false
}

// share answers a page of another site if that is allowed: it adds the header by which the
// browser lets the page read the reply.
func (o origins) share(r *door.Request, a *door.Reply) bool {
	origin := string(r.Header("Origin"))
	if len(o) == 0 || !o.allows(origin) {
		return false
	}
	a.More = append(a.More,
		[2]string{"Access-Control-Allow-Origin", origin},
		[2]string{"Access-Control-Expose-Headers", "x-amzn-RequestId, x-amz-crc32"},
		[2]string{"Vary", "Origin"})
	return true
}

// preflight answers the request by which a browser asks whether a page may send one.
func (o origins) preflight(r *door.Request, a *door.Reply) bool {
	if r.Method != http.MethodOptions || !o.share(r, a) {
		return false
	}
	a.More = append(a.More,
		[2]string{"Access-Control-Allow-Methods", "POST"},
		[2]string{"Access-Control-Max-Age", "1728000"})
	if headers := string(r.Header("Access-Control-Request-Headers")); headers != "" {
		a.More = append(a.More, [2]string{"Access-Control-Allow-Headers", headers})
	}
	plain(a, http.StatusOK, "")
	return true
}
