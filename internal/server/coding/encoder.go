package coding

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"sync"

	"github.com/stator-db/stator/internal/buffer"
)

// Encoder encodes texts, one after the other. It has more than a megabyte of memory, so that
// a server bounds how many it uses at once.
type Encoder struct {
	gzip *gzip.Writer
	zlib *zlib.Writer
	out  sink
}

var encoders = sync.Pool{New: func() any { return new(Encoder) }}

// NewEncoder returns an encoder.
func NewEncoder() *Encoder { return encoders.Get().(*Encoder) }

// Close returns the encoder to its pool.
func (e *Encoder) Close() {
	e.out.text = buffer.Put(e.out.text)
	encoders.Put(e)
}

// Encode returns a text in a coding that is not Identity. The result is valid until the next
// Encode or Close. Encode reports false if the result would not be smaller than the text.
func (e *Encoder) Encode(c Coding, text []byte) ([]byte, bool) {
	e.out.text, e.out.limit = e.out.text[:0], len(text)
	w := e.writer(c)
	if _, err := w.Write(text); err != nil {
		return nil, false
	}
	if err := w.Close(); err != nil {
		return nil, false
	}
	return e.out.text, true
}

// writer returns the writer of a coding, at the fastest level (decision 20).
func (e *Encoder) writer(c Coding) io.WriteCloser {
	if c == Deflate {
		if e.zlib == nil {
			e.zlib, _ = zlib.NewWriterLevel(&e.out, flate.BestSpeed) // the level is valid
		}
		e.zlib.Reset(&e.out)
		return e.zlib
	}
	if e.gzip == nil {
		e.gzip, _ = gzip.NewWriterLevel(&e.out, flate.BestSpeed)
	}
	e.gzip.Reset(&e.out)
	return e.gzip
}

// sink collects what is written, if that is shorter than a limit.
type sink struct {
	text  []byte
	limit int
}

var errNotSmaller = errors.New("the encoded text is not smaller")

// Write appends p.
func (s *sink) Write(p []byte) (int, error) {
	size := len(s.text) + len(p)
	if size >= s.limit {
		return 0, errNotSmaller
	}
	if size > cap(s.text) {
		grown := append(buffer.Get(buffer.Size(max(4096, size, 2*cap(s.text)))), s.text...)
		buffer.Put(s.text)
		s.text = grown
	}
	s.text = append(s.text, p...)
	return len(p), nil
}
