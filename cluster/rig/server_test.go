//go:build linux && cluster

package rig

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// script is a server that runs a shell script.
func script(t *testing.T, text string) *server {
	t.Helper()
	dir := t.TempDir()
	return &server{
		name:    "script",
		program: "/bin/sh",
		args:    []string{"-c", text},
		logFile: filepath.Join(dir, "log"),
	}
}

func launched(t *testing.T, s *server) {
	t.Helper()
	l := newLauncher()
	t.Cleanup(l.close)
	if err := s.start(l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
}

func TestServerThatIsKilledDidNotEndByItself(t *testing.T) {
	s := script(t, "exec sleep 600")
	launched(t, s)
	s.kill()
	if err := s.running(); err == nil || errors.Is(err, errEnded) {
		t.Errorf("after a kill: %v", err)
	}
}

// The log of a server is kept across restarts.
func TestServerKeepsItsLog(t *testing.T) {
	s := script(t, "echo a life; exit 3")
	for range 2 {
		launched(t, s)
		<-s.life.done
		if err := s.running(); !errors.Is(err, errEnded) {
			t.Fatalf("want %v, got %v", errEnded, err)
		}
	}
	text, err := os.ReadFile(s.logFile)
	if err != nil {
		t.Fatal(err)
	}
	if want := "a life\na life\n"; string(text) != want {
		t.Errorf("the log is %q, want %q", text, want)
	}
}
