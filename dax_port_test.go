package stator

import (
	"testing"
	"time"
)

// The control plane shows the addresses by which clients of DAX reach the server, and the times
// to live of its cache.
func TestShownDAXPort(t *testing.T) {
	for _, c := range []struct{ address, advertise, want string }{
		{"127.0.0.1:8111", "", "127.0.0.1:8111"},
		{"[::]:8111", "cache.example.com", "cache.example.com:8111"},
		{"[::]:8111", "cache.example.com:80", "cache.example.com:80"},
		{"", "cache.example.com:80", ""},
		{"", "cache.example.com", ""},
	} {
		if got := advertised(c.address, c.advertise); got != c.want {
			t.Errorf("%q, advertised as %q, is shown as %q, want %q", c.address, c.advertise, got, c.want)
		}
	}
	db, err := Open(t.Context(), Options{Cache: &Cache{Mode: CacheDAX, ItemTTL: time.Minute, QueryTTL: time.Second, DAX: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if got := db.shownDAXPort(); got.Address != "" || got.Cached {
		t.Errorf("without a port: %+v", got)
	}
	if _, err := db.DAX(DAXOptions{Address: "127.0.0.1:8111"}); err != nil {
		t.Fatal(err)
	}
	if got := db.shownDAXPort(); got.Address != "127.0.0.1:8111" || got.TLSAddress != "" || !got.Cached || got.ItemTTL != time.Minute || got.QueryTTL != time.Second {
		t.Errorf("with a port: %+v", got)
	}
}
