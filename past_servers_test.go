//go:build !race

package stator

import (
	"net/http"
	"testing"
)

// The servers of a cluster read one past.
func TestPastOfTwoServers(t *testing.T) {
	servers, n := openServers(t, 2), 0
	next := func() http.Handler { n++; return servers[n%2].Handler() }
	checkPast(t, next, func() {})
}
