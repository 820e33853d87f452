package encrypted

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/encryption"
)

// A table is a header and blocks, each of which is encrypted by itself.

// tableWriter writes a table. The last block is written by Sync or Close.
type tableWriter struct {
	vfs.File
	sealer encryption.BlockSealer
	out    []byte // encrypted, and not written yet
	at     int64  // where out is written

	hasLast bool // the last block is written: it is overwritten by those that follow
	changed bool // since the last block was written
	failed  bool
}

func newTableWriter(file vfs.File, k *encryption.DataKey) *tableWriter {
	header, c := k.Create(encryption.SmallBlocks)
	return &tableWriter{File: file, sealer: encryption.BlockSealer{Cipher: c, Layout: encryption.SmallBlocks}, out: header}
}

// Write appends to the file.
func (w *tableWriter) Write(p []byte) (int, error) {
	w.changed = w.changed || len(p) > 0
	w.out = w.sealer.Append(w.out, p)
	if w.at == 0 && len(w.out) == encryption.HeaderBytes {
		return len(p), nil // the header is written with the first block
	}
	// What was not written, because of an error, is written by the next call.
	return len(p), w.flush()
}

func (w *tableWriter) flush() error {
	for len(w.out) > 0 {
		n, err := w.writeAt(w.out, w.at)
		w.at += int64(n)
		w.out = w.out[:copy(w.out, w.out[n:])]
		w.failed = err != nil
		if err != nil {
			return err
		}
	}
	return nil
}

// writeAt writes at an offset, which is the end of the file until a last block was written.
func (w *tableWriter) writeAt(p []byte, at int64) (int, error) {
	if w.hasLast {
		return w.File.WriteAt(p, at)
	}
	return w.File.Write(p)
}

// end writes the last block.
func (w *tableWriter) end() error {
	if w.sealer.IsEmpty() {
		return nil // an empty file has no header
	}
	if err := w.flush(); err != nil || !w.changed {
		return err
	}
	last := w.sealer.Last(nil)
	for done := 0; done < len(last); {
		n, err := w.writeAt(last[done:], w.at+int64(done))
		if done += n; err != nil {
			w.failed, w.hasLast = true, true // of which a part may be written
			return err
		}
	}
	w.hasLast, w.changed = true, false
	return nil
}

// Sync makes the file durable.
func (w *tableWriter) Sync() error {
	if err := w.end(); err != nil {
		return err
	}
	return w.File.Sync()
}

// SyncData makes the file durable.
func (w *tableWriter) SyncData() error {
	if err := w.end(); err != nil {
		return err
	}
	return w.File.SyncData()
}

// SyncTo begins to write the file to the disk. The last bytes may not be a part of that.
func (w *tableWriter) SyncTo(int64) (fullSync bool, err error) {
	_, err = w.File.SyncTo(w.at)
	return false, err
}

// Close closes the file.
func (w *tableWriter) Close() error {
	var err error
	if !w.failed { // otherwise the file is of no use
		err = w.end()
	}
	return errors.Join(err, w.File.Close())
}

// Read is not supported.
func (w *tableWriter) Read([]byte) (int, error) { return 0, vfs.ErrUnsupported }

// ReadAt is not supported.
func (w *tableWriter) ReadAt([]byte, int64) (int, error) { return 0, vfs.ErrUnsupported }

// WriteAt is not supported.
func (w *tableWriter) WriteAt([]byte, int64) (int, error) { return 0, vfs.ErrUnsupported }

// tableReader reads a table. ReadAt may be called concurrently.
type tableReader struct {
	vfs.File
	name   string
	cipher *encryption.FileCipher
	block  int64 // bytes of the content in a block
	blocks int64
	size   int64 // of the content
	next   int64 // where Read continues
}

func newTableReader(file vfs.File, name string, c *encryption.FileCipher, layout encryption.Layout) (*tableReader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	r := &tableReader{File: file, name: name, cipher: c, block: int64(layout.BlockBytes())}
	sealed := r.block + encryption.TagBytes
	stored := info.Size() - encryption.HeaderBytes
	r.blocks = (stored + sealed - 1) / sealed
	r.size = stored - r.blocks*encryption.TagBytes
	if stored < encryption.TagBytes || r.size < 0 || r.size < (r.blocks-1)*r.block {
		return nil, damaged(name, "it is truncated")
	}
	return r, nil
}

// stored returns where a block is in the file below.
func (r *tableReader) stored(block int64) int64 {
	return encryption.HeaderBytes + block*(r.block+encryption.TagBytes)
}

// Stat describes the file. Its size is that of the content.
func (r *tableReader) Stat() (vfs.FileInfo, error) { return statOf(r.File, r.size) }

// Prefetch has the file system below read a part in advance.
func (r *tableReader) Prefetch(offset, length int64) error {
	if length <= 0 {
		return nil
	}
	from, to := r.stored(offset/r.block), r.stored((offset+length-1)/r.block+1)
	return r.File.Prefetch(from, to-from)
}

// Read reads the next bytes.
func (r *tableReader) Read(p []byte) (int, error) {
	n, err := r.ReadAt(p, r.next)
	r.next += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// maxReadBytes bounds how much is read from the file below at once, and kept for later reads.
const maxReadBytes = 256 << 10

var readBuffers = sync.Pool{New: func() any { return new([]byte) }}

// ReadAt reads the bytes at an offset.
func (r *tableReader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read %s at %d", r.name, off)
	}
	buf := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buf)
	for n < len(p) {
		at := off + int64(n)
		if at >= r.size {
			return n, io.EOF
		}
		more, err := r.readBlocks(p[n:], at, buf)
		n += more
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// readBlocks reads the blocks from an offset on, up to maxReadBytes.
func (r *tableReader) readBlocks(p []byte, off int64, buf *[]byte) (n int, err error) {
	first := off / r.block
	end := min(off+int64(len(p)), r.size, (first+maxReadBytes/r.block)*r.block)
	last := (end - 1) / r.block
	from, to := r.stored(first), r.stored(last+1)
	if last == r.blocks-1 {
		to = r.stored(last) + r.size - last*r.block + encryption.TagBytes
	}
	if int64(cap(*buf)) < to-from {
		*buf = make([]byte, to-from)
	}
	sealed := (*buf)[:to-from]
	if got, err := r.File.ReadAt(sealed, from); got < len(sealed) {
		if err == nil || errors.Is(err, io.EOF) {
			err = damaged(r.name, "it is truncated")
		}
		return 0, err
	}
	for b := first; b <= last; b++ {
		one := sealed[:min(int64(len(sealed)), r.block+encryption.TagBytes)]
		content, err := r.cipher.OpenBlock(one, uint64(b), b == r.blocks-1)
		if err != nil {
			return n, damaged(r.name, fmt.Sprintf("the encrypted block at byte %d fails its authentication", r.stored(b)))
		}
		n += copy(p[n:], content[max(0, off-b*r.block):])
		sealed = sealed[len(one):]
	}
	return n, nil
}

// Write is not supported.
func (r *tableReader) Write([]byte) (int, error) { return 0, vfs.ErrUnsupported }

// WriteAt is not supported.
func (r *tableReader) WriteAt([]byte, int64) (int, error) { return 0, vfs.ErrUnsupported }
