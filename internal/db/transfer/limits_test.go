package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// syntheticBucket has any number of files of one item each. Reading one of
// them waits until release is closed.
type syntheticBucket struct {
	blob.Place
	files   int
	release chan struct{}
	opened  atomic.Int32
}

func (b *syntheticBucket) Find(context.Context, string) ([]blob.File, error) {
	found := make([]blob.File, b.files)
	for i := range found {
		found[i].Name = fmt.Sprintf("%06d.json", i)
	}
	return found, nil
}

func (b *syntheticBucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	b.opened.Add(1)
	select {
	case <-b.release:
	case <-ctx.Done():
	}
	return io.NopCloser(strings.NewReader(`{"Item":{"id":{"S":"` + name + `"}}}`)), nil
}

// testImports runs imports of a synthetic bucket, each into a table of its own.
func testImports(t *testing.T, b *syntheticBucket, imports int, while func()) (ended []Job) {
	t.Helper()
	e, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), e, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b.Place, err = blob.Open(t.Context(), "mem://"); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), d, map[string]blob.Place{"files": b}, new(logtest.Log).Logger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.Close()
		if err := errors.Join(b.Place.Close(), d.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}()
	for i := range imports {
		id := schema.Attribute{Name: "id", Type: item.S}
		table := schema.Table{Name: fmt.Sprint("Table", i), Key: schema.Key{Partition: []schema.Attribute{id}}, Attributes: []schema.Attribute{id}}
		_, err := s.StartImport(t.Context(), Job{
			Table: table.Name, Bucket: "files", Format: JSON, Import: &Import{Compression: None, Parameters: json.RawMessage("{}")},
		}, table)
		if err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	while()
	close(b.release)
	synctest.Wait()
	ended, err = s.List(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

// Two imports run at a time; the rest wait.
func TestTwoImportsAtATime(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		b := &syntheticBucket{files: 1, release: make(chan struct{})}
		jobs := testImports(t, b, 5, func() {
			if n := b.opened.Load(); n != 2 {
				t.Errorf("%d imports run at a time, want 2", n)
			}
		})
		for _, j := range jobs {
			if j.Status != Completed || j.Items != 1 {
				t.Errorf("an import ends as %+v", j)
			}
		}
	})
}

// An import of up to 50,000 files is accepted.
func TestFilesOfAnImport(t *testing.T) {
	for files, want := range map[int]Status{50_000: Completed, 50_001: Failed} {
		virtualtime.Test(t, func(t *testing.T) {
			b := &syntheticBucket{files: files, release: make(chan struct{})}
			j := testImports(t, b, 1, func() {})[0]
			if j.Status != want || (want == Completed) != (j.Items == int64(files)) || (want == Failed) != (j.Code == "TooManyFiles") {
				t.Errorf("an import of %d files ends as %+v", files, j)
			}
		})
	}
}

// The text of an item has the length that docs/limits.md states.
func TestTextOfAnItemIsLimited(t *testing.T) {
	if maxTextBytes != 8<<20 {
		t.Errorf("the text of an item has up to %d bytes", maxTextBytes)
	}
}
