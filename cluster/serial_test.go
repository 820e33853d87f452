//go:build linux && cluster

package cluster

import (
	"os/exec"
	"strings"
	"testing"
)

// The replies of two servers are strictly serialisable. The proofs, and their
// controls, are those of package serialtest.
func TestSerialisable(t *testing.T) {
	var urls []string
	for _, s := range serve(t, 2, engineURL(t)) {
		urls = append(urls, s.address())
	}
	cmd := exec.Command(program(t, "serialtest"), "-test.v", "-test.run", "^(TestTransfers|TestListAppend|TestSingleItems)$",
		"-serial.endpoints", strings.Join(urls, ","), "-serial.transfers", "2000", "-serial.transactions", "8000", "-serial.operations", "10000")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
