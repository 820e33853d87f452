package partiql

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// tokenKind is the kind of a token. A one-byte symbol is its own kind.
type tokenKind byte

const (
	tokenEnd      tokenKind = iota
	tokenName               // a bare word
	tokenQuoted             // "a name"
	tokenString             // 'a text'
	tokenNumber             // digits, a point, an exponent
	tokenBool               // TRUE or FALSE
	tokenIon                // `Ion`, which DynamoDB does not accept
	tokenKeyword            // a reserved word
	tokenOperator           // a sign or a word between operands
	tokenOpenSet            // <<
	tokenCloseSet           // >>
)

// token is a piece of a statement's text.
type token struct {
	kind tokenKind
	// text is the token's value: a keyword or an operator in lower case, a
	// name or a string without its quotes.
	text string

	line, column, length int // in characters, from 1
}

// position is the position of the token, as messages show it.
func (t token) position() string { return fmt.Sprintf(" at %d:%d:%d", t.line, t.column, t.length) }

// word is the token's text if it is a keyword or an operator.
func (t token) word() string {
	if t.kind == tokenKeyword || t.kind == tokenOperator {
		return t.text
	}
	return ""
}

func (t token) isName() bool { return t.kind == tokenName || t.kind == tokenQuoted }

// pairs are two words that make one token.
var pairs = map[[2]string]token{
	{"not", "in"}:       {kind: tokenOperator, text: "not_in"},
	{"is", "not"}:       {kind: tokenOperator, text: "is_not"},
	{"not", "between"}:  {kind: tokenOperator, text: "not_between"},
	{"not", "like"}:     {kind: tokenOperator, text: "not_like"},
	{"insert", "into"}:  {kind: tokenKeyword, text: "insert_into"},
	{"on", "conflict"}:  {kind: tokenKeyword, text: "on_conflict"},
	{"do", "nothing"}:   {kind: tokenKeyword, text: "do_nothing"},
	{"modified", "old"}: {kind: tokenKeyword, text: "modified_old"},
	{"modified", "new"}: {kind: tokenKeyword, text: "modified_new"},
	{"all", "old"}:      {kind: tokenKeyword, text: "all_old"},
	{"all", "new"}:      {kind: tokenKeyword, text: "all_new"},
}

// tokenize splits a text into tokens, the last of which is tokenEnd. It is
// not ok if a character does not belong to any token.
func tokenize(text string) (tokens []token, ok bool) {
	line, lineStart, counted := 1, 0, 0
	column := func(at int) int {
		for {
			i := strings.IndexByte(text[counted:at], '\n')
			if i < 0 {
				break
			}
			line++
			counted += i + 1
			lineStart = counted
		}
		counted = at
		return utf8.RuneCountInString(text[lineStart:at]) + 1
	}
	for at := 0; ; {
		size, ok := blank(text[at:])
		if !ok {
			return nil, false
		}
		at += size
		if at == len(text) {
			t := token{kind: tokenEnd, column: column(at)}
			t.line = line
			return append(tokens, t), true
		}
		t, size := next(text[at:])
		if size == 0 {
			return nil, false
		}
		t.column = column(at)
		t.line, t.length = line, utf8.RuneCountInString(text[at:at+size])
		at += size
		if n := len(tokens); n > 0 {
			if both, ok := pairs[[2]string{tokens[n-1].word(), t.word()}]; ok {
				// The position of the pair is that of its first word.
				tokens[n-1].kind, tokens[n-1].text = both.kind, both.text
				continue
			}
		}
		tokens = append(tokens, t)
	}
}

// blank returns the size of the white space and the comments that text begins
// with. It is not ok if a comment has no end.
func blank(text string) (size int, ok bool) {
	for size < len(text) {
		rest := text[size:]
		switch {
		case strings.IndexByte(" \t\r\n\v\f", rest[0]) >= 0:
			size++
		case strings.HasPrefix(rest, "--"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				return len(text), true
			}
			size += end
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return 0, false
			}
			size += 2 + end + 2
		default:
			return size, true
		}
	}
	return size, true
}

// next returns the token that text begins with, and its size, 0 if there is
// no token.
func next(text string) (token, int) {
	c := text[0]
	switch {
	case isLetter(c):
		size := 1
		for size < len(text) && (isLetter(text[size]) || isDigit(text[size])) {
			size++
		}
		return wordToken(text[:size]), size
	case isDigit(c) || c == '.' && len(text) > 1 && isDigit(text[1]):
		size := numberSize(text)
		return token{kind: tokenNumber, text: text[:size]}, size
	case c == '\'':
		return quoted(tokenString, text)
	case c == '"':
		return quoted(tokenQuoted, text)
	case c == '`':
		if end := strings.IndexByte(text[1:], '`'); end >= 0 {
			return token{kind: tokenIon, text: text[1 : end+1]}, end + 2
		}
		return token{}, 0
	case strings.HasPrefix(text, "<<"):
		return token{kind: tokenOpenSet}, 2
	case strings.HasPrefix(text, ">>"):
		return token{kind: tokenCloseSet}, 2
	}
	for _, op := range []string{"<=", ">=", "<>", "!=", "||", "=", "<", ">", "+", "-", "/", "%", "@"} {
		if strings.HasPrefix(text, op) {
			if op == "!=" {
				return token{kind: tokenOperator, text: "<>"}, 2
			}
			return token{kind: tokenOperator, text: op}, len(op)
		}
	}
	switch c {
	case '*':
		return token{kind: '*', text: "*"}, 1
	case '(', ')', '[', ']', '{', '}', ':', ',', ';', '?', '.':
		return token{kind: tokenKind(c), text: text[:1]}, 1
	}
	return token{}, 0
}

func wordToken(text string) token {
	word := strings.ToLower(text)
	switch {
	case word == "true" || word == "false":
		return token{kind: tokenBool, text: word}
	case slices.Contains(wordOperators, word):
		return token{kind: tokenOperator, text: word}
	}
	if _, ok := keywords[word]; ok {
		return token{kind: tokenKeyword, text: word}
	}
	return token{kind: tokenName, text: text}
}

var wordOperators = []string{"and", "or", "not", "is", "in", "between", "like", "union", "except", "intersect"}

// numberSize returns the size of the number that text begins with, 0 if its
// exponent has no digits.
func numberSize(text string) int {
	size := digits(text)
	if size < len(text) && text[size] == '.' {
		size += 1 + digits(text[size+1:])
	}
	if size < len(text) && text[size]|0x20 == 'e' {
		size++
		if size < len(text) && (text[size] == '+' || text[size] == '-') {
			size++
		}
		n := digits(text[size:])
		if n == 0 {
			return 0
		}
		size += n
	}
	return size
}

func digits(text string) int {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

// quoted reads a text in quotes, in which two quotes stand for one.
func quoted(kind tokenKind, text string) (token, int) {
	quote := text[:1]
	for size := 1; ; {
		end := strings.Index(text[size:], quote)
		if end < 0 {
			return token{}, 0
		}
		size += end + 1
		if !strings.HasPrefix(text[size:], quote) {
			return token{kind: kind, text: strings.ReplaceAll(text[1:size-1], quote+quote, quote)}, size
		}
		size++
	}
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c == '$' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
