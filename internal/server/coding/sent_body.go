package coding

import (
	"bytes"
	"context"
)

// examineBytes is how much of a body is decoded before its context is examined again.
const examineBytes = 16 << 10

// sentBody is a body as it was sent. It is not a stream, so that no decoder reads beyond its end. It
// fails when the context has ended: a body of blocks without text takes seconds to decode, in which
// the standard library's decoder does not return.
type sentBody struct {
	bytes.Reader
	ctx   context.Context
	left  int   // bytes until the context is examined
	ended error // of the context, once it was found
}

func (s *sentBody) reset(ctx context.Context, sent []byte) {
	s.Reader.Reset(sent)
	s.ctx, s.left, s.ended = ctx, examineBytes, nil
}

// ReadByte reads a byte.
func (s *sentBody) ReadByte() (byte, error) {
	if s.left--; s.left < 0 && s.examine() != nil {
		return 0, s.ended
	}
	return s.Reader.ReadByte()
}

// Read reads bytes.
func (s *sentBody) Read(p []byte) (int, error) {
	if s.left -= len(p); s.left < 0 && s.examine() != nil {
		return 0, s.ended
	}
	return s.Reader.Read(p)
}

func (s *sentBody) examine() error {
	s.left = examineBytes
	if s.ended == nil {
		s.ended = s.ctx.Err()
	}
	return s.ended
}
