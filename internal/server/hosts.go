package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/server/door"
)

// OnlyHosts returns a handler that rejects requests whose Host a page of another
// site can have: a name of the public DNS that resolves to this server (DNS
// rebinding). names are names of the public DNS that it accepts: a name, all names
// below one (*.example.org), or all (*).
func (h *Handler) OnlyHosts(names []string) *Handler {
	checked := *h
	checked.checkHost = true
	checked.hosts = nil
	for _, name := range names {
		checked.hosts = append(checked.hosts, hostName(name))
	}
	return &checked
}

// acceptsHost reports whether the Host of a request is accepted.
func (h *Handler) acceptsHost(host string) bool {
	if !h.checkHost || host == "" { // no browser omits it
		return true
	}
	return isPrivateHost(host) || len(h.hosts) > 0 && h.isNamed(hostName(host))
}

func (h *Handler) isNamed(host string) bool {
	return slices.ContainsFunc(h.hosts, func(name string) bool {
		below, all := strings.CutPrefix(name, "*")
		return name == host || all && (below == "" || below[0] == '.' && strings.HasSuffix(host, below))
	})
}

// privateDomains are domains that the public DNS does not have. Those of the first line are
// reserved. Those of the second are common in private networks (RFC 6762, appendix G, and
// the services of Kubernetes), and nobody can register a name in them.
var privateDomains = []string{
	"localhost", "internal", "local", "test", "invalid", "home.arpa",
	"lan", "home", "corp", "intranet", "private", "svc",
}

// isPrivateHost reports whether no page can have a Host by means of the public DNS:
// an address, a name without a dot, or a name in a private domain.
func isPrivateHost(hostport string) bool {
	if hostport == "localhost" || strings.HasPrefix(hostport, "localhost:") {
		return true
	}
	host := hostName(hostport)
	if !strings.Contains(host, ".") && !strings.Contains(host, ":") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.ContainsFunc(privateDomains, func(domain string) bool {
		name, ok := strings.CutSuffix(host, domain)
		return ok && strings.HasSuffix(name, ".")
	})
}

// hostName is the name or the address of a Host, without its port.
func hostName(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// OnlyPrivate returns a handler that rejects requests of pages of other sites: with an
// Origin, for a Host of the public DNS, or, such as those for images, with the header by
// which browsers say so.
func OnlyPrivate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := r.Header.Get("Sec-Fetch-Site")
		foreign := from != "" && from != "none" && from != "same-origin"
		if foreign || r.Header.Get("Origin") != "" || r.Host != "" && !isPrivateHost(r.Host) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.Error(w, "requests of pages of other sites are rejected", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// rejectHost answers a request for another host.
func rejectHost(a *door.Reply) {
	a.More = [][2]string{{"X-Content-Type-Options", "nosniff"}}
	plain(a, http.StatusForbidden, "requests for this host are rejected; stator serve --allow-host allows it\n")
}
