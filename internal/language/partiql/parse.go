package partiql

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// maxDepth is how deep a statement's expressions may be nested. DynamoDB's
// own limit is not known; it accepts at most 300 operators.
const maxDepth = 500

// parser reads the tokens of one statement from left to right. Its faults and
// their messages follow the open-source grammar of PartiQL that DynamoDB
// builds on: expressions are parsed by the precedence of their operators, and
// a statement is one more kind of expression.
type parser struct {
	tokens     []token
	at         int
	depth      int
	parameters int
	wraps      int   // parentheses around the whole statement
	misplaced  *node // a change of data inside an expression
}

// bailout carries a fault out of the parser's functions.
type bailout struct{ err error }

// parse reads a whole text.
func parse(text string) (n *node, parameters int, err error) {
	tokens, ok := tokenize(text)
	if !ok {
		return nil, 0, malformed("")
	}
	p := &parser{tokens: tokens}
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(bailout)
			if !ok {
				panic(r)
			}
			err = s.err
		}
	}()
	n = p.expression(-1)
	p.end()
	return n, p.parameters, nil
}

// malformed returns a syntax error.
func malformed(detail string) error {
	return apierror.Validation("%s", "Statement wasn't well formed, can't be processed: "+detail)
}

func (p *parser) fail(detail string) { panic(bailout{malformed(detail)}) }

// refuse stops at a construct that is well formed but not supported.
func (p *parser) refuse(format string, args ...any) {
	panic(bailout{apierror.Validation(format, args...)})
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) lookahead() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

// next consumes the next token, except the end.
func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

func (p *parser) take(kind tokenKind) bool {
	if p.peek().kind != kind {
		return false
	}
	p.next()
	return true
}

func (p *parser) takeWord(word string) bool {
	if p.peek().word() != word {
		return false
	}
	p.next()
	return true
}

// tokenNames are the names in messages of tokens that can be missing.
var tokenNames = map[tokenKind]string{
	')': "RIGHT_PAREN", ']': "RIGHT_BRACKET", '}': "RIGHT_CURLY", tokenCloseSet: "RIGHT_DOUBLE_ANGLE_BRACKET", ':': "COLON",
}

func (p *parser) expect(kind tokenKind) {
	if !p.take(kind) {
		p.fail("Expected " + tokenNames[kind])
	}
}

// end expects the end of the statement, after at most one semicolon.
func (p *parser) end() {
	if p.take(';') && p.peek().kind != tokenEnd {
		p.fail("Unexpected token after semicolon. (Only one query is allowed.)")
	}
	if p.peek().kind != tokenEnd {
		p.fail("Unexpected token after expression")
	}
	if p.misplaced != nil {
		p.fail("Keyword " + p.misplaced.at.text + " only expected at the top level in the query")
	}
}

// precedences of the operators. Any other token ends an expression.
var precedences = map[string]int{
	"intersect": 5, "except": 5, "union": 5,
	"or": 10, "and": 20,
	"=": 40, "<>": 40, "is": 40, "is_not": 40, "in": 40, "not_in": 40,
	"<": 50, "<=": 50, ">": 50, ">=": 50, "between": 50, "not_between": 50, "like": 50, "not_like": 50,
	"+": 60, "-": 60, "||": 60,
	"*": 70, "/": 70, "%": 70,
}

const (
	precedenceSelect = 6 // of the expressions in the clauses of a SELECT
	precedenceNot    = 30
)

// expression parses operands and the operators between them that bind more
// tightly than precedence.
func (p *parser) expression(precedence int) *node {
	p.depth++
	if p.depth > maxDepth {
		p.fail("Expression is nested too deeply")
	}
	defer func() { p.depth-- }()
	left := p.unary()
	for {
		t := p.peek()
		op := t.word()
		if t.kind == '*' {
			op = "*"
		}
		binds, ok := precedences[op]
		if !ok || binds <= precedence {
			return left
		}
		if left.change != nil {
			p.misplaced = left
		}
		p.next()
		left = p.infix(left, t, op, binds)
	}
}

// infix parses the right side of an operator.
func (p *parser) infix(left *node, t token, op string, binds int) *node {
	switch op {
	case "is", "is_not":
		return &node{kind: nodeIs, at: t, text: op, args: []*node{left, p.typeName()}}
	case "in", "not_in":
		if p.peek().kind == '(' && !slices.Contains([]string{"select", "values"}, p.lookahead().word()) {
			p.next()
			list := &node{kind: nodeList, at: t, args: p.list(p.listed)}
			p.expect(')')
			return &node{kind: nodeIn, at: t, text: op, args: []*node{left, list}}
		}
		return &node{kind: nodeIn, at: t, text: op, args: []*node{left, p.right(binds)}}
	case "between", "not_between":
		low := p.right(binds)
		if !p.takeWord("and") {
			p.fail("Expected AND keyword")
		}
		if p.peek().kind == tokenEnd {
			p.fail("Expected expression after AND")
		}
		return &node{kind: nodeBetween, at: t, text: op, args: []*node{left, low, p.expression(binds)}}
	case "and", "or":
		right := p.right(binds)
		if left.kind == nodeBinary && left.text == op && !left.parens {
			left.args = append(left.args, right)
			return left
		}
		return &node{kind: nodeBinary, at: t, text: op, args: []*node{left, right}}
	}
	return &node{kind: nodeBinary, at: t, text: op, args: []*node{left, p.right(binds)}}
}

