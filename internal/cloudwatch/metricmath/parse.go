package metricmath

import (
	"strconv"
	"strings"
)

// Bounds of an expression.
const (
	maxLength = 2048 // bytes
	maxDepth  = 100  // of nesting
)

// Expression is an expression that was parsed.
type Expression struct{ root *node }

// kind is what a node of an expression is.
type kind byte

const (
	number     kind = iota
	text            // in quotes
	identifier      // of another query, which begins with a lower-case letter
	keyword         // such as REPEAT
	call            // of a function or an operator, whose name is text
)

// node is a part of an expression.
type node struct {
	kind   kind
	text   string
	number float64
	args   []*node
	of     func(*Request, []*node) (Value, error) // of a call of a function; an operator does not have it
}

// Parse parses an expression. It reports an *Error if that cannot be.
func Parse(expression string) (*Expression, error) {
	if len(expression) > maxLength {
		return nil, faulty("it has %d characters, more than %d", len(expression), maxLength)
	}
	if word, _, _ := strings.Cut(strings.TrimSpace(expression), " "); strings.EqualFold(word, "SELECT") {
		return nil, faulty("queries of Metrics Insights (SELECT) are not supported")
	}
	tokens, err := split(expression)
	if err != nil {
		return nil, err
	}
	p := parser{tokens: tokens}
	root, err := p.binary(0, 0)
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != endOfText {
		return nil, faulty("%s is not expected", t)
	}
	return &Expression{root}, nil
}

// Identifiers returns the ids of other queries that an expression refers to.
func (x *Expression) Identifiers() []string { return x.root.identifiers(nil) }

func (n *node) identifiers(all []string) []string {
	if n.kind == identifier {
		return append(all, n.text)
	}
	for _, a := range n.args {
		all = a.identifiers(all)
	}
	return all
}

// tokenKind is what a token is.
type tokenKind byte

const (
	endOfText tokenKind = iota
	numberToken
	textToken
	nameToken
	operatorToken
)

type token struct {
	kind   tokenKind
	text   string
	number float64
}

func (t token) String() string {
	if t.kind == endOfText {
		return "the end"
	}
	return strconv.Quote(t.text)
}

// operators are those that consist of more than letters, the longest first.
var operators = []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "^", "(", ")", ","}

// split returns the tokens of an expression.
func split(s string) (all []token, err error) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		var t token
		var n int
		switch c := s[0]; {
		case isDigit(c) || c == '.':
			n = numberLength(s)
			value, err := strconv.ParseFloat(s[:n], 64)
			if err != nil {
				return nil, faulty("%q is no number", s[:n])
			}
			t = token{numberToken, s[:n], value}
		case c == '\'' || c == '"':
			var content string
			if content, n = quoted(s); n == 0 {
				return nil, faulty("a quote is not closed")
			}
			t = token{kind: textToken, text: content}
		case isLetter(c):
			for n < len(s) && (isLetter(s[n]) || isDigit(s[n]) || s[n] == '_') {
				n++
			}
			t = token{kind: nameToken, text: s[:n]}
			if t.text == "AND" || t.text == "OR" {
				t.kind = operatorToken
			}
		default:
			for _, o := range operators {
				if strings.HasPrefix(s, o) {
					t, n = token{kind: operatorToken, text: o}, len(o)
					break
				}
			}
			if n == 0 {
				return nil, faulty("the character %q is not expected", []rune(s)[0])
			}
		}
		all, s = append(all, t), s[n:]
	}
	return all, nil
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// numberLength returns how many bytes the number has that s begins with.
func numberLength(s string) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || s[n] == '.') {
		n++
	}
	if n < len(s) && s[n]|0x20 == 'e' {
		e := n + 1
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if e < len(s) && isDigit(s[e]) {
			for n = e; n < len(s) && isDigit(s[n]); n++ {
			}
		}
	}
	return n
}

