package encryption

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// docs/formats/encryption.md describes the bytes of encrypted files.

// Layout is how an encrypted file is divided into parts.
type Layout byte

// The layouts. Their numbers are part of the format.
const (
	// SmallBlocks has blocks of 4 KiB, for random access.
	SmallBlocks Layout = 1
	// Log has parts of any size, each of which is durable without the next.
	Log Layout = 2
	// LargeBlocks has blocks of 64 KiB, for sequential access.
	LargeBlocks Layout = 3
)

// BlockBytes is how many bytes of the content are in each block but the last.
func (l Layout) BlockBytes() int {
	if l == SmallBlocks {
		return 4 << 10
	}
	return 64 << 10
}

const (
	// HeaderBytes is the size of the header of an encrypted file.
	HeaderBytes = 80
	// TagBytes is how much larger an encrypted part is than its content.
	TagBytes = 16

	formatVersion = 1
	streamVersion = 2 // a stream, whose header is followed by its wrapped data key
	keyIDOffset   = 16
	saltOffset    = keyIDOffset + keyIDBytes
	tagOffset     = HeaderBytes - TagBytes
)

var fileMagic = []byte("stator-e")

// MagicBytes is how many bytes HasMagic needs.
const MagicBytes = 8

// HasMagic reports whether a file that begins with these bytes is encrypted.
func HasMagic(b []byte) bool { return bytes.HasPrefix(b, fileMagic) }

// HeaderOf is what a header says before it is authenticated.
type HeaderOf struct {
	KeyID  string // of the data key
	Layout Layout
}

// ReadHeader reads a header.
func ReadHeader(b []byte) (HeaderOf, error) { return readHeader(b, formatVersion) }

// readHeader reads a header of a version up to newest.
func readHeader(b []byte, newest byte) (HeaderOf, error) {
	if len(b) < HeaderBytes || !HasMagic(b) {
		return HeaderOf{}, fmt.Errorf("the header of an encrypted file: %w", ErrDamaged)
	}
	if b[8] < formatVersion || b[8] > newest {
		return HeaderOf{}, fmt.Errorf("an encrypted file of version %d, but this version of stator knows versions up to %d only: %w", b[8], newest, ErrDamaged)
	}
	h := HeaderOf{KeyID: hex.EncodeToString(b[keyIDOffset:saltOffset]), Layout: Layout(b[9])}
	if h.Layout < SmallBlocks || h.Layout > LargeBlocks {
		return HeaderOf{}, fmt.Errorf("the layout %d of an encrypted file: %w", h.Layout, ErrDamaged)
	}
	return h, nil
}

// FileCipher encrypts and decrypts the parts of one file. Its methods may be called concurrently.
type FileCipher struct{ gcm cipher.AEAD }

// Create returns the header of a new file, and its cipher.
func (k *DataKey) Create(layout Layout) (header []byte, c *FileCipher) {
	return k.create(layout, formatVersion)
}

func (k *DataKey) create(layout Layout, version byte) (header []byte, c *FileCipher) {
	header = make([]byte, tagOffset, HeaderBytes)
	copy(header, fileMagic)
	header[8], header[9] = version, byte(layout)
	copy(header[keyIDOffset:], k.id[:])
	rand.Read(header[saltOffset:tagOffset]) //nolint:errcheck // never fails
	c = k.cipher(header)
	return c.Seal(header, Position{Kind: HeaderPart}, nil, header), c
}

// Open returns the cipher of a file with a header. It returns ErrDamaged if the header is not one
// that was made with this key.
func (k *DataKey) Open(header []byte) (*FileCipher, error) {
	c := k.cipher(header[:tagOffset])
	if _, err := c.Open(nil, Position{Kind: HeaderPart}, header[tagOffset:HeaderBytes], header[:tagOffset]); err != nil {
		return nil, fmt.Errorf("the header of an encrypted file: %w", ErrDamaged)
	}
	return c, nil
}

