package batch

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"gocloud.dev/blob"
)

// object is an object of lines of JSON that is being written.
type object struct {
	name  string
	to    io.WriteCloser
	text  *bufio.Writer
	lines *json.Encoder
	err   error
	stop  context.CancelFunc // discards the object unless it was closed
}

func newObject(ctx context.Context, bucket *blob.Bucket, name string) (*object, error) {
	o := &object{name: name}
	ctx, o.stop = context.WithCancel(ctx)
	to, err := bucket.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/x-ndjson"})
	if err != nil {
		o.stop()
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	o.to, o.text = to, bufio.NewWriterSize(to, 64<<10)
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
