package item

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// ErrCorrupt is returned by Check for bytes that are not an item.
var ErrCorrupt = errors.New("not an item in stored form")

// Check returns an error unless b is an item in stored form, canonical in
// every part, so that the other functions may trust it.
func Check(b []byte) error {
	if rest, ok := checkEntries(b, 0); !ok || len(rest) > 0 {
		return ErrCorrupt
	}
	return nil
}

func checkEntries(b []byte, depth int) (rest []byte, ok bool) {
	count, b, ok := takeUvarint(b)
	if !ok {
		return nil, false
	}
	var last []byte
	for i := range count {
		var name []byte
		if name, b, ok = takeText(b); !ok || !utf8.Valid(name) || i > 0 && bytes.Compare(last, name) >= 0 {
			return nil, false
		}
		last = name
		if b, ok = checkValue(b, depth); !ok {
			return nil, false
		}
	}
	return b, true
}

func checkValue(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) == 0 || depth > MaxDepth {
		return nil, false
	}
	t := Type(b[0])
	switch t {
	case S, B:
		text, rest, ok := takeText(b[1:])
		return rest, ok && (t == B || utf8.Valid(text))
	case N:
		if len(b) < 3 || len(b) < 2+int(b[1]) || !checkNumber(b[2:2+int(b[1])]) {
			return nil, false
		}
		return b[2+int(b[1]):], true
	case BOOL:
		if len(b) < 2 || b[1] > 1 {
			return nil, false
		}
		return b[2:], true
	case NULL:
		return b[1:], true
	case SS, NS, BS, L, M:
		body, rest, ok := takeText(b[1:])
		return rest, ok && checkBody(t, body, depth+1)
	}
	return nil, false
}

func checkBody(t Type, body []byte, depth int) bool {
	if t == M {
		rest, ok := checkEntries(body, depth)
		return ok && len(rest) == 0
	}
	count, body, ok := takeUvarint(body)
	if !ok || t != L && count == 0 {
		return false
	}
	var last Value
	for i := range count {
		rest, ok := checkValue(body, depth)
		if !ok {
			return false
		}
		member := Value(body[:len(body)-len(rest)])
		if t != L && (member.Type() != t.Member() || i > 0 && Compare(last, member) >= 0) {
			return false
		}
		last, body = member, rest
	}
	return len(body) == 0
}

// checkNumber accepts exactly the output of appendSortable.
func checkNumber(b []byte) bool {
	if len(b) == 1 {
		return b[0] == signZero
	}
	if len(b) < 4 || len(b) > 3+MaxDigits/2 {
		return false
	}
	flip := byte(0)
	if b[0] == signNegative {
		flip = 0xff
	} else if b[0] != signPositive {
		return false
	}
	if b[len(b)-1] != flip {
		return false
	}
	for _, c := range b[2 : len(b)-1] {
		if c^flip < 1 || c^flip > 100 {
			return false
		}
	}
	return bytes.Equal(decodeNumber(b).canonical().appendSortable(nil), b)
}

// canonical strips zeros at both ends, which a valid number does not have.
func (n Number) canonical() Number {
	for n.count > 0 && n.digits[n.count-1] == 0 {
		n.count--
	}
	for n.count > 0 && n.digits[0] == 0 {
		copy(n.digits[:], n.digits[1:n.count])
		n.count--
		n.exponent--
	}
	return n
}

func takeUvarint(b []byte) (uint64, []byte, bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)) || w > 1 && b[w-1] == 0 { // the last: not its shortest form
		return 0, nil, false
	}
	return n, b[w:], true
}

func takeText(b []byte) (text, rest []byte, ok bool) {
	n, b, ok := takeUvarint(b)
	if !ok || n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}