// cipher derives the key of a file. A header that differs in any byte has another key.
func (k *DataKey) cipher(header []byte) *FileCipher {
	return &FileCipher{newGCM(derive(k.secret, header[saltOffset:tagOffset], "stator file: "+string(header[:saltOffset]), KeyBytes))}
}

// PartKind is what a part of a file is.
type PartKind byte

// The kinds of parts. Their numbers are part of the format.
const (
	HeaderPart PartKind = 0
	BlockPart  PartKind = 1 // a block that others follow
	LastPart   PartKind = 2 // the last block
	LogPart    PartKind = 3 // a part of a log
)

// Position identifies a part of a file, and is the nonce of its encryption. No two different
// parts of a file may have the same.
type Position struct {
	Kind   PartKind
	Length int    // of the content of a last block
	At     uint64 // the number of a block, or the offset of a part of a log
}

func (p Position) nonce(b *[12]byte) []byte {
	b[0], b[1], b[2], b[3] = byte(p.Kind), byte(p.Length>>16), byte(p.Length>>8), byte(p.Length)
	binary.BigEndian.PutUint64(b[4:], p.At)
	return b[:]
}

// Seal appends the encrypted content to dst.
func (c *FileCipher) Seal(dst []byte, p Position, content, authenticated []byte) []byte {
	var b [12]byte
	return c.gcm.Seal(dst, p.nonce(&b), content, authenticated)
}

// Open appends the decrypted content to dst. It returns ErrDamaged if it is not what was encrypted
// for this position.
func (c *FileCipher) Open(dst []byte, p Position, sealed, authenticated []byte) ([]byte, error) {
	var b [12]byte
	content, err := c.gcm.Open(dst, p.nonce(&b), sealed, authenticated)
	if err != nil {
		return nil, ErrDamaged
	}
	return content, nil
}

// OpenBlock decrypts a block in place. number is that of the block, and isLast says whether the file
// ends with it.
func (c *FileCipher) OpenBlock(sealed []byte, number uint64, isLast bool) ([]byte, error) {
	p := Position{Kind: BlockPart, At: number}
	if isLast {
		p.Kind, p.Length = LastPart, len(sealed)-TagBytes
	}
	return c.Open(sealed[:0], p, sealed, nil)
}

// BlockSealer encrypts the content of a file as blocks. All of them have the same size but the
// last, and the last one is marked, so that a truncated file is detected.
//
// Content is only appended. So a position, which includes the length of a last block, has only
// one content: Last may be called more than once.
type BlockSealer struct {
	Cipher *FileCipher
	Layout Layout
	number uint64
	tail   []byte // content that is not in a block yet
}

// Append appends the blocks that p completes to dst. A block that may be the last is kept.
func (s *BlockSealer) Append(dst, p []byte) []byte {
	size := s.Layout.BlockBytes()
	for len(p) > 0 {
		if len(s.tail) == size {
			dst = s.Cipher.Seal(dst, Position{Kind: BlockPart, At: s.number}, s.tail, nil)
			s.number, s.tail = s.number+1, s.tail[:0]
		}
		if len(s.tail) == 0 && len(p) > size {
			dst = s.Cipher.Seal(dst, Position{Kind: BlockPart, At: s.number}, p[:size], nil)
			s.number, p = s.number+1, p[size:]
			continue
		}
		if s.tail == nil {
			s.tail = make([]byte, 0, size)
		}
		n := min(len(p), size-len(s.tail))
		s.tail, p = append(s.tail, p[:n]...), p[n:]
	}
	return dst
}

// Last appends the last block to dst.
func (s *BlockSealer) Last(dst []byte) []byte {
	return s.Cipher.Seal(dst, Position{Kind: LastPart, Length: len(s.tail), At: s.number}, s.tail, nil)
}

// IsEmpty reports whether there is no content.
func (s *BlockSealer) IsEmpty() bool { return s.number == 0 && len(s.tail) == 0 }
