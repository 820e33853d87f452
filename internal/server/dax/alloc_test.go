//go:build unix && !race

package dax_test

import "testing"

// A cached read needs little memory of its own. (The race detector makes pools drop objects, so the
// test is not run with it.)
func TestAllocations(t *testing.T) {
	l, gets := listenWithItems(t)
	const requests = 1000
	perConn := testing.AllocsPerRun(5, func() { l.send(t, requests, gets) })
	if got := perConn / requests; got > 7.5 {
		t.Errorf("a cached read needs %.1f allocations", got)
	}
}
