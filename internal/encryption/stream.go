package encryption

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// StreamWriter encrypts what is written to it. The file is complete once Finish has returned. After
// an error, all calls return it: a part of the file is missing.
type StreamWriter struct {
	to     io.Writer
	sealer BlockSealer
	buf    []byte // begins with the header until it is written
	failed error
}

// NewStreamWriter returns a writer of an encrypted file. The master key wraps the data key for the
// header of the file, so that the file can be read without another one.
func NewStreamWriter(to io.Writer, k *DataKey, master *MasterKey) *StreamWriter {
	header, c := k.create(LargeBlocks, streamVersion)
	buf := append(header, envelope(header, k, master)...)
	return &StreamWriter{to: to, sealer: BlockSealer{Cipher: c, Layout: LargeBlocks}, buf: buf}
}

// Write encrypts p.
func (w *StreamWriter) Write(p []byte) (int, error) {
	if w.failed != nil {
		return 0, w.failed
	}
	w.buf = w.sealer.Append(w.buf, p)
	if err := w.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Finish writes the end of the file.
func (w *StreamWriter) Finish() error {
	if w.failed != nil {
		return w.failed
	}
	w.buf = w.sealer.Last(w.buf)
	return w.flush()
}

func (w *StreamWriter) flush() error {
	_, w.failed = w.to.Write(w.buf)
	w.buf = w.buf[:0]
	return w.failed
}

// The envelope of a stream follows its header: the id of the master key, the data key that the master
// key has wrapped, and the beginning of the SHA-256 of the header and of both.
const (
	masterIDBytes    = 8
	wrappedBytes     = 12 + KeyBytes + TagBytes
	envelopeSumBytes = 12
	envelopeBytes    = masterIDBytes + wrappedBytes + envelopeSumBytes
)

// envelope returns the envelope of a stream with a header.
func envelope(header []byte, k *DataKey, master *MasterKey) []byte {
	id, err := hex.DecodeString(master.id)
	if err != nil || len(id) != masterIDBytes {
		panic(fmt.Sprintf("the master key has the id %q", master.id))
	}
	b := append(id, master.Wrap(k)...)
	return append(b, envelopeSum(header, b)...)
}

func envelopeSum(header, b []byte) []byte {
	sum := sha256.Sum256(append(bytes.Clone(header), b...))
	return sum[:envelopeSumBytes]
}

// StreamHeader is the beginning of an encrypted stream, before it is authenticated.
type StreamHeader struct {
	KeyID  string // of the data key
	Master string // id of the master key in the envelope; empty without an envelope that is intact

	header, wrapped []byte
}

// ReadStreamHeader reads the beginning of an encrypted stream. It returns ErrDamaged if it is
// something else. Streams of version 1 do not have an envelope.
func ReadStreamHeader(from io.Reader) (*StreamHeader, error) {
	b := make([]byte, HeaderBytes+envelopeBytes)
	n, err := io.ReadFull(from, b[:HeaderBytes])
	if err != nil && !isEnd(err) {
		return nil, err
	}
	of, err := readHeader(b[:n], streamVersion)
	if err != nil {
		return nil, err
	}
	if of.Layout != LargeBlocks {
		return nil, fmt.Errorf("the layout %d of an encrypted stream: %w", of.Layout, ErrDamaged)
	}
	h := &StreamHeader{KeyID: of.KeyID, header: b[:HeaderBytes]}
	if b[8] == formatVersion {
		return h, nil
	}
	if _, err = io.ReadFull(from, b[HeaderBytes:]); isEnd(err) {
		err = fmt.Errorf("the beginning of an encrypted stream: %w", ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	content, sum := b[HeaderBytes:len(b)-envelopeSumBytes], b[len(b)-envelopeSumBytes:]
	if bytes.Equal(envelopeSum(h.header, content), sum) {
		h.Master, h.wrapped = hex.EncodeToString(content[:masterIDBytes]), content[masterIDBytes:]
	}
	return h, nil
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// Unwrap decrypts the data key in the envelope. It returns ErrDamaged if there is none of this master
// key.
func (h *StreamHeader) Unwrap(master *MasterKey) (*DataKey, error) {
	return master.Unwrap(h.KeyID, h.wrapped)
}

// StreamReader decrypts a file. It returns ErrDamaged if the file is truncated, too. After an error,
// all calls return it.
type StreamReader struct {
	from   io.Reader
	cipher *FileCipher
	number uint64
	buf    []byte // a block and the first byte of the next
	filled int    // how many bytes of buf are read
	rest   []byte // decrypted, and not returned yet
	isLast bool
	failed error
}

// NewStreamReader returns a reader of the file that follows a header.
func NewStreamReader(from io.Reader, h *StreamHeader, k *DataKey) (*StreamReader, error) {
	c, err := k.Open(h.header)
	if err != nil {
		return nil, err
	}
	return &StreamReader{from: from, cipher: c, buf: make([]byte, LargeBlocks.BlockBytes()+TagBytes+1)}, nil
}

// Read reads decrypted bytes.
func (r *StreamReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.failed == nil && r.isLast {
			r.failed = io.EOF
		}
		if r.failed == nil {
			r.failed = r.next()
		}
		if r.failed != nil {
			return 0, r.failed
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
	r.isLast = isEnd(err)
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
