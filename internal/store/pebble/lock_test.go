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

// The second process runs this test again. It is not let in either after this process has failed to
// open the folder once more, by its name or by another one: the system drops the lock of a process
// when the process closes any descriptor of the file.
func TestSecondProcessIsLocked(t *testing.T) {
	const variable = "STATOR_TEST_OPEN"
	if dir := os.Getenv(variable); dir != "" {
		_, err := Open(Options{Dir: dir})
		fmt.Println("second:", err)
		return
	}
	for _, c := range []struct {
		name  string
		again func(t *testing.T, dir string) string // the folder's name when this process opens it again
	}{
		{"once", nil},
		{"twice", func(_ *testing.T, dir string) string { return dir }},
		{"by a link", func(t *testing.T, dir string) string {
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(dir, link); err != nil {
				t.Skip(err)
			}
			return link
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			e := mustOpen(t, Options{Dir: dir})
			defer e.Close()
			if c.again != nil {
				again, err := Open(Options{Dir: c.again(t, dir)})
				if err == nil {
					defer again.Close()
				}
				if locked, ok := errors.AsType[*LockedError](err); !ok || locked.PID != os.Getpid() {
					t.Errorf("this process opens the folder again: %v", err)
				}
			}
			second := exec.Command(os.Args[0], "-test.run=^TestSecondProcessIsLocked$")
			second.Env = append(os.Environ(), variable+"="+dir)
			out, err := second.CombinedOutput()
			if want := fmt.Sprintf("second: another stator (pid %d) is using it", os.Getpid()); err != nil || !strings.Contains(string(out), want) {
				t.Errorf("the output is %q, %v, want %q", out, err, want)
			}
		})
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

// Only a folder with the mark is removed, or an empty one, and none that is in use. The mark stays
// until everything else is removed.
func TestRemoveMarked(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string // a name that ends with / is a folder that cannot be removed
		want  error
		left  string
	}{
		{"empty", nil, nil, ""},
		{"marked", []string{"a", "mark", "z"}, nil, ""},
		{"not marked", []string{"a", "z"}, ErrNotMarked, "[a z]"},
		{"not removed", []string{"a", "mark", "z/"}, fs.ErrPermission, "[mark z]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range c.files {
				path := filepath.Join(dir, name)
				if !strings.HasSuffix(name, "/") {
					if err := os.WriteFile(path, nil, 0o600); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if os.Getuid() == 0 {
					t.Skip("root removes any folder")
				}
				if err := errors.Join(os.MkdirAll(path+"in", 0o700), os.Chmod(path, 0o500)); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = os.Chmod(path, 0o700) }()
			}
			if err := RemoveMarked(dir, "mark"); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			left := ""
			if entries, err := os.ReadDir(dir); err == nil {
				names := make([]string, len(entries))
				for i, e := range entries {
					names[i] = e.Name()
				}
				left = fmt.Sprint(names)
			}
			if left != c.left {
				t.Errorf("the folder has %s, want %s", left, c.left)
			}
		})
	}
	dir := t.TempDir()
	e := mustOpen(t, Options{Dir: dir})
	defer e.Close()
	if err := os.WriteFile(filepath.Join(dir, "mark"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*LockedError](RemoveMarked(dir, "mark")); !ok {
		t.Error("a folder that is in use is removed")
	}
}
