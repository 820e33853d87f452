package server

import "testing"

// A site matches origins of web sites only: "null" is the origin of files and sandboxes, which any
// page can have.
func TestAllowedOrigins(t *testing.T) {
	for _, c := range []struct {
		site, origin string
		want         bool
	}{
		{"", "null", false}, {"", "", false}, {"https://", "https://", false}, {"null", "null", false},
		{"*", "null", true}, {"*", "https://a.example", true},
		{"localhost:3000", "http://localhost:3000", true}, {"http://localhost:3000/", "http://LOCALHOST:3000", true},
		{"https://*.example.org", "https://a.example.org", true}, {"https://*.example.org", "http://a.example.org", false}, {"https://*", "https://a.example.org", false},
	} {
		if got := (origins{c.site}).allows(c.origin); got != c.want {
			t.Errorf("site %q, origin %q: %v", c.site, c.origin, got)
		}
		if err := CheckOrigin(c.site); c.want && err != nil {
			t.Error(err)
		}
	}
}
