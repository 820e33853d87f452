package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/internal/command"
)

func TestMain(m *testing.M) {
	extract.ChildMain()
	os.Exit(m.Run())
}

// Wrong usage ends with 2, a failure with 1, and each has a message.
func TestExitCodes(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	batch := "8c8d9f4e-2f5b-4a53-9d0a-1c6f0c7f2f11"
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"serve --nonsense", 2, "unknown flag"},
		{"serve --listen 0.0.0.0:0", 1, "--allow-anyone"},
		{"serve --listen 0.0.0.0:0 --allow-anyone", 2, "--jwks"},
		{"serve --demo --jwks http://127.0.0.1:1 --issuer x", 2, "--demo"},
		{"serve --listen 127.0.0.1:0 --jwks http://127.0.0.1:1", 1, "--issuer"},
		{"serve --listen 127.0.0.1:0 --endpoint http://127.0.0.1:1", 2, "--bucket"},
		{"serve --listen 127.0.0.1:0 --at-once 0", 1, "--at-once"},
		{"process", 2, "--endpoint"},
		{"process --endpoint http://127.0.0.1:1", 2, "--bucket"},
		{"batch", 2, "arg"},
		{"batch x --data " + folder, 2, "not an id"},
		{"batch " + batch, 2, "--data"},
		{"batch " + batch + " --data " + folder, 1, "there are no tables in --data"},
		{"recover --at now " + batch, 2, "--at"},
		{"recover --at 2026-01-01T00:00:00Z", 2, "name the batches"},
		{"delete", 2, "the id of a tenant"},
		{"delete x --data " + folder, 2, "not an id"},
		{"process --log loud", 2, "--log"},
		{"bogus", 2, "unknown command"},
		{"plan --data " + folder, 2, "the id of a tenant"},
		{"plan x --data " + folder, 2, "not an id"},
		{"plan " + batch + " gold --data " + folder, 2, "free, team or enterprise"},
		{"tenant --data " + folder, 2, "--name"},
		{"tenant --name Acme --admin ann@example.com --data " + folder, 0, ""},
		{"tenant --name Acme --admin ann@example.com --json --data " + folder, 0, ""},
	} {
		var out, stderr bytes.Buffer
		cmd := root()
		cmd.SetOut(&out)
		cmd.SetErr(&stderr)
		if code := command.Run(t.Context(), cmd, strings.Fields(c.args)); code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("documents %s: %d, %q, want %d and %q", c.args, code, stderr.String(), c.code, c.says)
		}
		if c.code == 0 && !strings.Contains(out.String(), "invitation") {
			t.Errorf("documents %s prints %q", c.args, out.String())
		}
	}
}
