//go:build unix

package stator

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stator-db/stator/internal/logtest"
)

// A file that is slow to read, here one that waits for its writer, does not delay changes in the database.
func TestSlowFileDelaysNoChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	text, err := os.ReadFile(rootFile(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(logtest.Log)
	access := databaseAccess(t, path, log)
	d, err := Open(t.Context(), Options{Log: log.Logger(), Access: access})
	if err != nil {
		t.Fatal(err)
	}
	s := &accessServer{t, d, log}
	defer s.close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("there are no named pipes:", err)
	}
	reloaded := make(chan error)
	go func() {
		_, err := access.Reload()
		reloaded <- err
	}()
	pipe, err := os.OpenFile(path, os.O_WRONLY, 0) // waits until the file is being read
	if err != nil {
		t.Fatal(err)
	}
	s.must(rootKey, "CreateAccessKey", `{"Comment":"made meanwhile"}`)
	if _, err := pipe.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-reloaded; err != nil {
		t.Errorf("the file was not read in the end: %v", err)
	}
	s.must(rootKey, "ListAccessKeys", "{}")
}
