// Package wire decodes requests and encodes replies, and reports type errors
// and violated constraints in DynamoDB's words.
//
// It does not interpret well-formed requests; package ops does.
package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// errSyntax is returned for a body that is not JSON.
var errSyntax = errors.New("not JSON")

// scanner reads JSON from a body, one token after another. It never recurses,
// so no body can exhaust the stack.
type scanner struct {
	body []byte
	at   int
}

// next returns the first byte of the next token without consuming it; 0 at
// the end.
func (s *scanner) next() byte {
	if s.at < len(s.body) && s.body[s.at] > ' ' {
		return s.body[s.at]
	}
	return s.pastSpace()
}

func (s *scanner) pastSpace() byte {
	for s.at < len(s.body) {
		switch c := s.body[s.at]; c {
		case ' ':
			for len(s.body)-s.at >= 8 && binary.NativeEndian.Uint64(s.body[s.at:]) == eightSpaces {
				s.at += 8
			}
			if s.at < len(s.body) && s.body[s.at] == ' ' {
				s.at++
			}
		case '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

const eightSpaces = 0x2020202020202020

// done reports whether only white space is left.
func (s *scanner) done() bool { return s.next() == 0 && s.at == len(s.body) }

// take consumes c if it is the next token.
func (s *scanner) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at++
	return true
}

// word consumes a literal such as true.
func (s *scanner) word(w string) error {
	if s.next(); len(s.body)-s.at < len(w) || string(s.body[s.at:s.at+len(w)]) != w {
		return errSyntax
	}
	s.at += len(w)
	return nil
}

// null consumes a null, if it is the next token.
func (s *scanner) null() (bool, error) {
	if s.next() != 'n' {
		return false, nil
	}
	return true, s.word("null")
}

// enter consumes the bracket that opens an object or an array, and reports
// whether it has a member. If so, again is called after each member.
func (s *scanner) enter(open byte) (more bool, err error) {
	if !s.take(open) {
		return false, errSyntax
	}
	return !s.take(open + 2), nil // the closing bracket, in ASCII
}

// again consumes the comma after a member, or the bracket that matches open.
func (s *scanner) again(open byte) (more bool, err error) {
	switch s.next() {
	case ',':
		s.at++
		return true, nil
	case open + 2:
		s.at++
		return false, nil
	}
	return false, errSyntax
}

// name consumes a member's name and the colon.
func (s *scanner) name() ([]byte, error) {
	name, err := s.text()
	if err == nil && !s.take(':') {
		err = errSyntax
	}
	return name, err
}

// number consumes a number.
func (s *scanner) number() ([]byte, error) {
	s.next()
	start := s.at
	digits := func() bool {
		from := s.at
		for s.at < len(s.body) && '0' <= s.body[s.at] && s.body[s.at] <= '9' {
			s.at++
		}
		return s.at > from
	}
	has := func(set string) bool {
		if s.at < len(s.body) && bytes.IndexByte([]byte(set), s.body[s.at]) >= 0 {
			s.at++
			return true
		}
		return false
	}
	has("-")
	whole := s.at
	if !digits() || s.body[whole] == '0' && s.at > whole+1 {
		return nil, errSyntax
	}
	if has(".") && !digits() {
		return nil, errSyntax
	}
	if has("eE") {
		has("+-")
		if !digits() {
			return nil, errSyntax
		}
	}
	return s.body[start:s.at], nil
}

// text consumes a string. The result is part of the body when nothing in it
// is escaped.
func (s *scanner) text() ([]byte, error) {
	if !s.take('"') {
		return nil, errSyntax
	}
	start := s.at
	n, ascii := clean(s.body[start:])
	s.at += n
	if s.at == len(s.body) {
		return nil, errSyntax
	}
	switch s.body[s.at] {
	case '"':
		t := s.body[start:s.at]
		s.at++
		if !ascii && !utf8.Valid(t) {
			return nil, errSyntax
		}
		return t, nil
	case '\\':
		return s.escaped(start)
	}
	return nil, errSyntax
}

// escaped continues at the first backslash of a string that began at start.
func (s *scanner) escaped(start int) ([]byte, error) {
	out := append([]byte(nil), s.body[start:s.at]...)
	for {
		n, _ := clean(s.body[s.at:])
		out = append(out, s.body[s.at:s.at+n]...)
		if s.at += n; s.at == len(s.body) {
			return nil, errSyntax
		}
		c := s.body[s.at]
		s.at++
		switch {
		case c == '"' && utf8.Valid(out):
			return out, nil
		case c != '\\' || s.at == len(s.body):
			return nil, errSyntax
		}
		c = s.body[s.at]
		s.at++
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, err := s.unicode()
			if err != nil {
				return nil, err
			}
			out = utf8.AppendRune(out, r)
		default:
			return nil, errSyntax
		}
	}
}

// unicode reads the four digits after \u, and a second escape if the first is
// half of a surrogate pair.
func (s *scanner) unicode() (rune, error) {
	r, ok := s.hex()
	if !ok {
		return 0, errSyntax
	}
	if utf16.IsSurrogate(r) {
		if s.at+2 <= len(s.body) && s.body[s.at] == '\\' && s.body[s.at+1] == 'u' {
			before := s.at
			s.at += 2
			low, ok := s.hex()
			if !ok {
				return 0, errSyntax
			}
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, nil
			}
			s.at = before
		}
		return utf8.RuneError, nil
	}
	return r, nil
}

func (s *scanner) hex() (rune, bool) {
	if s.at+4 > len(s.body) {
		return 0, false
	}
	var r rune
	for _, c := range s.body[s.at : s.at+4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	s.at += 4
	return r, true
}

// skip consumes one value of any kind.
func (s *scanner) skip() error {
	var open brackets // not closed yet
	for {
		switch c := s.next(); c {
		case '{', '[':
			s.at++
			if s.take(closing(c)) {
				break
			}
			open.push(c)
			if c == '{' {
				if _, err := s.name(); err != nil {
					return err
				}
			}
			continue
		case '"':
			if _, err := s.text(); err != nil {
				return err
			}
		case 't', 'f', 'n':
			if err := s.word(literals[c]); err != nil {
				return err
			}
		default:
			if _, err := s.number(); err != nil {
				return err
			}
		}
		// A value is complete: consume the brackets that close after it.
		for open.depth > 0 && s.take(closing(open.last())) {
			open.depth--
		}
		if open.depth == 0 {
			return nil
		}
		if !s.take(',') {
			return errSyntax
		}
		if open.last() == '{' {
			if _, err := s.name(); err != nil {
				return err
			}
		}
	}
}

// closing returns the bracket that closes c, in ASCII.
func closing(c byte) byte { return c + 2 }

// brackets is a stack of open brackets, one bit each: there may be millions.
type brackets struct {
	bits  []byte // set for {
	depth int
}

func (b *brackets) push(c byte) {
	at, bit := b.depth/8, byte(1)<<(b.depth%8)
	if at == len(b.bits) {
		b.bits = append(b.bits, 0)
	}
	b.bits[at] &^= bit
	if c == '{' {
		b.bits[at] |= bit
	}
	b.depth++
}

// last returns the innermost bracket. There must be one.
func (b *brackets) last() byte {
	if at := b.depth - 1; b.bits[at/8]&(1<<(at%8)) == 0 {
		return '['
	}
	return '{'
}

// literals by the byte that begins them.
var literals = [256]string{'t': "true", 'f': "false", 'n': "null"}
