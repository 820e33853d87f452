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

// Bucket is where files go. A file is in it whole or not at all.
type Bucket struct {
	*blob.Bucket
	folder bool
}

// OpenBucket opens a bucket by its URL: mem://, file:///folder or s3://name. In a
// folder a file is written beside its place, synced, and renamed, and nothing
// but the files is in there.
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
	broken bool     // a write did not work, so none will
	done   bool
}

// Create begins a file. Nobody sees it before Commit.
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

// Commit puts the file into its place.
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

// Abort forgets what was written. After Commit, and without an object, it does
// nothing.
func (o *Object) Abort() {
	if o == nil || o.done {
		return
	}
	o.done = true
	o.cancel()
	_ = o.w.Close() // says that it was cancelled
}

var unfinished = regexp.MustCompile(`^\.[0-9a-f]+\.tmp$`)

// Tidy removes what a downloader that was killed left of a file in a folder. The
// caller has claimed the file, so nobody is writing it.
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
