package encrypted

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/encryption"
)

// A log is a header and parts. Each Write makes at least one part, which can be decrypted without
// those that follow, so that it can be synced. Nothing is overwritten but the content of a log that
// is reused, which had another key.
//
// A part is 8 bytes that are authenticated, which have its length and the offset of its content,
// and the encrypted content. The nonce is where the part is in the file. No part is in two
// sections of 32 KiB, so that the parts after a damaged one are found.
const (
	sectionBytes   = 32 << 10
	partHeadBytes  = 8
	partExtraBytes = partHeadBytes + encryption.TagBytes
	offsetBits     = 48 // of the offset; the rest of the 8 bytes is the length
)

// logWriter writes a log: a WAL file, a manifest or another file that is read from its beginning.
type logWriter struct {
	vfs.File
	cipher  *encryption.FileCipher
	out     []byte // encrypted, and not written yet
	end     uint64 // of the file, with out
	written uint64 // of the content
	failed  bool
}

func newLogWriter(file vfs.File, k *encryption.DataKey) *logWriter {
	header, c := k.Create(encryption.Log)
	return &logWriter{File: file, cipher: c, out: header, end: encryption.HeaderBytes}
}

// Write appends to the file. What was not written, because of an error, is written by the next
// call, also if its p is empty.
func (w *logWriter) Write(p []byte) (int, error) {
	if len(p) == 0 && w.written == 0 {
		return 0, nil // an empty file has no header
	}
	w.seal(p)
	return len(p), w.flush()
}

// seal appends parts with a content to out.
func (w *logWriter) seal(p []byte) {
	for len(p) > 0 {
		room := int(sectionBytes - w.end%sectionBytes)
		if room <= partExtraBytes {
			w.out = append(w.out, make([]byte, room)...)
			w.end += uint64(room)
			continue
		}
		n := min(len(p), room-partExtraBytes)
		head := binary.BigEndian.AppendUint64(nil, uint64(n)<<offsetBits|w.written)
		w.out = append(w.out, head...)
		w.out = w.cipher.Seal(w.out, encryption.Position{Kind: encryption.LogPart, At: w.end}, p[:n], head)
		w.written += uint64(n)
		w.end += uint64(n + partExtraBytes)
		p = p[n:]
	}
}

func (w *logWriter) flush() error {
	for len(w.out) > 0 {
		n, err := w.File.Write(w.out)
		w.out = w.out[:copy(w.out, w.out[n:])]
		w.failed = err != nil
		if err != nil {
			return err
		}
	}
	return nil
}

// finish writes what an error has left.
func (w *logWriter) finish() error {
	if w.written == 0 {
		return nil
	}
	return w.flush()
}

// Sync makes everything written so far durable.
func (w *logWriter) Sync() error {
	if err := w.finish(); err != nil {
		return err
	}
	return w.File.Sync()
}

// SyncData makes everything written so far durable.
func (w *logWriter) SyncData() error {
	if err := w.finish(); err != nil {
		return err
	}
	return w.File.SyncData()
}

// SyncTo begins to write the first bytes of the content to the disk. What follows them is left out, as
// it may be written to soon.
func (w *logWriter) SyncTo(length int64) (fullSync bool, err error) {
	if err := w.finish(); err != nil || w.written == 0 {
		return false, err
	}
	after := max(0, int64(w.written)-length) // of the content; encrypted it is larger
	return w.File.SyncTo(int64(w.end) - after)
}

// Close closes the file.
func (w *logWriter) Close() error {
	var err error
	if !w.failed {
		err = w.finish()
	}
	return errors.Join(err, w.File.Close())
}

// Read is not supported.
func (w *logWriter) Read([]byte) (int, error) { return 0, vfs.ErrUnsupported }

// ReadAt is not supported.
func (w *logWriter) ReadAt([]byte, int64) (int, error) { return 0, vfs.ErrUnsupported }

// WriteAt is not supported.
func (w *logWriter) WriteAt([]byte, int64) (int, error) { return 0, vfs.ErrUnsupported }

