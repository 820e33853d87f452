package auth

import (
	"bytes"
	"slices"
	"strings"
)

// Request is a request as it was received.
type Request struct {
	Method  string
	Path    string // with its escapes
	Query   string
	Headers Headers
	Body    []byte // before it is decoded from a Content-Encoding
	Service string // that answers the request
}

// Headers are the headers of a request.
type Headers interface {
	// Header returns the first value of a header, or nil.
	Header(name string) []byte
	// HeaderAt returns the first value of a header from a position on, in the order of arrival,
	// and the position after it; not ok if there is none. The first position is 0.
	HeaderAt(name []byte, from int) (value []byte, next int, ok bool)
}

// appendCanonical appends the canonical form of a request, whose signed headers are sorted.
func appendCanonical(b []byte, r *Request, signedHeaders []byte, bodySum *[64]byte) []byte {
	b = append(append(b, r.Method...), '\n')
	if r.Path == "/" || r.Path == "" {
		b = append(b, '/')
	} else {
		b = appendPath(b, r.Path)
	}
	b = append(b, '\n')
	if r.Query != "" {
		b = appendQuery(b, r.Query)
	}
	b = append(b, '\n')
	for rest, more := signedHeaders, true; more; {
		var name []byte
		name, rest, more = nextName(rest)
		b = appendHeader(b, r.Headers, name)
	}
	b = append(append(append(b, '\n'), signedHeaders...), '\n')
	return append(b, bodySum[:]...)
}

// nextName cuts the first name off a list of signed headers.
func nextName(names []byte) (name, rest []byte, more bool) {
	if i := bytes.IndexByte(names, ';'); i >= 0 {
		return names[:i], names[i+1:], true
	}
	return names, nil, false
}

// appendHeader appends a line with all values of a header.
func appendHeader(b []byte, h Headers, name []byte) []byte {
	b = append(append(b, name...), ':')
	for at := 0; ; {
		value, next, ok := h.HeaderAt(name, at)
		if !ok {
			return append(b, '\n')
		}
		if at > 0 {
			b = append(b, ',')
		}
		b, at = appendTrimmed(b, value), next
	}
}

// appendTrimmed appends a value without spaces at its ends, and with one space in place of several.
func appendTrimmed(b, value []byte) []byte {
	for len(value) > 0 && isBlank(value[0]) {
		value = value[1:]
	}
	for len(value) > 0 && isBlank(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	for {
		i := bytes.IndexByte(value, ' ')
		if i < 0 {
			return append(b, value...)
		}
		b = append(b, value[:i+1]...)
		value = bytes.TrimLeft(value[i:], " ")
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// appendPath appends a path without . and .. and empty segments. Its escapes are escaped again.
func appendPath(b []byte, path string) []byte {
	var segments []string
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "", ".":
		case "..":
			segments = segments[:max(0, len(segments)-1)]
		default:
			segments = append(segments, segment)
		}
	}
	for _, segment := range segments {
		b = appendEscaped(append(b, '/'), segment)
	}
	if len(segments) == 0 || strings.HasSuffix(path, "/") {
		b = append(b, '/')
	}
	return b
}

// appendQuery appends a query, sorted by name and value, without the signature.
func appendQuery(b []byte, query string) []byte {
	type parameter struct{ name, value string }
	var all []parameter
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		if name = unescape(name); part != "" && name != "X-Amz-Signature" {
			all = append(all, parameter{string(appendEscaped(nil, name)), string(appendEscaped(nil, unescape(value)))})
		}
	}
	slices.SortFunc(all, func(a, b parameter) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	for i, p := range all {
		if i > 0 {
			b = append(b, '&')
		}
		b = append(append(append(b, p.name...), '='), p.value...)
	}
	return b
}

// unescape decodes the escapes of a query. One that is not valid stays as it is.
func unescape(text string) string {
	if !strings.ContainsAny(text, "%+") {
		return text
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '+':
			b = append(b, ' ')
		case c == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]):
			b = append(b, fromHex(text[i+1])<<4|fromHex(text[i+2]))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func fromHex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}

// appendEscaped appends text with escapes for all bytes but letters, digits and -._~.
func appendEscaped(b []byte, text string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}