func (p *parser) right(binds int) *node {
	if p.peek().kind == tokenEnd {
		p.fail("Missing right-hand side expression of infix operator")
	}
	return p.expression(binds)
}

var typeNames = strings.Fields("missing null bool boolean smallint int integer float real decimal dec numeric timestamp date time " +
	"character char varchar string symbol clob blob struct tuple list sexp bag")

// typeAliases are types with two names.
var typeAliases = map[string]string{"varchar": "character_varying", "char": "character", "dec": "decimal", "int": "integer", "bool": "boolean"}

func (p *parser) typeName() *node {
	t := p.peek()
	if !slices.Contains(typeNames, t.word()) {
		p.fail("Expected type name")
	}
	p.next()
	name := t.text
	if full, ok := typeAliases[name]; ok {
		name = full
	}
	return &node{kind: nodeName, at: t, text: name}
}

// unary parses an operand with the signs and NOTs before it.
func (p *parser) unary() *node {
	t := p.peek()
	switch t.word() {
	case "+", "-":
		p.next()
		p.depth++
		if p.depth > maxDepth {
			p.fail("Expression is nested too deeply")
		}
		term := p.unary()
		p.depth--
		if term.kind != nodeValue || term.at.kind != tokenNumber {
			return &node{kind: nodeUnary, at: t, text: t.text, args: []*node{term}}
		}
		if t.text == "-" {
			term.text = negated(term.text)
			term.setNumber()
		}
		return term
	case "not":
		p.next()
		return &node{kind: nodeUnary, at: t, text: "not", args: []*node{p.expression(precedenceNot)}}
	}
	return p.path(p.term())
}

func negated(number string) string {
	if rest, ok := strings.CutPrefix(number, "-"); ok {
		return rest
	}
	return "-" + number
}

// setNumber sets the value of a number from its text.
func (n *node) setNumber() {
	n.value, n.fault = nil, nil
	if significantDigits(n.text) > item.MaxDigits {
		n.fault = apierror.Validation("DynamoDB only supports precision up to 38 digits")
		return
	}
	number, err := item.ParseNumber(n.text)
	if err != nil {
		n.fault = err
		return
	}
	n.value = item.Num(number)
}

func significantDigits(number string) int {
	mantissa, _, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	return len(strings.Trim(strings.Replace(mantissa, ".", "", 1), "0"))
}

// path parses the steps after a term.
func (p *parser) path(term *node) *node {
	whole := &node{kind: nodePath, at: term.at, args: []*node{term}}
	for {
		t := p.peek()
		switch t.kind {
		case '.':
			p.next()
			step := p.peek()
			switch {
			case step.isName():
				whole.args = append(whole.args, &node{kind: nodeStep, at: step, text: step.text})
			case step.kind == '*':
				whole.args = append(whole.args, &node{kind: nodeAll, at: step})
			default:
				p.fail("Invalid path dot component")
			}
			p.next()
		case '[':
			p.next()
			if star := p.peek(); p.take('*') {
				whole.args = append(whole.args, &node{kind: nodeElements, at: star})
			} else {
				whole.args = append(whole.args, &node{kind: nodeIndex, at: t, args: []*node{p.expression(-1)}})
			}
			p.expect(']')
		default:
			if len(whole.args) == 1 {
				return term
			}
			return whole
		}
	}
}

// simplePath parses the path of an assignment's target.
func (p *parser) simplePath() *node {
	t := p.peek()
	if !t.isName() {
		p.fail("Expected identifier for simple path")
	}
	p.next()
	path := p.path(&node{kind: nodeName, at: t, text: t.text})
	for _, step := range path.args {
		switch {
		case step.kind == nodeAll:
			p.fail("Invalid path dot component for simple path")
		case step.kind == nodeElements, step.kind == nodeIndex && !step.args[0].isAtom():
			p.fail("Invalid path component for simple path")
		}
	}
	return path
}

// isAtom reports whether an expression is a name or a literal.
func (n *node) isAtom() bool {
	switch n.kind {
	case nodeName, nodeValue, nodeMissing, nodeIon:
		return true
	}
	return n.kind == nodeUnary && n.args[0].kind == nodeValue
}

// list parses one or more of something, with commas between them.
func (p *parser) list(one func() *node) []*node {
	all := []*node{one()}
	for p.take(',') {
		all = append(all, one())
	}
	return all
}

func (p *parser) listed() *node { return p.expression(-1) }

