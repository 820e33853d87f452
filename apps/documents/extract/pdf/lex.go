package pdf

import (
	"math"
	"strconv"
)

// The types of objects. Numbers are int or float64; the others are bool and nil.
type (
	name  string
	str   string // the bytes of a string
	dict  map[name]any
	array []any
	ref   struct{ num, gen int }
)

// stream is a dictionary with bytes, which are still encoded.
type stream struct {
	dict dict
	raw  []byte
	key  *ref // the object whose key encrypts the bytes, or nil
}

// keyword is a token that is no object: an operator, or a bracket.
type keyword string

// ended is the token at the end of the input.
const ended = keyword("")

// maxDepth is the maximum nesting of arrays and dictionaries.
const maxDepth = 60

// lexer reads tokens and objects from bytes. It never fails: what is no object is a
// keyword, and what cannot be read is skipped.
type lexer struct {
	b       []byte
	at      int
	limits  *limits
	refs    bool // "1 0 R" is a reference; not so in page content
	decrypt func(str) str
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool {
	switch c {
	case '(', ')', '<', '>', '[', ']', '{', '}', '/', '%':
		return true
	}
	return false
}

func isRegular(c byte) bool { return !isSpace(c) && !isDelimiter(c) }

// skipSpace skips white space and comments.
func (l *lexer) skipSpace() {
	for l.at < len(l.b) {
		switch c := l.b[l.at]; {
		case isSpace(c):
			l.at++
		case c == '%':
			for l.at < len(l.b) && l.b[l.at] != '\n' && l.b[l.at] != '\r' {
				l.at++
			}
		default:
			return
		}
	}
}

// token returns the next token: an object that is no array, dictionary or
// reference, or a keyword.
func (l *lexer) token() any {
	l.limits.spendToken()
	l.skipSpace()
	if l.at >= len(l.b) {
		return ended
	}
	c := l.b[l.at]
	switch {
	case c == '/':
		l.at++
		return l.name()
	case c == '(':
		l.at++
		return l.decrypted(l.literal())
	case c == '<' && l.follows('<'), c == '>' && l.follows('>'):
		l.at += 2
		return keyword([]byte{c, c})
	case c == '<':
		l.at++
		return l.decrypted(l.hexadecimal())
	case isDelimiter(c):
		l.at++
		return keyword([]byte{c})
	}
	start := l.at
	for l.at < len(l.b) && isRegular(l.b[l.at]) {
		l.at++
	}
	return word(l.b[start:l.at])
}

func (l *lexer) decrypted(s str) str {
	if l.decrypt != nil {
		return l.decrypt(s)
	}
	return s
}

func (l *lexer) follows(c byte) bool { return l.at+1 < len(l.b) && l.b[l.at+1] == c }

// word returns a number, true, false, null or a keyword.
func word(b []byte) any {
	switch c := b[0]; {
	case c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.':
		if v, ok := parseNumber(b); ok {
			return v
		}
	}
	switch string(b) {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	return keyword(b)
}

func parseNumber(b []byte) (any, bool) {
	if len(b) > 64 {
		return nil, false
	}
	if n, err := strconv.Atoi(string(b)); err == nil {
		return n, true
	}
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' {
			return nil, false
		}
	}
	for len(b) > 1 && b[0] == '-' && b[1] == '-' { // some producers write --5
		b = b[1:]
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, err == nil || len(b) == 1
	}
	return f, true
}

func (l *lexer) name() name {
	start := l.at
	escaped := false
	for l.at < len(l.b) && isRegular(l.b[l.at]) {
		escaped = escaped || l.b[l.at] == '#'
		l.at++
	}
	text := l.b[start:l.at]
	if !escaped {
		return name(text)
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '#' && i+2 < len(text) && hex(text[i+1]) >= 0 && hex(text[i+2]) >= 0 {
			out = append(out, byte(hex(text[i+1])<<4|hex(text[i+2])))
			i += 2
			continue
		}
		out = append(out, text[i])
	}
	return name(out)
}

func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (l *lexer) hexadecimal() str {
	var out []byte
	high := -1
	for ; l.at < len(l.b); l.at++ {
		c := l.b[l.at]
		if c == '>' {
			l.at++
			break
		}
		switch h := hex(c); {
		case h < 0:
		case high < 0:
			high = h
		default:
			out = append(out, byte(high<<4|h))
			high = -1
		}
	}
	if high >= 0 {
		out = append(out, byte(high<<4))
	}
	return str(out)
}

var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'f': '\f'}

func (l *lexer) literal() str {
	var out []byte
	for nested := 1; l.at < len(l.b); {
		c := l.b[l.at]
		l.at++
		switch c {
		case '(':
			nested++
		case ')':
			if nested--; nested == 0 {
				return str(out)
			}
		case '\\':
			out = l.escape(out)
			continue
		}
		out = append(out, c)
	}
	return str(out)
}

// escape appends the character of an escape sequence.
func (l *lexer) escape(out []byte) []byte {
	if l.at >= len(l.b) {
		return out
	}
	c := l.b[l.at]
	l.at++
	switch {
	case c >= '0' && c <= '7':
		v := int(c - '0')
		for i := 0; i < 2 && l.at < len(l.b) && l.b[l.at] >= '0' && l.b[l.at] <= '7'; i++ {
			v = v*8 + int(l.b[l.at]-'0')
			l.at++
		}
		return append(out, byte(v))
	case c == '\r':
		if l.at < len(l.b) && l.b[l.at] == '\n' {
			l.at++
		}
		return out
	case c == '\n':
		return out
	case escapes[c] != 0:
		return append(out, escapes[c])
	}
	return append(out, c)
}

// object returns the next object, or a keyword.
func (l *lexer) object() any { return l.nested(0) }

func (l *lexer) nested(depth int) any {
	t := l.token()
	if depth > maxDepth {
		l.limits.fail("its objects are nested more than %d deep", maxDepth)
	}
	switch t := t.(type) {
	case int:
		if l.refs && t >= 0 {
			return l.reference(t)
		}
	case keyword:
		switch t {
		case "[":
			return l.array(depth)
		case "<<":
			return l.dictionary(depth)
		}
	}
	return t
}

// reference returns a reference if the number is followed by a number and R.
func (l *lexer) reference(n int) any {
	start := l.at
	if gen, ok := l.token().(int); ok && gen >= 0 {
		if l.token() == keyword("R") {
			return ref{n, gen}
		}
	}
	l.at = start
	return n
}

func (l *lexer) array(depth int) any {
	a := array{}
	for {
		switch v := l.nested(depth + 1).(type) {
		case keyword:
			switch v {
			case "]", ended:
				return a
			case ">>", "endobj", "stream":
				l.at -= len(v)
				return a
			}
		default:
			a = append(a, v)
		}
	}
}

func (l *lexer) dictionary(depth int) any {
	d := dict{}
	for {
		switch k := l.nested(depth + 1).(type) {
		case name:
			v := l.nested(depth + 1)
			if w, ok := v.(keyword); ok {
				if w == ">>" || w == ended {
					return d
				}
				continue
			}
			d[k] = v
		case keyword:
			switch k {
			case ">>", ended:
				return d
			case "endobj", "stream":
				l.at -= len(k)
				return d
			}
		}
	}
}
