package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/deploytest"
)

func TestDeploy(t *testing.T) { deploytest.Check(t, "../..", root) }

// The server leaves tables as an operator has set them, and each line of its log is JSON.
func TestStarts(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.pem")
	writes := root()
	writes.SetOut(io.Discard)
	if code := command.Run(t.Context(), writes, []string{"key", key}); code != command.Done {
		t.Fatalf("the key: %d", code)
	}
	deploytest.Starts(t, downloads.ModelOf("dev"), root, `"msg":"ready"`, "serve", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1", "--key", key, "--bucket", "mem://")
}