// term parses an operand without signs and steps.
func (p *parser) term() *node {
	t := p.peek()
	switch t.kind {
	case tokenOperator:
		if t.text != "@" {
			p.fail("Unexpected operator")
		}
		p.next()
		if !p.peek().isName() {
			p.fail("Identifier must follow @-operator")
		}
		t = p.next()
		return &node{kind: nodeName, at: t, text: t.text}
	case tokenKeyword:
		return p.keyword(t)
	case tokenName, tokenQuoted:
		p.next()
		if p.peek().kind == '(' {
			return p.call(t)
		}
		return &node{kind: nodeName, at: t, text: t.text}
	case tokenString:
		p.next()
		return &node{kind: nodeValue, at: t, value: item.String(t.text)}
	case tokenNumber:
		p.next()
		n := &node{kind: nodeValue, at: t, text: t.text}
		n.setNumber()
		return n
	case tokenBool:
		p.next()
		return &node{kind: nodeValue, at: t, value: item.Bool(t.text == "true")}
	case tokenIon:
		p.next()
		return &node{kind: nodeIon, at: t}
	case '?':
		p.next()
		p.parameters++
		return &node{kind: nodeParameter, at: t, number: p.parameters - 1}
	}
	return p.group(t)
}

// group parses something between brackets.
func (p *parser) group(t token) *node {
	p.next()
	switch t.kind {
	case '(':
		if p.depth == p.wraps+1 { // (INSERT …) is a statement
			p.wraps++
			defer func() { p.wraps-- }()
		}
		args := p.list(p.listed)
		p.expect(')')
		if len(args) == 1 {
			args[0].parens = true
			return args[0]
		}
		return &node{kind: nodeList, at: t, args: args}
	case '[':
		return p.sequence(&node{kind: nodeList, at: t}, ']')
	case tokenOpenSet:
		return p.sequence(&node{kind: nodeBag, at: t}, tokenCloseSet)
	case '{':
		n := &node{kind: nodeStruct, at: t}
		if p.take('}') {
			return n
		}
		p.list(func() *node {
			key := p.listed()
			p.expect(':')
			n.args = append(n.args, key, p.listed())
			return nil
		})
		p.expect('}')
		return n
	}
	p.fail("Unexpected term")
	return nil
}

func (p *parser) sequence(n *node, end tokenKind) *node {
	if p.take(end) {
		return n
	}
	n.args = p.list(p.listed)
	p.expect(end)
	return n
}

// functionWords are keywords that are functions when a parenthesis follows.
var functionWords = strings.Fields("exists count avg max min sum substring char_length character_length octet_length bit_length " +
	"upper lower size nullif coalesce sexp list bag trim extract date_add date_diff")

// keyword parses a term that begins with a keyword.
func (p *parser) keyword(t token) *node {
	switch t.text {
	case "null":
		p.next()
		return &node{kind: nodeValue, at: t, value: item.Null()}
	case "missing":
		p.next()
		return &node{kind: nodeMissing, at: t, text: "MISSING"}
	case "as", "at", "by", "asc", "desc", "for":
		p.fail("Unexpected term")
	case "select":
		return p.selects()
	case "insert_into", "set", "remove", "update", "delete", "from":
		n := p.manipulates(t)
		if p.depth > p.wraps+1 {
			p.misplaced = n
		}
		return n
	case "case":
		p.refuse("Unsupported token in expression: CASE%s", t.position())
	case "cast":
		p.refuse("Unsupported token in expression: cast%s", p.lookahead().position())
	case "create", "drop":
		p.next()
		what := p.peek().word()
		if what != "table" && what != "index" {
			p.fail("Unexpected token following " + strings.ToUpper(t.text))
		}
		p.refuse("Unsupported operation: %s", map[string]string{
			"create table": "CreateTable", "create index": "CreateIndex", "drop table": "DropTable", "drop index": "DropIndex",
		}[t.text+" "+what])
	case "exec":
		p.refuse("Unsupported operation: Exec")
	case "pivot":
		p.refuse("Select projection doesn't support value or pivot keywords")
	case "values":
		p.refuse("Unsupported operation: Seq")
	case "date":
		if p.lookahead().kind == tokenString {
			p.refuse("Unsupported token in expression: UNKNOWN%s", p.lookahead().position())
		}
		p.fail("Expected date string followed by the keyword DATE, found SYMBOL")
	case "time":
		p.fail("Expected time string followed by the keyword TIME OR TIME WITH TIME ZONE, found SYMBOL")
	}
	if slices.Contains(functionWords, t.text) && p.lookahead().kind == '(' {
		p.next()
		return p.call(t)
	}
	p.fail("Unexpected keyword")
	return nil
}

// call parses the operands of a function, whose name was consumed.
func (p *parser) call(t token) *node {
	p.next()
	n := &node{kind: nodeCall, at: t, text: t.text}
	if t.text == "count" && p.take('*') {
		p.expect(')')
		return n
	}
	switch p.peek().kind {
	case '*':
		p.fail(t.text + "(*) is not allowed")
	case ')':
		p.next()
		return n
	}
	if w := p.peek().word(); w == "distinct" || w == "all" {
		p.next()
	}
	n.args = p.list(p.listed)
	p.expect(')')
	return n
}
