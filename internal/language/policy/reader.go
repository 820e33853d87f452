package policy

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// maxNesting is the depth of values in a document. A policy needs seven.
const maxNesting = 10

// jsonKind is the kind of a JSON value.
type jsonKind byte

const (
	jsonObject jsonKind = iota
	jsonList
	jsonString
	jsonBare // a number, true or false
	jsonNull
)

// jsonNode is a JSON value with its place in the text.
type jsonNode struct {
	kind    jsonKind
	at      Position
	text    string // of strings and bare values
	members []jsonMember
	list    []*jsonNode
}

type jsonMember struct {
	name  string
	at    Position
	value *jsonNode
}

func (n *jsonNode) is() string {
	return [...]string{"an object", "a list", "a string", "a number or a boolean", "null"}[n.kind]
}

// nodeReader reads text that is valid JSON.
type nodeReader struct {
	text    []byte
	at      int
	tooDeep bool // a value is nested too deeply

	// The position of an offset up to which positions were asked for.
	known  int
	lineAt Position
}

// readJSON returns the value of a text, or the offset and description of what is
// wrong with it.
func readJSON(text []byte) (node *jsonNode, where Position, fault string) {
	r := &nodeReader{text: text, lineAt: Position{1, 1}}
	if !utf8.Valid(text) {
		at := 0
		for at < len(text) {
			c, size := utf8.DecodeRune(text[at:])
			if c == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return nil, r.position(at), "this is not JSON: the text is not UTF-8"
	}
	var raw json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			return nil, r.lineAt, "this is not JSON: " + err.Error()
		}
		at := max(0, int(syntax.Offset)-1)
		if strings.Contains(err.Error(), "unexpected end") {
			at = len(text)
		}
		return nil, r.position(min(at, len(text))), "this is not JSON: " + err.Error()
	}
	node = r.value(1)
	if r.tooDeep {
		return nil, r.lineAt, "the text is nested too deeply for a policy"
	}
	return node, Position{}, ""
}

// position returns the line and column of an offset, which is not before the last one
// that was asked for.
func (r *nodeReader) position(at int) Position {
	for r.known < at {
		c, size := utf8.DecodeRune(r.text[r.known:])
		r.known += size
		r.lineAt.Column++
		if c == '\n' {
			r.lineAt = Position{r.lineAt.Line + 1, 1}
		}
	}
	return r.lineAt
}

func (r *nodeReader) space() {
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
}

// skip passes over white space and one byte.
func (r *nodeReader) skip() byte {
	r.space()
	c := r.text[r.at]
	r.at++
	return c
}

// value reads the value at the current place. Below maxNesting nothing is kept, so
// that the depth of the recursion is bounded.
func (r *nodeReader) value(depth int) *jsonNode {
	r.space()
	start := r.at
	n := &jsonNode{at: r.position(start)}
	if depth > maxNesting && (r.text[r.at] == '{' || r.text[r.at] == '[') {
		r.tooDeep = true
		return n
	}
	switch r.text[r.at] {
	case '{':
		r.at++
		for r.more('}') {
			m := jsonMember{at: r.position(r.at), name: r.str()}
			r.skip() // the colon
			m.value = r.value(depth + 1)
			n.members = append(n.members, m)
		}
	case '[':
		n.kind = jsonList
		r.at++
		for r.more(']') {
			n.list = append(n.list, r.value(depth+1))
		}
	case '"':
		n.kind, n.text = jsonString, r.str()
	default:
		for r.at < len(r.text) && strings.IndexByte(",]} \t\r\n", r.text[r.at]) < 0 {
			r.at++
		}
		n.kind, n.text = jsonBare, string(r.text[start:r.at])
		if n.text == "null" {
			n.kind = jsonNull
		}
	}
	return n
}

// more reports whether another member or element follows, and passes over what is
// between them, or over the end.
func (r *nodeReader) more(end byte) bool {
	if r.tooDeep {
		return false
	}
	r.space()
	switch r.text[r.at] {
	case end:
		r.at++
		return false
	case ',':
		r.at++
		r.space()
	}
	return true
}

// str reads a string.
func (r *nodeReader) str() string {
	start := r.at
	escaped := false
	for r.at++; r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] == '\\' {
			escaped = true
			r.at++
		}
	}
	r.at++
	if !escaped {
		return string(r.text[start+1 : r.at-1])
	}
	var s string
	if err := json.Unmarshal(r.text[start:r.at], &s); err != nil {
		return ""
	}
	return s
}
