package door

import (
	"bytes"
	"encoding/binary"
)

// opening is the only request line that the door accepts.
const opening = "POST / HTTP/1.1\r\n"

// maxFields is how many headers are read; SDKs send about a dozen.
const maxFields = 64

// head is the head of a request, parsed as its bytes arrive.
type head struct {
	fields []headerField
	next   int    // where the first incomplete line begins
	text   []byte // of a complete head

	length    int64 // of the body; 0 without Content-Length
	chunked   bool
	close     bool
	hasLength bool
	hasCoding bool // a Content-Encoding
	hasHost   bool
	hasTarget bool
	hasSigner bool
	hasClose  bool // or keep-alive
}

// headerField is the position of a header in the head.
type headerField struct{ name, nameEnd, value, valueEnd uint16 }

// verdict is what to do after scanning some bytes.
type verdict int

const (
	more verdict = iota // wait for more bytes
	done                // the scanned part is complete
	pass                // hand the connection to net/http
)

func (h *head) reset() { *h = head{fields: h.fields[:0]} }

// scan scans the bytes of a request that have arrived so far, at most as many as a
// headerField can address. When it is done, next is the length of the head.
//
// It accepts only what every HTTP parser agrees on. Anything else, however
// harmless, is passed to net/http at once, since more bytes may never arrive.
func (h *head) scan(b []byte) verdict {
	if h.next == 0 {
		n := min(len(b), len(opening))
		if string(b[:n]) != opening[:n] {
			return pass
		}
		if n < len(opening) {
			return more
		}
		h.next = n
	}
	for {
		i := bytes.IndexByte(b[h.next:], '\n')
		if i < 0 {
			return more
		}
		if i == 0 || b[h.next+i-1] != '\r' {
			return pass // parsers disagree on whether the line ends here
		}
		start, end := h.next, h.next+i-1
		h.next += i + 1
		if start == end {
			if !h.hasHost || h.chunked && h.hasLength {
				return pass
			}
			h.text = b[:h.next]
			return done
		}
		if !h.addField(b, start, end) {
			return pass
		}
	}
}

// addField records the header in b[start:end]. It reports false if anything about
// the header is unusual.
func (h *head) addField(b []byte, start, end int) bool {
	colon := start
	for colon < end && isToken[b[colon]] {
		colon++
	}
	if colon == start || colon == end || b[colon] != ':' || len(h.fields) == maxFields {
		return false
	}
	from, to := colon+1, end
	for from < to && isSpace(b[from]) {
		from++
	}
	for to > from && isSpace(b[to-1]) {
		to--
	}
	if !isText(b[from:to]) {
		return false
	}
	h.fields = append(h.fields, headerField{uint16(start), uint16(colon), uint16(from), uint16(to)})
	return h.interpret(b[start:colon], b[from:to])
}

// isText reports whether all bytes are printable ASCII or tabs. Values are most of
// a head, so it tests eight bytes at a time: a byte below the space, or above the
// tilde, sets its highest bit in one of three terms.
func isText(b []byte) bool {
	const ones, spaces, high = 0x0101010101010101, 0x2020202020202020, 0x8080808080808080
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		if ((x-spaces)|(x+ones)|x)&high != 0 && !isTextEach(b[:8]) {
			return false
		}
		b = b[8:]
	}
	return isTextEach(b)
}

func isTextEach(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// isToken contains the bytes that a header's name may have.
var isToken = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

// isHost contains the bytes of unambiguous host names.
var isHost = func() (t [256]bool) {
	for _, c := range []byte("-._:[]0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

// interpret evaluates the headers that determine where a request ends, how its body is
// encoded, whether the connection is kept, what is asked for and by whom. It reports false if one of them
// is unusual or occurs twice.
func (h *head) interpret(name, value []byte) bool {
	switch len(name) {
	case len("Host"):
		if is(name, "host") {
			if h.hasHost || len(value) == 0 {
				return false
			}
			h.hasHost = true
			for _, c := range value {
				if !isHost[c] {
					return false
				}
			}
		}
	case len("Connection"):
		if is(name, "connection") {
			h.close = is(value, "close")
			ok := !h.hasClose && (h.close || is(value, "keep-alive"))
			h.hasClose = true
			return ok
		}
	case len("X-Amz-Target"):
		if is(name, "x-amz-target") {
			ok := !h.hasTarget
			h.hasTarget = true
			return ok
		}
	case len("Authorization"):
		if is(name, "authorization") {
			ok := !h.hasSigner
			h.hasSigner = true
			return ok
		}
	case len("Content-Length"):
		if is(name, "content-length") {
			ok := !h.hasLength && h.readLength(value)
			h.hasLength = true
			return ok
		}
	case len("Content-Encoding"):
		if is(name, "content-encoding") {
			ok := !h.hasCoding
			h.hasCoding = true
			return ok
		}
	case len("Transfer-Encoding"):
		if is(name, "transfer-encoding") {
			ok := !h.chunked && is(value, "chunked")
			h.chunked = true
			return ok
		}
	case len("Expect"): // expectations, upgrades and trailers are left to net/http
		return !is(name, "expect")
	case len("Upgrade"):
		return !is(name, "upgrade") && !is(name, "trailer")
	}
	return true
}

// readLength accepts plain digits, too few to overflow.
func (h *head) readLength(value []byte) bool {
	if len(value) == 0 || len(value) > 15 {
		return false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
		h.length = 10*h.length + int64(c-'0')
	}
	return true
}

// is reports whether b is a word, ignoring case.
func is(b []byte, word string) bool {
	return len(b) == len(word) && (string(b) == word || sameName(b, word))
}
