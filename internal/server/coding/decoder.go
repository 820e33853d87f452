package coding

import (
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"sync"
)

// ErrMalformed is returned for a body that is not in its coding, that is truncated, or whose
// checksum is wrong.
var ErrMalformed = errors.New("the body is malformed")

// DecoderBytes is more than the memory of a Decoder: the window and the tables of deflate,
// and the largest extra field of a gzip header.
const DecoderBytes = 128 << 10

// Decoder decodes one body.
//
// A gzip body may consist of several members. Bytes after the last member, or after the zlib
// stream, are ignored, as in DynamoDB.
type Decoder struct {
	coding Coding
	sent   sentBody
	gzip   gzip.Reader
	zlib   io.ReadCloser
	stream io.Reader // nil before the first and between two members
	begun  bool
}

var decoders = sync.Pool{New: func() any { return new(Decoder) }}

// NewDecoder returns a decoder of a body, which is not Identity. It fails when the context ends.
func NewDecoder(ctx context.Context, c Coding, sent []byte) *Decoder {
	d := decoders.Get().(*Decoder)
	d.coding, d.stream, d.begun = c, nil, false
	d.sent.reset(ctx, sent)
	return d
}

// Close returns the decoder to its pool.
func (d *Decoder) Close() {
	d.sent.reset(context.Background(), nil)
	d.gzip.Header = gzip.Header{}
	decoders.Put(d)
}

// Read reads decoded bytes. It returns io.EOF at the end of the body, after it has compared
// all checksums, ErrMalformed, and the error of the context.
func (d *Decoder) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if d.stream == nil {
			if err := d.next(); err != nil {
				return 0, err
			}
		}
		n, err := d.stream.Read(p)
		switch {
		case err == io.EOF:
			d.stream = nil
		case err != nil:
			return 0, cmp.Or(d.sent.ended, ErrMalformed)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, nil
}

// next begins the only stream of a body, or the next member. What follows a member and does
// not begin like one is ignored.
func (d *Decoder) next() error {
	switch {
	case !d.begun:
	case d.coding == Deflate:
		return io.EOF
	}
	if err := d.open(); err != nil {
		if d.begun {
			return cmp.Or(d.sent.ended, io.EOF)
		}
		return cmp.Or(d.sent.ended, ErrMalformed)
	}
	d.begun = true
	return nil
}

func (d *Decoder) open() (err error) {
	if d.coding == Gzip {
		if err = d.gzip.Reset(&d.sent); err == nil {
			d.gzip.Multistream(false)
			d.stream = &d.gzip
		}
		return err
	}
	if d.zlib == nil {
		d.zlib, err = zlib.NewReader(&d.sent)
	} else {
		err = d.zlib.(zlib.Resetter).Reset(&d.sent, nil)
	}
	if err == nil {
		d.stream = d.zlib
	}
	return err
}
