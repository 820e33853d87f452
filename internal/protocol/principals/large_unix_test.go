//go:build unix

package principals

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file whose size is not known, such as a pipe, is read up to the bound of others.
func TestFilesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.yaml")
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
		spaces := []byte(strings.Repeat(" ", 1<<20))
		for range 64 { // it ends early when the reader closes the pipe
			if _, err := pipe.Write(spaces); err != nil {
				return
			}
		}
	}()
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("the error is %v", err)
	}
}
