package expr

import (
	"strings"
	"unicode/utf8"
)

// tokenKind is the kind of a token. A one-byte symbol is its own kind.
type tokenKind byte

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenName    // #name
	tokenValue   // :value
	tokenInteger // a list index
	tokenUnknown // a character that does not begin a token
	tokenNotEqual
	tokenLessOrEqual
	tokenGreaterOrEqual

	// Keywords, in any case. They are keywords in all five kinds of
	// expression, so ADD is not an attribute name even in a projection.
	tokenAnd
	tokenOr
	tokenNot
	tokenBetween
	tokenIn
	tokenSet
	tokenRemove
	tokenAdd
	tokenDelete
)

var keywords = [...]struct {
	word string
	kind tokenKind
}{
	{"AND", tokenAnd}, {"OR", tokenOr}, {"NOT", tokenNot},
	{"BETWEEN", tokenBetween}, {"IN", tokenIn},
	{"SET", tokenSet}, {"REMOVE", tokenRemove}, {"ADD", tokenAdd}, {"DELETE", tokenDelete},
}

// token is a piece of an expression's text: text[start:end].
type token struct {
	kind       tokenKind
	start, end int
}

// tokenize splits a text into tokens, the last of which is tokenEnd. It
// cannot fail: an unknown character becomes tokenUnknown, and the parser
// stops there.
func tokenize(text string) []token {
	tokens := make([]token, 0, len(text)/3+2)
	for at := 0; ; {
		for at < len(text) && strings.IndexByte(" \t\r\n", text[at]) >= 0 {
			at++
		}
		if at == len(text) {
			return append(tokens, token{tokenEnd, at, at})
		}
		kind, size := next(text[at:])
		tokens = append(tokens, token{kind, at, at + size})
		at += size
	}
}

// next returns the kind and the size of the token that text begins with.
func next(text string) (tokenKind, int) {
	switch c := text[0]; {
	case isLetter(c):
		size := wordSize(text)
		return wordKind(text[:size]), size
	case c == '#' || c == ':':
		size := 1 + wordSize(text[1:])
		switch {
		case size == 1:
			return tokenUnknown, 1
		case c == '#':
			return tokenName, size
		}
		return tokenValue, size
	case c == '0': // an index has no leading zeros
		return tokenInteger, 1
	case isDigit(c):
		size := 1
		for size < len(text) && isDigit(text[size]) {
			size++
		}
		return tokenInteger, size
	case strings.HasPrefix(text, "<>"):
		return tokenNotEqual, 2
	case strings.HasPrefix(text, "<="):
		return tokenLessOrEqual, 2
	case strings.HasPrefix(text, ">="):
		return tokenGreaterOrEqual, 2
	case strings.IndexByte("=<>()[],.+-", c) >= 0:
		return tokenKind(c), 1
	}
	_, size := utf8.DecodeRuneInString(text)
	return tokenUnknown, size
}

func wordKind(word string) tokenKind {
	for _, k := range keywords {
		if strings.EqualFold(word, k.word) {
			return k.kind
		}
	}
	return tokenWord
}

func wordSize(text string) int {
	size := 0
	for size < len(text) && (isLetter(text[size]) || isDigit(text[size]) || text[size] == '_') {
		size++
	}
	return size
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
