package cbor

import (
	"bufio"
	"io"
)

// maxOpen is how many arrays and maps of indefinite length, and containers within them, may
// be nested. Others do not count: they are read without recursion.
const maxOpen = 64

// byteSource is where values are read from.
type byteSource interface {
	head() (valueHead, error)
	content(size uint64) error // reads over the content of a string
	room() uint64              // how many bytes can follow at most
}

// frame is a container that is being read.
type frame struct {
	left uint64 // values that must follow
	open bool   // more values may follow, until a break
	odd  bool   // of an open map: a value must follow before the break
	pair bool   // an open map
}

// skip reads one value. It needs no memory for nested values: those of an array or map of
// known length are counted with the values that must follow it.
func skip(s byteSource) error {
	h, err := s.head()
	if err != nil {
		return err
	}
	if h.first == byteBreak {
		return ErrMalformed
	}
	inner, err := members(s, h)
	if err != nil || inner == (frame{}) { // most arguments of requests
		return err
	}
	return skipMembers(s, inner)
}

// skipMembers reads the members of a container.
func skipMembers(s byteSource, of frame) error {
	var frames [maxOpen]frame
	depth := 0
	switch {
	case of.open: // frames[0] is not
		depth, frames[1] = 1, of
	case of.left > s.room():
		return ErrMalformed
	default:
		frames[0] = of
	}
	for {
		f := &frames[depth]
		if !f.open && f.left == 0 {
			if depth == 0 {
				return nil
			}
			depth--
			continue
		}
		h, err := s.head()
		if err != nil {
			return err
		}
		if h.first == byteBreak {
			if !f.open || f.left > 0 || f.odd {
				return ErrMalformed
			}
			depth-- // frames[0] is not open
			continue
		}
		f.count()
		inner, err := members(s, h)
		if err != nil {
			return err
		}
		switch {
		case inner == frame{}:
		case !f.open && !inner.open:
			if f.left += inner.left; f.left > s.room() {
				return ErrMalformed
			}
		default:
			if depth++; depth == maxOpen {
				return ErrMalformed
			}
			frames[depth] = inner
		}
	}
}

// count notes that a value of the container has begun.
func (f *frame) count() {
	if f.open {
		f.odd = f.pair && !f.odd
		return
	}
	f.left--
}

// members reads the content of a string, and returns which values must follow a head.
func members(s byteSource, h valueHead) (frame, error) {
	switch h.major() {
	case majorBytes, majorText:
		return frame{}, s.content(h.arg)
	case majorTag:
		return frame{left: 1}, nil
	case majorArray, majorMap:
		pair := h.major() == majorMap
		if h.open() {
			return frame{open: true, pair: pair}, nil
		}
		n := h.arg
		if n > s.room() {
			return frame{}, ErrMalformed
		}
		if pair {
			n *= 2
		}
		return frame{left: n}, nil
	}
	return frame{}, nil
}

// sliceSource reads from bytes.
type sliceSource Decoder

func (s *sliceSource) head() (valueHead, error) {
	if len(s.rest) == 0 {
		return valueHead{}, ErrMalformed
	}
	first := s.rest[0]
	size, ok := argumentSize(first)
	if !ok || len(s.rest) < 1+size {
		return valueHead{}, ErrMalformed
	}
	arg := argument(first, s.rest[1:1+size])
	s.rest = s.rest[1+size:]
	return valueHead{first, arg}, nil
}

func (s *sliceSource) content(size uint64) error {
	if size > uint64(len(s.rest)) {
		return ErrMalformed
	}
	s.rest = s.rest[size:]
	return nil
}

func (s *sliceSource) room() uint64 { return uint64(len(s.rest)) }

// Stream reads whole values from a connection into a buffer.
type Stream struct {
	In *bufio.Reader

	// Buffer receives the bytes of the values.
	Buffer []byte

	// Limit is the largest size of the buffer.
	Limit int

	// Grow, if set, is called before the buffer grows to this many bytes.
	Grow func(bytes int) error

	// ErrLimit is returned for values that do not fit within the limit.
	ErrLimit error
}

// Read appends one value, which is well formed, to the buffer. It needs memory only for bytes
// that have arrived. The error is io.EOF only if there is no first byte.
func (s *Stream) Read() error {
	before := len(s.Buffer)
	err := skip((*streamSource)(s))
	if err == io.EOF && len(s.Buffer) > before {
		return io.ErrUnexpectedEOF
	}
	return err
}

// streamSource reads from a Stream.
type streamSource Stream

func (s *streamSource) head() (valueHead, error) {
	if err := s.take(1); err != nil {
		return valueHead{}, err
	}
	first := s.Buffer[len(s.Buffer)-1]
	size, ok := argumentSize(first)
	if !ok {
		return valueHead{}, ErrMalformed
	}
	if err := s.take(size); err != nil {
		return valueHead{}, err
	}
	return valueHead{first, argument(first, s.Buffer[len(s.Buffer)-size:])}, nil
}

// chunk is how many bytes of a string are read at once: a length that no bytes follow
// allocates no more than this.
const chunk = 32 << 10

func (s *streamSource) content(size uint64) error {
	if size > s.room() {
		return s.ErrLimit
	}
	for left := int(size); left > 0; {
		n := min(left, chunk)
		if err := s.take(n); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

func (s *streamSource) room() uint64 { return uint64(max(0, s.Limit-len(s.Buffer))) }

// take appends the next n bytes to the buffer.
func (s *streamSource) take(n int) error {
	if n == 0 {
		return nil
	}
	size := len(s.Buffer)
	if size+n > s.Limit {
		return s.ErrLimit
	}
	if size+n > cap(s.Buffer) {
		grown := min(max(2*cap(s.Buffer), size+n, 512), s.Limit)
		if s.Grow != nil {
			if err := s.Grow(grown); err != nil {
				return err
			}
		}
		s.Buffer = append(make([]byte, 0, grown), s.Buffer...)
	}
	s.Buffer = s.Buffer[:size+n]
	if _, err := io.ReadFull(s.In, s.Buffer[size:]); err != nil {
		s.Buffer = s.Buffer[:size]
		return err
	}
	return nil
}
