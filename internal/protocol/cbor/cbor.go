// Package cbor reads and writes CBOR (RFC 8949): single values of a stream, and the parts of
// a value.
//
// Strings of indefinite length are not supported; arrays and maps of indefinite length are.
package cbor

import (
	"encoding/binary"
	"errors"
)

// Kind is the kind of a value: its major type, and for simple values which one.
type Kind byte

// The kinds.
const (
	End Kind = iota // no value is left
	Uint
	Negative
	Bytes
	Text
	Array
	Map
	Tag
	False
	True
	Null
	Float
	Break // ends an array or a map of indefinite length
	Other // a simple value without a meaning, or a head that is malformed
)

var (
	// ErrMalformed is returned for bytes that are not CBOR, or end within a value.
	ErrMalformed = errors.New("malformed CBOR")
	// ErrKind is returned for a value of another kind than the one asked for.
	ErrKind = errors.New("a CBOR value of another kind is expected")
	// ErrRange is returned for an integer that does not fit.
	ErrRange = errors.New("a CBOR integer is out of range")
)

// The major types, as the high bits of the first byte.
const (
	majorUint byte = iota << 5
	majorNegative
	majorBytes
	majorText
	majorArray
	majorMap
	majorTag
	majorSimple
)

const (
	majorMask  = 0xe0
	infoMask   = 0x1f
	indefinite = 31

	byteFalse   = majorSimple | 20
	byteTrue    = majorSimple | 21
	byteNull    = majorSimple | 22
	byteFloat16 = majorSimple | 25
	byteFloat32 = majorSimple | 26
	byteFloat64 = majorSimple | 27
	byteBreak   = majorSimple | indefinite
)

// valueHead is the beginning of a value: its first byte, and its argument.
type valueHead struct {
	first byte
	arg   uint64
}

func (h valueHead) major() byte { return h.first & majorMask }

// open reports whether the value has an indefinite length.
func (h valueHead) open() bool { return h.first&infoMask == indefinite }

// argumentSize returns how many bytes of argument follow a first byte; not ok for a first
// byte that no value begins with.
func argumentSize(first byte) (size int, ok bool) {
	switch info := first & infoMask; {
	case info < 24:
		return 0, true
	case info < 28:
		return 1 << (info - 24), true
	case info == indefinite:
		switch first & majorMask {
		case majorArray, majorMap, majorSimple:
			return 0, true
		}
	}
	return 0, false
}

// argument is the argument of a head: bytes are those after the first.
func argument(first byte, bytes []byte) uint64 {
	switch len(bytes) {
	case 1:
		return uint64(bytes[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(bytes))
	case 4:
		return uint64(binary.BigEndian.Uint32(bytes))
	case 8:
		return binary.BigEndian.Uint64(bytes)
	}
	return uint64(first & infoMask)
}
