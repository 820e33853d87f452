package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/memblob" // mem://
	_ "gocloud.dev/blob/s3blob"  // s3://
	"gocloud.dev/gcerrors"
)

// bucket is a Place in an object store. An object appears there when its
// writer is closed, and not at all if its context ends before.
type bucket struct {
	*blob.Bucket
	where string
}

func openBucket(ctx context.Context, where string) (Place, error) {
	b, err := blob.OpenBucket(ctx, where)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", withoutQuery(where), err)
	}
	return &bucket{b, where}, nil
}

func (b *bucket) String() string { return withoutQuery(b.where) }

// withoutQuery removes the query of a URL, which configures access.
func withoutQuery(where string) string {
	where, _, _ = strings.Cut(where, "?")
	return where
}

func (b *bucket) Create(ctx context.Context, name string) (Writer, error) {
	checkName(name)
	ctx, cancel := context.WithCancel(ctx)
	w, err := b.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		cancel()
		return nil, err
	}
	return &objectWriter{w, cancel}, nil
}

func (b *bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	checkName(name)
	r, err := b.NewReader(ctx, name, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (b *bucket) Names(ctx context.Context) (names []string, err error) {
	for list := b.List(&blob.ListOptions{Delimiter: "/"}); ; {
		object, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		if !object.IsDir {
			names = append(names, object.Key)
		}
	}
}

func (b *bucket) Find(ctx context.Context, prefix string) (found []File, err error) {
	for list := b.List(&blob.ListOptions{Prefix: prefix}); ; {
		object, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			slices.SortFunc(found, byName)
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if !object.IsDir && IsName(object.Key) {
			found = append(found, File{object.Key, object.Size})
		}
	}
}

func (b *bucket) Remove(ctx context.Context, name string) error {
	checkName(name)
	if err := b.Delete(ctx, name); gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	return nil
}

type objectWriter struct {
	*blob.Writer
	cancel context.CancelFunc
}

func (w *objectWriter) Commit() error {
	defer w.cancel()
	return w.Close()
}

func (w *objectWriter) Cancel() {
	w.cancel()
	_ = w.Close() // fails, since the context is cancelled
}
