package pebble

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecondOpenIsLocked(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"disk", Options{Dir: filepath.Join(t.TempDir(), "data")}},
		{"memory", InMemory()},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustOpen(t, c.o)
			_, err := Open(c.o)
			locked, ok := errors.AsType[*LockedError](err)
			if !ok || locked.PID != os.Getpid() {
				t.Fatalf("second Open: %v", err)
			}
			if want := fmt.Sprintf("another stator (pid %d) is using it", os.Getpid()); err.Error() != want {
				t.Errorf("the error is %q, want %q", err, want)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if err := mustOpen(t, c.o).Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The second process runs this test again.
func TestSecondProcessIsLocked(t *testing.T) {
	const variable = "STATOR_TEST_OPEN"
	if dir := os.Getenv(variable); dir != "" {
		_, err := Open(Options{Dir: dir})
		fmt.Println("second:", err)
		return
	}
	dir := t.TempDir()
	e := mustOpen(t, Options{Dir: dir})
	defer e.Close()
	second := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	second.Env = append(os.Environ(), variable+"="+dir)
	out, err := second.CombinedOutput()
	if want := fmt.Sprintf("second: another stator (pid %d) is using it", os.Getpid()); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("the output is %q, %v, want %q", out, err, want)
	}
}

func TestFolderIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	e := mustOpen(t, Options{Dir: dir})
	defer e.Close()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestFolderCannotBeCreated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Dir: filepath.Join(file, "data")})
	if _, ok := errors.AsType[*fs.PathError](err); !ok {
		t.Errorf("got %v", err)
	}
}
