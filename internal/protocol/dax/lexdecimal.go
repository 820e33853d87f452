package dax

import (
	"encoding/binary"
	"strconv"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// A numeric sort key is encoded so that the bytes sort as the numbers do. For a number
// 0.d1d2d3… × 10^exponent:
//
//	header      the sign and the exponent: one byte, or five for a large exponent
//	groups      three digits each, 10 bits as 12 to 1011; the last is filled with zeros
//	terminator  10 bits: how many digits of the last group count, less one
//
// A negative number has the complements of exponent, groups and terminator. Zeros at the end
// count as digits, so a number has several forms.
const (
	lexZero = 0x80

	// The headers with four bytes of exponent, and those which contain it.
	lexLongLow     = 0x81 // positive, exponent below -62
	lexLongHigh    = 0xfe // positive, exponent above 61
	lexNegLongHigh = 0x01
	lexNegLongLow  = 0x7e
	lexPositive    = 0xc0 // plus the exponent
	lexNegative    = 0x3f // minus the exponent

	lexShortMin, lexShortMax = -62, 61

	lexDigit    = 12             // the code of group 0
	lexLast     = lexDigit + 999 // of group 999
	lexNegLimit = 1023
)

// appendLexDecimal appends the encoding of an N. An integer has all its digits, so that its
// scale is 0 and clients show it without an exponent.
func appendLexDecimal(dst []byte, v item.Value) []byte {
	var text [192]byte
	n := splitNumber(v.AppendNumberText(text[:0]))
	if len(n.digits) == 0 {
		return append(dst, lexZero)
	}
	dst = appendLexHeader(dst, n.negative, len(n.digits)-n.fraction)
	var bits bitWriter
	last := (len(n.digits) - 1) % 3
	for i := 0; i < len(n.digits); i += 3 {
		group := 0
		for j := i; j < i+3; j++ {
			group *= 10
			if j < len(n.digits) {
				group += int(n.digits[j] - '0')
			}
		}
		if n.negative {
			group = 999 - group
		}
		dst = bits.append(dst, lexDigit+group)
	}
	if n.negative {
		last = lexNegLimit - last
	}
	return bits.flush(bits.append(dst, last))
}

func appendLexHeader(dst []byte, negative bool, exponent int) []byte {
	switch short := exponent >= lexShortMin && exponent <= lexShortMax; {
	case short && negative:
		return append(dst, byte(lexNegative-exponent))
	case short:
		return append(dst, byte(lexPositive+exponent))
	case negative && exponent < 0:
		dst = append(dst, lexNegLongLow)
	case negative:
		dst = append(dst, lexNegLongHigh)
	case exponent < 0:
		dst = append(dst, lexLongLow)
	default:
		dst = append(dst, lexLongHigh)
	}
	flip := uint32(1 << 31)
	if negative {
		flip = 1<<31 - 1
	}
	return binary.BigEndian.AppendUint32(dst, uint32(int32(exponent))^flip)
}

// bitWriter packs numbers of 10 bits into bytes.
type bitWriter struct{ pending, bits uint }

func (w *bitWriter) append(dst []byte, v int) []byte {
	w.pending = w.pending<<10 | uint(v)
	for w.bits += 10; w.bits >= 8; {
		w.bits -= 8
		dst = append(dst, byte(w.pending>>w.bits))
	}
	return dst
}

// flush appends the last bits, filled with zeros.
func (w *bitWriter) flush(dst []byte) []byte {
	if w.bits == 0 {
		return dst
	}
	return append(dst, byte(w.pending<<(8-w.bits)))
}

// lexDecimal reads a number whose encoding is all of b, and appends it as an N.
func (r *cborReader) lexDecimal(dst, b []byte) ([]byte, error) {
	if err := r.lexText(b); err != nil {
		return nil, err
	}
	n, err := item.ParseNumber(r.digits)
	if err != nil {
		r.noteFault(err)
		n = item.Number{}
	}
	return item.AppendNumber(dst, n), nil
}

// lexText reads a number into digits, as 0.d1d2d3…e12.
func (r *cborReader) lexText(b []byte) error {
	if len(b) == 0 {
		return cbor.ErrMalformed
	}
	if len(b) == 1 && b[0] == lexZero {
		r.digits = append(r.digits[:0], '0')
		return nil
	}
	negative, exponent, b, ok := cutLexHeader(b)
	if !ok {
		return cbor.ErrMalformed
	}
	r.digits = r.digits[:0]
	if negative {
		r.digits = append(r.digits, '-')
	}
	r.digits = append(r.digits, '0', '.')
	if !r.lexGroups(b, negative) {
		return cbor.ErrMalformed
	}
	r.digits = strconv.AppendInt(append(r.digits, 'e'), int64(exponent), 10)
	return nil
}

func cutLexHeader(b []byte) (negative bool, exponent int32, rest []byte, ok bool) {
	switch h := b[0]; {
	case h == lexLongLow || h == lexLongHigh || h == lexNegLongLow || h == lexNegLongHigh:
		if len(b) < 5 {
			return false, 0, nil, false
		}
		negative = h < lexZero
		flip := uint32(1 << 31)
		if negative {
			flip = 1<<31 - 1
		}
		return negative, int32(binary.BigEndian.Uint32(b[1:5]) ^ flip), b[5:], true
	case h > lexLongLow && h < lexLongHigh:
		return false, int32(h) - lexPositive, b[1:], true
	case h > lexNegLongHigh && h < lexNegLongLow:
		return true, lexNegative - int32(h), b[1:], true
	}
	return false, 0, nil, false
}

// lexGroups reads the groups and the terminator, which end b.
func (r *cborReader) lexGroups(b []byte, negative bool) bool {
	pending, bits, groups := uint(0), uint(0), 0
	for i, c := range b {
		pending = pending<<8 | uint(c)
		if bits += 8; bits < 10 {
			continue
		}
		bits -= 10
		code := int(pending>>bits) & 0x3ff
		if negative {
			code = lexNegLimit - code
		}
		switch {
		case code <= 2: // the terminator
			rest := pending & (1<<bits - 1)
			drop := 2 - code
			end := len(r.digits) - drop
			if groups == 0 || i != len(b)-1 || rest != 0 || string(r.digits[end:]) != "00"[:drop] {
				return false
			}
			r.digits = r.digits[:end]
			return true
		case code < lexDigit || code > lexLast:
			return false
		}
		group := code - lexDigit
		if groups == 0 && group < 100 {
			return false // the exponent counts from the first digit that is not zero
		}
		r.digits = append(r.digits, byte('0'+group/100), byte('0'+group/10%10), byte('0'+group%10))
		groups++
	}
	return false
}