// logReader reads a log from its beginning.
//
// Bytes that cannot be decrypted are returned as bytes that no checksum of Pebble accepts. Pebble,
// and the sync marks, decide whether a crash has interrupted the writes, or synced ones are
// damaged, as if the log were not encrypted.
type logReader struct {
	vfs.File
	name    string
	cipher  *encryption.FileCipher
	size    int64 // of the file
	at      int64 // of the section
	section []byte
	pos     int    // of the next part in the section
	read    uint64 // bytes of the content that rest ends at
	rest    []byte
	filler  uint64 // unreadable bytes of the content before rest
	torn    uint64 // bytes after the last part that cannot be decrypted
	lost    uint64 // bytes of the content before rest that cannot be decrypted, in all
	cut     uint64 // bytes at the end that cannot be decrypted, when all is read
	buf     [sectionBytes]byte
}

// fillByte is the byte that replaces those that cannot be decrypted. A chunk of Pebble that
// consists of it has an impossible length.
const fillByte = 0xff

// minFiller is the least number of such bytes at the end. It is more than the header of a chunk.
const minFiller = 64

func newLogReader(file vfs.File, name string, c *encryption.FileCipher) (*logReader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	r := &logReader{File: file, name: name, cipher: c, size: info.Size()}
	if err := r.load(0); err != nil {
		return nil, err
	}
	r.pos = encryption.HeaderBytes
	return r, nil
}

// load reads a section.
func (r *logReader) load(at int64) error {
	r.at, r.pos = at, 0
	r.section = r.buf[:max(0, min(sectionBytes, r.size-at))]
	if len(r.section) == 0 {
		return nil
	}
	n, err := r.File.ReadAt(r.section, at)
	if n < len(r.section) && err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r.section = r.section[:n]
	return nil
}

// part decrypts the part at a position of the section. It returns nil if there is none.
func (r *logReader) part() (offset uint64, content []byte) {
	b := r.section[min(r.pos, len(r.section)):]
	if len(b) <= partExtraBytes {
		return 0, nil
	}
	head := binary.BigEndian.Uint64(b)
	length, offset := int(head>>offsetBits), head&(1<<offsetBits-1)
	if length == 0 || length > len(b)-partExtraBytes {
		return 0, nil
	}
	sealed := b[partHeadBytes : length+partExtraBytes]
	p := encryption.Position{Kind: encryption.LogPart, At: uint64(r.at) + uint64(r.pos)}
	// Not in place: a part that cannot be decrypted may be looked at again.
	content, err := r.cipher.Open(nil, p, sealed, b[:partHeadBytes])
	if err != nil || offset < r.read {
		return 0, nil
	}
	return offset, content
}

// next decrypts the next part that can be decrypted. It returns io.EOF if there is none.
func (r *logReader) next() error {
	for {
		if offset, content := r.part(); content != nil {
			r.pos += len(content) + partExtraBytes
			r.filler, r.rest, r.torn = offset-r.read, content, 0
			r.lost += r.filler
			r.read = offset + uint64(len(content))
			return nil
		}
		// Zeros that are not the padding of a section may be what a disk has lost: Pebble
		// decides about them as it does without encryption.
		if left := r.section[min(r.pos, len(r.section)):]; len(left) > partExtraBytes || !isZero(left) {
			r.torn += uint64(len(left))
			r.pos = len(r.section)
		}
		if r.at+sectionBytes >= r.size {
			if r.torn == 0 {
				return io.EOF
			}
			r.cut += r.torn
			r.filler, r.torn = max(r.torn, minFiller), 0
			return nil
		}
		if err := r.load(r.at + sectionBytes); err != nil {
			return err
		}
	}
}

// Read reads the next bytes.
func (r *logReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.filler == 0 && len(r.rest) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	if r.filler > 0 {
		n := int(min(r.filler, uint64(len(p))))
		for i := range p[:n] {
			p[i] = fillByte
		}
		r.filler -= uint64(n)
		return n, nil
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Stat describes the file. Its size is at least that of the content, which is known only when it
// was read.
func (r *logReader) Stat() (vfs.FileInfo, error) {
	return statOf(r.File, max(0, r.size-encryption.HeaderBytes))
}

// ReadAt is not supported.
func (r *logReader) ReadAt([]byte, int64) (int, error) { return 0, vfs.ErrUnsupported }

// Prefetch does nothing: the file is read from its beginning.
func (r *logReader) Prefetch(int64, int64) error { return nil }

// Write is not supported.
func (r *logReader) Write([]byte) (int, error) { return 0, vfs.ErrUnsupported }

// WriteAt is not supported.
func (r *logReader) WriteAt([]byte, int64) (int, error) { return 0, vfs.ErrUnsupported }
