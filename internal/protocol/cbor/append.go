package cbor

import (
	"encoding/binary"
	"math"
)

// AppendUint appends a non-negative integer.
func AppendUint(dst []byte, v uint64) []byte { return appendHead(dst, majorUint, v) }

// AppendNegative appends the integer -1-v.
func AppendNegative(dst []byte, v uint64) []byte { return appendHead(dst, majorNegative, v) }

// AppendInt appends an integer.
func AppendInt(dst []byte, v int64) []byte {
	if v < 0 {
		return AppendNegative(dst, uint64(^v))
	}
	return AppendUint(dst, uint64(v))
}

// AppendText appends a text.
func AppendText[T string | []byte](dst []byte, text T) []byte {
	return append(appendHead(dst, majorText, uint64(len(text))), text...)
}

// AppendBytes appends bytes.
func AppendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(appendHead(dst, majorBytes, uint64(len(b))), b...)
}

// WrapBytes makes one value, bytes, of some first bytes and everything in dst from an offset on.
func WrapBytes(dst []byte, from int, first ...byte) []byte {
	size := len(dst) - from
	var header [32]byte
	h := append(appendHead(header[:0], majorBytes, uint64(len(first)+size)), first...)
	dst = append(dst, h...)
	copy(dst[from+len(h):], dst[from:from+size])
	copy(dst[from:], h)
	return dst
}

// AppendArray appends the head of an array of n elements.
func AppendArray(dst []byte, n int) []byte { return appendHead(dst, majorArray, uint64(n)) }

// AppendMap appends the head of a map of n entries.
func AppendMap(dst []byte, n int) []byte { return appendHead(dst, majorMap, uint64(n)) }

// AppendOpenMap appends the head of a map that AppendBreak ends.
func AppendOpenMap(dst []byte) []byte { return append(dst, majorMap|indefinite) }

// AppendBreak ends a map.
func AppendBreak(dst []byte) []byte { return append(dst, byteBreak) }

// AppendTag appends a tag, which the tagged value follows.
func AppendTag(dst []byte, tag uint64) []byte { return appendHead(dst, majorTag, tag) }

// AppendBool appends a boolean.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, byteTrue)
	}
	return append(dst, byteFalse)
}

// AppendNull appends the null.
func AppendNull(dst []byte) []byte { return append(dst, byteNull) }

// AppendFloat appends a number of 64 bits.
func AppendFloat(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, byteFloat64), math.Float64bits(v))
}

func appendHead(dst []byte, major byte, arg uint64) []byte {
	switch {
	case arg < 24:
		return append(dst, major|byte(arg))
	case arg <= math.MaxUint8:
		return append(dst, major|24, byte(arg))
	case arg <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(arg))
	case arg <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(arg))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), arg)
}
