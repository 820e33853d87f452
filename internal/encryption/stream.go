package encryption

import (
	"errors"
	"fmt"
	"io"
)

// StreamWriter encrypts what is written to it. The file is complete once Finish has returned.
type StreamWriter struct {
	to     io.Writer
	sealer BlockSealer
	buf    []byte // begins with the header until it is written
}

// NewStreamWriter returns a writer of an encrypted file.
func NewStreamWriter(to io.Writer, k *DataKey) *StreamWriter {
	header, c := k.Create(LargeBlocks)
	return &StreamWriter{to: to, sealer: BlockSealer{Cipher: c, Layout: LargeBlocks}, buf: header}
}

// Write encrypts p.
func (w *StreamWriter) Write(p []byte) (int, error) {
	w.buf = w.sealer.Append(w.buf, p)
	if err := w.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Finish writes the end of the file.
func (w *StreamWriter) Finish() error {
	w.buf = w.sealer.Last(w.buf)
	return w.flush()
}

func (w *StreamWriter) flush() error {
	_, err := w.to.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// StreamReader decrypts a file. It returns ErrDamaged if the file is truncated, too.
type StreamReader struct {
	from   io.Reader
	cipher *FileCipher
	number uint64
	buf    []byte // a block and the first byte of the next
	filled int    // how many bytes of buf are read
	rest   []byte // decrypted, and not returned yet
	isLast bool
}

// NewStreamReader returns a reader of the file that follows a header.
func NewStreamReader(from io.Reader, header []byte, k *DataKey) (*StreamReader, error) {
	c, err := k.Open(header)
	if err != nil {
		return nil, err
	}
	return &StreamReader{from: from, cipher: c, buf: make([]byte, LargeBlocks.BlockBytes()+TagBytes+1)}, nil
}

// Read reads decrypted bytes.
func (r *StreamReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.isLast {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next decrypts the next block. It reads one byte more, to find out whether it is the last.
func (r *StreamReader) next() error {
	if r.number > 0 {
		r.buf[0] = r.buf[len(r.buf)-1]
		r.filled = 1
	}
	n, err := io.ReadFull(r.from, r.buf[r.filled:])
	r.filled += n
	r.isLast = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !r.isLast {
		return err
	}
	sealed := r.buf[:r.filled]
	if !r.isLast {
		sealed = r.buf[:len(r.buf)-1]
	}
	if len(sealed) < TagBytes {
		return fmt.Errorf("block %d: %w", r.number, ErrDamaged)
	}
	if r.rest, err = r.cipher.OpenBlock(sealed, r.number, r.isLast); err != nil {
		return fmt.Errorf("block %d: %w", r.number, err)
	}
	r.number++
	return nil
}
