package blob_test

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stator-db/stator/internal/blob"
	_ "github.com/stator-db/stator/internal/blob/s3"
)

// Every place keeps whole files and does not show incomplete ones.
func TestPlaces(t *testing.T) {
	for name, where := range map[string]string{
		"folder": filepath.Join(t.TempDir(), "made", "when used"),
		"URL":    "file://" + t.TempDir(),
		"memory": "mem://",
		"S3":     newFakeS3(t).url("bucket/folder"),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			p, err := blob.Open(ctx, where)
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
			if _, err := p.Open(ctx, "a"); !errors.Is(err, blob.ErrNotFound) {
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
