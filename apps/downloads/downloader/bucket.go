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
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/memblob"  // mem://
	_ "gocloud.dev/blob/s3blob"   // s3://
)

// Bucket stores files. A file is in it completely or not at all.
type Bucket struct {
	*blob.Bucket
	folder bool
	name   string     // of a bucket of S3
	s3     *s3.Client // nil for others
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
	bucket := &Bucket{Bucket: b, folder: folder, name: u.Host}
	b.As(&bucket.s3)
	return bucket, nil
}

// Object is a file that is being written.
type Object struct {
	bucket *Bucket
	name   string
	w      *blob.Writer
	cancel context.CancelFunc
	file   *os.File // in a folder
	broken bool     // a write has failed, so all others fail
	done   bool
}

// Create starts a file. It is not visible before Commit.
func (b *Bucket) Create(ctx context.Context, name string) (*Object, error) {
	ctx, cancel := context.WithCancel(ctx)
	o := &Object{bucket: b, name: name, cancel: cancel}
	w, err := b.NewWriter(ctx, name, &blob.WriterOptions{
		ContentType:    "application/octet-stream",
		MaxConcurrency: 1, // parts that are sent to S3 at a time: each is in memory, and the upstream sends one stream
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
			return errors.Join(fmt.Errorf("write to the bucket: %w", err), o.close())
		}
	}
	if err := o.close(); err != nil {
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
	_ = o.close() // returns that it was cancelled
}

// abortTimeout limits the request that removes parts. The caller's context may have ended.
const abortTimeout = 10 * time.Second

// close closes the writer. If that fails, it removes the parts of a large file that were
// sent to S3, which keeps them otherwise and charges for them: the library does not remove
// them after its context has ended.
func (o *Object) close() error {
	err := o.w.Close()
	var upload interface{ UploadID() string }
	if err == nil || o.bucket.s3 == nil || !o.bucket.ErrorAs(err, &upload) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	return errors.Join(err, o.bucket.abort(ctx, o.name, upload.UploadID()))
}

// abort removes the parts of an upload, unless they are gone.
func (b *Bucket) abort(ctx context.Context, name, upload string) error {
	_, err := b.s3.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.name, Key: &name, UploadId: &upload})
	var known smithy.APIError
	if errors.As(err, &known) && known.ErrorCode() == "NoSuchUpload" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the parts of %s from the bucket: %w", name, err)
	}
	return nil
}

var unfinished = regexp.MustCompile(`^\.[0-9a-f]+\.tmp$`)

// Tidy removes what a killed downloader left of a file: partial files in a folder, parts in
// S3. The caller has claimed the file, so no other process is writing it.
func (b *Bucket) Tidy(ctx context.Context, name string) error {
	switch {
	case b.folder:
		return b.tidyFolder(ctx, name)
	case b.s3 != nil:
		return b.tidyS3(ctx, name)
	}
	return nil
}

func (b *Bucket) tidyFolder(ctx context.Context, name string) error {
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

func (b *Bucket) tidyS3(ctx context.Context, name string) error {
	pages := s3.NewListMultipartUploadsPaginator(b.s3, &s3.ListMultipartUploadsInput{Bucket: &b.name, Prefix: &name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("look for parts of %s: %w", name, err)
		}
		for _, u := range page.Uploads {
			if *u.Key != name { // it only begins with the name
				continue
			}
			if err := b.abort(ctx, name, *u.UploadId); err != nil {
				return err
			}
		}
	}
	return nil
}