// quoted returns the text in the quotes that s begins with, and its length with them; 0 if
// it has no end. A backslash stands before a quote of the same kind.
func quoted(s string) (content string, n int) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == s[0]:
			i++
			b.WriteByte(s[i])
		case s[i] == s[0]:
			return b.String(), i + 1
		default:
			b.WriteByte(s[i])
		}
	}
	return "", 0
}

// levels are the operators with two operands, those that bind least first.
var levels = [][]string{{"OR", "||"}, {"AND", "&&"}, {"==", "!=", "<", ">", "<=", ">="}, {"+", "-"}, {"*", "/"}}

// parser parses tokens.
type parser struct {
	tokens []token
	at     int
}

func (p *parser) peek() token {
	if p.at == len(p.tokens) {
		return token{}
	}
	return p.tokens[p.at]
}

// operator reports whether the next token is one of some operators, and skips it then.
func (p *parser) operator(of ...string) (name string, ok bool) {
	t := p.peek()
	for _, o := range of {
		if t.kind == operatorToken && t.text == o {
			p.at++
			return o, true
		}
	}
	return "", false
}

// binary parses operands that are joined by operators of a level or one that binds more.
func (p *parser) binary(level, depth int) (*node, error) {
	if level == len(levels) {
		return p.unary(depth)
	}
	left, err := p.binary(level+1, depth)
	if err != nil {
		return nil, err
	}
	for {
		name, ok := p.operator(levels[level]...)
		if !ok {
			return left, nil
		}
		right, err := p.binary(level+1, depth)
		if err != nil {
			return nil, err
		}
		left = &node{kind: call, text: name, args: []*node{left, right}}
	}
}

// unary parses an operand with its sign and its power.
func (p *parser) unary(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, faulty("it is nested too deeply")
	}
	if _, ok := p.operator("-"); ok {
		of, err := p.unary(depth + 1)
		if err != nil {
			return nil, err
		}
		return &node{kind: call, text: "negate", args: []*node{of}}, nil
	}
	base, err := p.operand(depth + 1)
	if err != nil {
		return nil, err
	}
	if _, ok := p.operator("^"); !ok {
		return base, nil
	}
	power, err := p.unary(depth + 1)
	if err != nil {
		return nil, err
	}
	return &node{kind: call, text: "^", args: []*node{base, power}}, nil
}

// operand parses a number, a text, a name, a call, or an expression in parentheses.
func (p *parser) operand(depth int) (*node, error) {
	t := p.peek()
	p.at = min(p.at+1, len(p.tokens))
	switch {
	case t.kind == numberToken:
		return &node{kind: number, number: t.number}, nil
	case t.kind == textToken:
		return &node{kind: text, text: t.text}, nil
	case t.kind == operatorToken && t.text == "(":
		n, err := p.binary(0, depth)
		if err != nil {
			return nil, err
		}
		return n, p.closed()
	case t.kind != nameToken:
		return nil, faulty("%s is not expected", t)
	}
	if _, ok := p.operator("("); ok {
		return p.call(t.text, depth)
	}
	if t.text[0] >= 'a' {
		return &node{kind: identifier, text: t.text}, nil
	}
	return &node{kind: keyword, text: t.text}, nil
}

func (p *parser) closed() error {
	if _, ok := p.operator(")"); !ok {
		return faulty("a closing parenthesis is expected, not %s", p.peek())
	}
	return nil
}

// call parses the arguments of a function.
func (p *parser) call(name string, depth int) (*node, error) {
	f, ok := functions[name]
	if !ok {
		return nil, faulty("the function %s is not supported. These are: %s", name, functionNames())
	}
	n := &node{kind: call, text: name, of: f.of}
	if _, ok := p.operator(")"); !ok {
		for {
			a, err := p.binary(0, depth)
			if err != nil {
				return nil, err
			}
			n.args = append(n.args, a)
			if _, ok := p.operator(","); !ok {
				break
			}
		}
		if err := p.closed(); err != nil {
			return nil, err
		}
	}
	if len(n.args) < f.min || len(n.args) > f.max {
		return nil, faulty("the function %s does not have %d arguments", name, len(n.args))
	}
	return n, nil
}
