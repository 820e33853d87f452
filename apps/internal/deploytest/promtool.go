package deploytest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// LoadRules lets Prometheus's own promtool check the configuration and the alert rules in a folder deploy, as they are
// in the containers. It skips the test where there is no promtool.
func LoadRules(t *testing.T, deploy string) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian's package prometheus)")
	}
	folder := t.TempDir()
	for _, name := range []string{"prometheus.yaml", "alerts.yaml"} {
		text, err := os.ReadFile(filepath.Join(deploy, name))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("/etc/prometheus/"), []byte(folder+"/"))
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), promtool, "check", "config", filepath.Join(folder, "prometheus.yaml")).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("rules found")) {
		t.Errorf("promtool: %v: %s", err, out)
	}
}
