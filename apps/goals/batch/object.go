package batch

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"gocloud.dev/blob"
)

// upload is an object of a bucket that is being written. It exists when it is closed.
type upload struct {
	*blob.Writer
	cancel context.CancelFunc
	closed bool
}

func newUpload(ctx context.Context, bucket *blob.Bucket, name, kind string) (*upload, error) {
	ctx, cancel := context.WithCancel(ctx)
	to, err := bucket.NewWriter(ctx, name, &blob.WriterOptions{ContentType: kind})
	if err != nil {
		cancel()
		return nil, err
	}
	return &upload{Writer: to, cancel: cancel}, nil
}

func (u *upload) Close() error {
	u.closed = true
	return u.Writer.Close()
}

// discard removes the object unless it was closed. A writer must be closed in any case:
// it has open files or connections.
func (u *upload) discard() {
	u.cancel()
	if !u.closed {
		_ = u.Close() // fails, since the context has ended
	}
}

// object is an object of lines of JSON that is being written.
type object struct {
	name  string
	to    *upload
	text  *bufio.Writer
	lines *json.Encoder
	err   error
}

func newObject(ctx context.Context, bucket *blob.Bucket, name string) (*object, error) {
	to, err := newUpload(ctx, bucket, name, "application/x-ndjson")
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	o := &object{name: name, to: to, text: bufio.NewWriterSize(to, 64<<10)}
	o.lines = json.NewEncoder(o.text)
	return o, nil
}

// line writes a line. close returns its error.
func (o *object) line(v any) {
	if o.err == nil {
		o.err = o.lines.Encode(v)
	}
}

func (o *object) close() error {
	if o.err == nil {
		o.err = o.text.Flush()
	}
	if o.err == nil {
		o.err = o.to.Close()
	}
	if o.err != nil {
		return fmt.Errorf("write %s: %w", o.name, o.err)
	}
	return nil
}

// objectLines yields the lines of an object.
func objectLines[T any](ctx context.Context, bucket *blob.Bucket, name string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		from, err := bucket.NewReader(ctx, name, nil)
		if err != nil {
			yield(none, fmt.Errorf("read %s: %w", name, err))
			return
		}
		defer func() { _ = from.Close() }()
		for lines := json.NewDecoder(bufio.NewReaderSize(from, 64<<10)); ; {
			var one T
			err := lines.Decode(&one)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(none, fmt.Errorf("read %s: %w", name, err))
				return
			}
			if !yield(one, nil) {
				return
			}
		}
	}
}
