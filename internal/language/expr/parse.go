package expr

import (
	"math"
	"strconv"

	"github.com/stator-db/stator/internal/data/item"
)

// parser reads the tokens of one text from left to right without
// backtracking, so that it stops at the first token that no valid text could
// have there. Its recursion is as deep as the text's parentheses, of which
// MaxSize allows 4096.
type parser struct {
	kind   Kind
	text   string
	tokens []token
	at     int
	refs   refs

	largeIndex string // the first list index over maxIndex, as it was written
}

// bailout carries a fault out of the parser's functions.
type bailout struct{ err error }

// parse runs one of the grammars over a text.
func parse(kind Kind, text string, grammar func(*parser)) (refs refs, err error) {
	if len(text) > MaxSize {
		return refs, kind.tooLarge(len(text))
	}
	if text == "" {
		return refs, kind.empty()
	}
	p := &parser{kind: kind, text: text, tokens: tokenize(text)}
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(bailout)
			if !ok {
				panic(r)
			}
			err = s.err
		}
	}()
	grammar(p)
	return p.refs, nil
}

func (p *parser) peek() tokenKind { return p.tokens[p.at].kind }

// next consumes the next token and returns its text.
func (p *parser) next() string {
	t := p.tokens[p.at]
	if t.kind == tokenEnd {
		p.fail()
	}
	p.at++
	return p.text[t.start:t.end]
}

// take consumes the next token if it is of this kind.
func (p *parser) take(kind tokenKind) bool {
	if p.peek() != kind {
		return false
	}
	p.at++
	return true
}

func (p *parser) expect(kind tokenKind) string {
	if p.peek() != kind {
		p.fail()
	}
	if kind == tokenEnd {
		return ""
	}
	return p.next()
}

func (p *parser) stop(format string, args ...any) { panic(bailout{p.kind.invalid(format, args...)}) }

// fail reports the next token, and the text from the token before it, or from
// the beginning, to the token after it, or to the end. Blanks at these ends are
// part of the text (conformance/expr/blanks.txt).
func (p *parser) fail() {
	t := p.tokens[p.at]
	shown, from, to := p.text[t.start:t.end], 0, len(p.text)
	if p.at > 0 {
		from = p.tokens[p.at-1].start
	}
	if t.kind == tokenEnd {
		shown = "<EOF>"
	} else {
		to = p.tokens[p.at+1].end
	}
	p.stop(`Syntax error; token: "%s", near: "%s"`, shown, p.text[from:to])
}

// condition parses a whole condition.
func (p *parser) condition() *node {
	n := p.or(false)
	p.expect(tokenEnd)
	return n
}

// or parses conditions joined by OR. With alone, a single operand is allowed
// instead: (a) is an operand in parentheses if a comparison follows it, which
// is known only after the closing parenthesis.
func (p *parser) or(alone bool) *node {
	left := p.and(alone)
	if p.peek() != tokenOr {
		return left
	}
	n := &node{op: Or, args: []*node{left}}
	for p.take(tokenOr) {
		n.args = append(n.args, p.and(false))
	}
	return n
}

func (p *parser) and(alone bool) *node {
	left := p.not(alone)
	if p.peek() != tokenAnd {
		return left
	}
	n := &node{op: And, args: []*node{left}}
	for p.take(tokenAnd) {
		n.args = append(n.args, p.not(false))
	}
	return n
}

func (p *parser) not(alone bool) *node {
	if p.take(tokenNot) {
		return &node{op: Not, args: []*node{p.not(false)}}
	}
	var left *node
	if p.peek() == '(' {
		left = p.group(func() *node { return p.or(true) })
	} else {
		left = p.operand()
	}
	switch left.op {
	case opPath, opValue, opCall:
		return p.comparison(left, alone)
	}
	return left
}

// comparison parses what follows a condition's first operand.
func (p *parser) comparison(left *node, alone bool) *node {
	switch p.peek() {
	case tokenBetween:
		p.at++
		n := &node{op: Between, args: []*node{left, p.operand(), nil}}
		p.expect(tokenAnd)
		n.args[2] = p.operand()
		return n
	case tokenIn:
		p.at++
		return &node{op: In, args: append([]*node{left}, p.operands()...)}
	}
	if op, ok := comparators[p.peek()]; ok {
		p.at++
		return &node{op: op, args: []*node{left, p.operand()}}
	}
	if left.op == opCall || alone && p.peek() == ')' {
		return left
	}
	p.fail()
	return nil
}

