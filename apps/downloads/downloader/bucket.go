package downloader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/memblob"  // mem://
	_ "gocloud.dev/blob/s3blob"   // s3://
)

// Bucket stores files. A file is in it completely or not at all.
type Bucket struct {
	*blob.Bucket
	folder bool
}

// OpenBucket opens a bucket by its URL: mem://, file:///folder or s3://name. In a
// folder a file is written to a temporary name, synced, and renamed, and the folder
// contains nothing but the files.
func OpenBucket(ctx context.Context, text string) (*Bucket, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the bucket is %q, but must be a URL such as file:///data/files or s3://name", text)
	}
	folder := u.Scheme == "file"
	if folder {
		q := u.Query()
		q.Set("create_dir", "true")
		q.Set("no_tmp_dir", "true")
		q.Set("metadata", "skip")
		u.RawQuery = q.Encode()
	}
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", text, err)
	}
	return &Bucket{b, folder}, nil
}

// Object is a file that is being written.
type Object struct {
	w      *blob.Writer
	cancel context.CancelFunc
	file   *os.File // in a folder
	broken bool     // a write has failed, so all others fail
	done   bool
}

// Create starts a file. It is not visible before Commit.
func (b *Bucket) Create(ctx context.Context, name string) (*Object, error) {
	ctx, cancel := context.WithCancel(ctx)
	o := &Object{cancel: cancel}
	w, err := b.NewWriter(ctx, name, &blob.WriterOptions{
		ContentType: "application/octet-stream",
		BeforeWrite: func(as func(any) bool) error {
			as(&o.file)
			return nil
		},
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("write %s to the bucket: %w", name, err)
	}
	o.w = w
	return o, nil
}

func (o *Object) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.broken = true
		return n, fmt.Errorf("write to the bucket: %w", err)
	}
	return n, nil
}

// Commit makes the file visible.
func (o *Object) Commit() error {
	defer o.cancel()
	o.done = true
	var folder string
	if o.file != nil {
		folder = filepath.Dir(o.file.Name())
		if err := o.file.Sync(); err != nil {
			o.cancel()
			return errors.Join(fmt.Errorf("write to the bucket: %w", err), o.w.Close())
		}
	}
	if err := o.w.Close(); err != nil {
		return fmt.Errorf("write to the bucket: %w", err)
	}
	if folder == "" {
		return nil
	}
	d, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("sync the bucket's folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// Abort discards the file. It does nothing after Commit, or without an object.
func (o *Object) Abort() {
	if o == nil || o.done {
		return
	}
	o.done = true
	o.cancel()
	_ = o.w.Close() // returns that it was cancelled
}

var unfinished = regexp.MustCompile(`^\.[0-9a-f]+\.tmp$`)

// Tidy removes partial files that a killed downloader left in a folder. The caller
// has claimed the file, so no other process is writing it.
func (b *Bucket) Tidy(ctx context.Context, name string) error {
	if !b.folder {
		return nil
	}
	list := b.List(&blob.ListOptions{Prefix: name + "."})
	for {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for leftovers of %s: %w", name, err)
		}
		if unfinished.MatchString(o.Key[len(name):]) {
			if err := b.Delete(ctx, o.Key); err != nil {
				return fmt.Errorf("remove a leftover of %s: %w", name, err)
			}
		}
	}
}
