package blob

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Every place keeps whole files and does not show incomplete ones.
func TestPlaces(t *testing.T) {
	for name, where := range map[string]string{
		"folder": filepath.Join(t.TempDir(), "made", "when used"),
		"URL":    "file://" + t.TempDir(),
		"memory": "mem://",
		"S3":     fakeS3(t),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			p, err := Open(ctx, where)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			check := func(want ...string) {
				t.Helper()
				if names, err := p.Names(ctx); err != nil || !slices.Equal(names, want) {
					t.Errorf("the files are %v, %v, want %v", names, err, want)
				}
			}
			check()
			if _, err := p.Open(ctx, "a"); !errors.Is(err, ErrNotFound) {
				t.Errorf("a file that is not there: %v", err)
			}
			for _, name := range []string{"b", "a"} {
				w, err := p.Create(ctx, name)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write([]byte("in " + name)); err != nil {
					t.Fatal(err)
				}
				if names, _ := p.Names(ctx); slices.Contains(names, name) {
					t.Errorf("%s exists before it is complete", name)
				}
				if err := w.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			w, err := p.Create(ctx, "c")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			w.Cancel()
			check("a", "b")
			r, err := p.Open(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(r); err != nil || string(b) != "in a" {
				t.Errorf("a is %q, %v", b, err)
			}
			r.Close()
			for range 2 { // the second time there is no file
				if err := p.Remove(ctx, "a"); err != nil {
					t.Error(err)
				}
			}
			check("b")
		})
	}
}

// fakeS3 returns the URL of a bucket on a server that implements just enough
// of S3.
func fakeS3(t *testing.T) string {
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	var mu sync.Mutex
	objects := make(map[string][]byte)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
		object, ok := objects[name]
		switch {
		case r.Method == http.MethodPut:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // truncated
			}
			objects[name] = unchunk(r, body)
		case r.Method == http.MethodDelete:
			delete(objects, name)
			w.WriteHeader(http.StatusNoContent)
		case name == "":
			fmt.Fprint(w, "<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>")
			for _, name := range slices.Sorted(maps.Keys(objects)) {
				fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size><LastModified>2026-11-15T12:00:00.000Z</LastModified><ETag>x</ETag></Contents>", name, len(objects[name]))
			}
			fmt.Fprint(w, "</ListBucketResult>")
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
		default:
			w.Header().Set("Last-Modified", "Sun, 15 Nov 2026 12:00:00 GMT")
			w.Write(object)
		}
	}))
	t.Cleanup(web.Close)
	return "s3://bucket?region=us-east-1&use_path_style=true&hostname_immutable=true&endpoint=" + web.URL
}

// unchunk decodes the chunked encoding of the SDK, if the request has it.
func unchunk(r *http.Request, body []byte) (object []byte) {
	if !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		return body
	}
	for {
		head, rest, _ := bytes.Cut(body, []byte("\r\n"))
		size, _, _ := strings.Cut(string(head), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil || n == 0 {
			return object
		}
		object = append(object, rest[:n]...)
		body = rest[n+2:]
	}
}

func TestOpenRejects(t *testing.T) {
	for _, where := range []string{"", "ftp://host/x", "file://host/x", "s3://"} {
		if p, err := Open(t.Context(), where); err == nil {
			t.Errorf("%q is accepted as %v", where, p)
		}
	}
}

// Names that lead out of the place panic.
func TestNamesStayInside(t *testing.T) {
	dir := t.TempDir()
	p := newFolder(filepath.Join(dir, "in"))
	for _, name := range []string{"", "..", "../x", "/a", "a/", "a//b", "a/../b", "a/.hidden", ".hidden", `a\b`, "a\x00"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is accepted", name)
				}
			}()
			p.Create(t.Context(), name)
		}()
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("it made %v", entries)
	}
}

// Files in folders are found by the prefix of their names; links that lead
// out of the place are not followed.
func TestFolders(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for name, where := range map[string]string{"folder": dir, "memory": "mem://"} {
		t.Run(name, func(t *testing.T) {
			p, err := Open(t.Context(), where)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for _, name := range []string{"a/b/2", "a/b/1", "a/c", "ab"} {
				w, err := p.Create(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write([]byte(name)); err != nil {
					t.Fatal(err)
				}
				if err := w.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			if where == dir {
				if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"a/b/link", "a/out"} {
					if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := p.Open(t.Context(), "a/out/secret"); err == nil {
					t.Error("a link leads out")
				}
				if _, err := p.Create(t.Context(), "a/out/new"); err == nil {
					t.Error("a link leads out for writing")
				}
			}
			for prefix, want := range map[string][]string{
				"": {"a/b/1", "a/b/2", "a/c", "ab"}, "a": {"a/b/1", "a/b/2", "a/c", "ab"}, "a/": {"a/b/1", "a/b/2", "a/c"},
				"a/b/": {"a/b/1", "a/b/2"}, "a/b/2": {"a/b/2"}, "x": nil, "../": nil,
			} {
				found, err := p.Find(t.Context(), prefix)
				var names []string
				for _, f := range found {
					names = append(names, f.Name)
					if f.Bytes != int64(len(f.Name)) {
						t.Errorf("%s has %d bytes", f.Name, f.Bytes)
					}
				}
				if err != nil || !slices.Equal(names, want) {
					t.Errorf("%q finds %v, %v, want %v", prefix, names, err, want)
				}
			}
			if err := p.Remove(t.Context(), "a/b/1"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A folder writes no files when its disk is almost full, so that the disk has space
// for the database.
func TestAlmostFullDisk(t *testing.T) {
	free := uint64(1 << 30)
	f := newFolder(t.TempDir())
	f.free = func(string) (uint64, uint64, bool) { return free, 100 << 30, true }
	w, err := f.Create(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 4<<20)); err != nil {
		t.Errorf("a write with space: %v", err)
	}
	free = reserveBytes
	_, err = w.Write(make([]byte, 2*uncheckedBytes))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "128 MB left") {
		t.Errorf("a write into the reserve: %v", err)
	}
	w.Cancel()
	if _, err := f.Create(t.Context(), "b"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a file on a full disk: %v", err)
	}
}
