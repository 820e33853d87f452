//go:build unix

package keys

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file whose size is not known, such as a pipe, is not cut at the bound of others: what remains could
// have fewer keys, or a part of a secret.
func TestLargePipesAreRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("there are no named pipes:", err)
	}
	go func() {
		pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer pipe.Close()
		text := "keys:\n  - access_key: first\n    secret: one\n#" + strings.Repeat("-", maxFile) + "\n  - access_key: second\n    secret: two\n"
		_, _ = pipe.Write([]byte(text)) // it ends early when the reader closes the pipe
	}()
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("the error is %v", err)
	}
}
