package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/store"
)

// docs/formats/backup.md describes an items file: a magic number, a header, blocks
// of items and a footer. Each part has a checksum, and the footer has one of
// everything before it.

// format is the version of the format of items files and manifests.
const format = 1

var magic = []byte("stator-b")

// The kinds of parts in a file.
const (
	partHeader = 'H'
	partItems  = 'I'
	partFooter = 'F'
)

const (
	blockBytes   = 256 << 10 // approximate size of a block
	maxPartBytes = 8 << 20   // a greater length means that the file is damaged
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// footer is the last part of a file.
type footer struct {
	Items  int64  `json:"items"`
	Bytes  int64  `json:"bytes"`  // size of the items as DynamoDB counts it
	SHA256 string `json:"sha256"` // of the file before the footer
}

// writeFile writes an items file and sets the counts and the checksum in the
// manifest. It calls done after each block with the number of items so far, and
// returns the error of done.
func writeFile(to io.Writer, m *Manifest, items iter.Seq2[item.Item, error], done func(items int64) error) error {
	out := bufio.NewWriterSize(to, 1<<20)
	w := &partWriter{out: out, digest: sha256.New()}
	w.bytes(magic)
	header := *m
	header.Items, header.Bytes, header.FileBytes, header.SHA256 = 0, 0, 0, ""
	w.json(partHeader, header)
	var sum footer
	block := make([]byte, 0, blockBytes+item.MaxSize)
	for it, err := range items {
		if err != nil {
			return err
		}
		block = append(binary.AppendUvarint(block, uint64(len(it))), it...)
		sum.Items++
		sum.Bytes += int64(it.Size())
		if len(block) >= blockBytes {
			w.part(partItems, block)
			block = block[:0]
			if err := errors.Join(w.err, done(sum.Items)); err != nil {
				return err
			}
		}
	}
	if len(block) > 0 {
		w.part(partItems, block)
	}
	sum.SHA256 = hex.EncodeToString(w.digest.Sum(nil))
	w.json(partFooter, sum)
	if w.err == nil {
		w.err = out.Flush()
	}
	m.Items, m.Bytes, m.FileBytes, m.SHA256 = sum.Items, sum.Bytes, w.size, sum.SHA256
	return w.err
}

// partWriter writes parts. After an error it writes nothing more.
type partWriter struct {
	out    io.Writer
	digest hash.Hash
	size   int64
	err    error
}

func (w *partWriter) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
		w.digest.Write(b)
		w.size += int64(len(b))
	}
}

func (w *partWriter) part(kind byte, content []byte) {
	head := append(binary.BigEndian.AppendUint32(nil, uint32(len(content))), kind)
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, content)
	w.bytes(head)
	w.bytes(content)
	w.bytes(binary.BigEndian.AppendUint32(nil, sum))
}

func (w *partWriter) json(kind byte, content any) {
	b, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("a part of a backup cannot be encoded as JSON: %v", err))
	}
	w.part(kind, b)
}

// Damaged is the error for a file whose content is not what was written.
type Damaged struct {
	File string
	At   int64 // approximate offset of the damage
	Why  string
}

func (e *Damaged) Error() string {
	return fmt.Sprintf("backup file %s is damaged near byte %d: %s", e.File, e.At, e.Why)
}

// Unwrap returns store.ErrCorrupt: reading the file again does not help.
func (e *Damaged) Unwrap() error { return store.ErrCorrupt }

// fileReader reads an items file part by part and verifies each part.
type fileReader struct {
	in     io.Reader
	name   string
	at     int64
	digest hash.Hash
	buf    []byte

	header Manifest
	footer footer
}

// openFile reads the magic number and the header of a file.
func openFile(in io.Reader, name string) (*fileReader, error) {
	r := &fileReader{in: in, name: name, digest: sha256.New()}
	start := make([]byte, len(magic))
	if err := r.read(start); err != nil {
		return nil, err
	}
	if !bytes.Equal(start, magic) {
		return nil, r.damaged("it does not start like a backup file")
	}
	kind, content, err := r.part()
	if err != nil {
		return nil, err
	}
	if kind != partHeader {
		return nil, r.damaged("it has no header")
	}
	if err := json.Unmarshal(content, &r.header); err != nil {
		return nil, r.damaged("invalid header: " + err.Error())
	}
	if r.header.Format != format {
		return nil, fmt.Errorf("backup file %s has format %d; this version reads format %d", name, r.header.Format, format)
	}
	return r, nil
}

func (r *fileReader) damaged(why string) error { return &Damaged{r.name, r.at, why} }

// read fills b.
func (r *fileReader) read(b []byte) error {
	n, err := io.ReadFull(r.in, b)
	r.at += int64(n)
	r.digest.Write(b[:n])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.damaged("it is truncated")
	}
	if err != nil {
		return fmt.Errorf("read backup file %s: %w", r.name, err)
	}
	return nil
}

// part reads the next part. The content is valid until the next call.
func (r *fileReader) part() (kind byte, content []byte, err error) {
	before := hex.EncodeToString(r.digest.Sum(nil))
	var head [5]byte
	if err := r.read(head[:]); err != nil {
		return 0, nil, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size > maxPartBytes {
		return 0, nil, r.damaged("a part has an impossible length")
	}
	if cap(r.buf) < size+4 {
		r.buf = make([]byte, size+4)
	}
	r.buf = r.buf[:size+4]
	if err := r.read(r.buf); err != nil {
		return 0, nil, err
	}
	kind, content = head[4], r.buf[:size]
	if sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, content); sum != binary.BigEndian.Uint32(r.buf[size:]) {
		return 0, nil, r.damaged("the checksum of a part does not match")
	}
	if kind != partFooter {
		return kind, content, nil
	}
	if err := json.Unmarshal(content, &r.footer); err != nil {
		return 0, nil, r.damaged("invalid footer: " + err.Error())
	}
	if r.footer.SHA256 != before {
		return 0, nil, r.damaged("the checksum of the file does not match")
	}
	return kind, content, nil
}

// items iterates over the items up to the footer. An item is valid until the next
// one is read.
func (r *fileReader) items() iter.Seq2[item.Item, error] {
	return func(yield func(item.Item, error) bool) {
		var sum footer
		for {
			kind, content, err := r.part()
			switch {
			case err != nil:
				yield(nil, err)
				return
			case kind == partFooter:
				if sum.Items != r.footer.Items || sum.Bytes != r.footer.Bytes {
					yield(nil, r.damaged("its number of items or their size does not match its footer"))
				}
				return
			case kind != partItems:
				yield(nil, r.damaged("it has a part of an unknown kind"))
				return
			}
			for len(content) > 0 {
				n, width := binary.Uvarint(content)
				if width <= 0 || n > uint64(len(content)-width) || item.Check(content[width:width+int(n)]) != nil {
					yield(nil, r.damaged("an item cannot be decoded"))
					return
				}
				it := item.Item(content[width : width+int(n)])
				content = content[width+int(n):]
				sum.Items++
				sum.Bytes += int64(it.Size())
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}

// checkEOF returns an error if data follows the footer.
func (r *fileReader) checkEOF() error {
	var more [1]byte
	if n, err := r.in.Read(more[:]); n > 0 || !errors.Is(err, io.EOF) {
		return r.damaged("data follows its footer")
	}
	return nil
}