var comparators = map[tokenKind]Op{
	'=': Equal, tokenNotEqual: NotEqual,
	'<': Less, tokenLessOrEqual: LessOrEqual, '>': Greater, tokenGreaterOrEqual: GreaterOrEqual,
}

// group parses something in parentheses. Two pairs around the same thing are
// a fault, which is reported before any later syntax error.
func (p *parser) group(inner func() *node) *node {
	p.expect('(')
	n := inner()
	p.expect(')')
	if n.parens {
		p.stop("The expression has redundant parentheses;")
	}
	n.parens = true
	return n
}

// operand parses a path, a :value, a function, or one of these in parentheses.
func (p *parser) operand() *node {
	switch p.peek() {
	case '(':
		return p.group(p.operand)
	case tokenValue:
		name := p.next()
		p.refs.values.add(name)
		return &node{op: opValue, text: name}
	case tokenWord:
		if p.tokens[p.at+1].kind == '(' {
			name := p.next()
			return &node{op: opCall, text: name, args: p.operands()}
		}
	}
	return p.path()
}

// operands parses a list of operands in parentheses.
func (p *parser) operands() []*node {
	p.expect('(')
	list := []*node{p.operand()}
	for p.take(',') {
		list = append(list, p.operand())
	}
	p.expect(')')
	return list
}

// path parses a document path.
func (p *parser) path() *node {
	path := item.Path{{Name: p.name()}}
	for {
		switch {
		case p.take('.'):
			path = append(path, item.Step{Name: p.name()})
		case p.take('['):
			path = append(path, item.Step{Index: p.index(), IsIndex: true})
			p.expect(']')
		default:
			return &node{op: opPath, path: path}
		}
	}
}

// name parses one name of a path: a word, or a #name.
func (p *parser) name() string {
	switch p.peek() {
	case tokenName:
		name := p.next()
		p.refs.names.add(name)
		return name
	case tokenWord:
		return p.next()
	}
	p.fail()
	return ""
}

// index parses a list index. One that is too large is recorded, and reported
// by the checker after all syntax errors.
func (p *parser) index() int {
	digits := p.expect(tokenInteger)
	n, err := strconv.Atoi(digits)
	if err != nil {
		n = math.MaxInt
	}
	if n > maxIndex && p.largeIndex == "" {
		p.largeIndex = digits
	}
	return n
}

// update parses a whole update.
func (p *parser) update() []section {
	var sections []section
	for {
		s := section{verb: verbs[p.peek()]}
		if s.verb == 0 {
			p.fail()
		}
		p.at++
		for {
			s.actions = append(s.actions, p.action(s.verb))
			if !p.take(',') {
				break
			}
		}
		sections = append(sections, s)
		if p.take(tokenEnd) {
			return sections
		}
	}
}

var verbs = map[tokenKind]Verb{tokenSet: Set, tokenRemove: Remove, tokenAdd: Add, tokenDelete: Delete}

func (p *parser) action(verb Verb) parsedAction {
	a := parsedAction{verb: verb, path: p.path()}
	switch verb {
	case Set:
		p.expect('=')
		a.value = p.assigned(false)
	case Add, Delete:
		name := p.expect(tokenValue)
		p.refs.values.add(name)
		a.value = &node{op: opValue, text: name}
	}
	return a
}

// assigned parses the right side of SET's equals sign: an operand, or two
// with plus or minus between them, which may be in parentheses. With alone it
// parses the inside of parentheses, which may turn out to be a single
// operand.
func (p *parser) assigned(alone bool) *node {
	var left *node
	if p.peek() == '(' {
		left = p.group(func() *node { return p.assigned(true) })
		if left.op == Plus || left.op == Minus {
			return left
		}
	} else {
		left = p.operand()
	}
	switch {
	case p.take('+'):
		return &node{op: Plus, args: []*node{left, p.operand()}}
	case p.take('-'):
		return &node{op: Minus, args: []*node{left, p.operand()}}
	case alone && p.peek() != ')':
		p.fail()
	}
	return left
}

// projection parses a whole list of paths.
func (p *parser) projection() []*node {
	paths := []*node{p.path()}
	for p.take(',') {
		paths = append(paths, p.path())
	}
	p.expect(tokenEnd)
	return paths
}
