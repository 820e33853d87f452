package partiql

import (
	"math"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

func itoa(n int) string { return strconv.Itoa(n) }

var errEmptyStep = apierror.Validation("Path component cannot be an empty string")

func unexpectedStep(n *node) error {
	switch n.kind {
	case nodeAll:
		return apierror.Validation("Unpivot path component like a.*.b are not supported%s", n.position())
	case nodeElements:
		return apierror.Validation("Wildcard path component like a[*].b are not supported%s", n.position())
	}
	return apierror.Validation("Unexpected path component%s", n.position())
}

// path returns the document path that a node represents.
func path(n *node) (item.Path, error) {
	steps := []*node{n}
	if n.kind == nodePath {
		steps = n.args
	}
	var p item.Path
	for i, s := range steps {
		if i == 0 && len(steps) > 1 && (s.kind == nodeList || s.kind == nodeBag) {
			return nil, apierror.Validation("A path cannot start with a list index%s", s.position())
		}
		step, err := pathStep(s, i == 0)
		if err != nil {
			return nil, err
		}
		if !step.IsIndex && step.Name == "" {
			return nil, errEmptyStep
		}
		p = append(p, step)
	}
	return p, expr.CheckPath(p)
}

func pathStep(n *node, first bool) (item.Step, error) {
	switch {
	case first && n.kind == nodeName, n.kind == nodeStep:
		return item.Step{Name: n.text}, nil
	case n.kind != nodeIndex:
		return item.Step{}, unexpectedStep(n)
	}
	in := n.args[0]
	switch {
	case in.kind == nodeName:
		return item.Step{Name: in.text}, nil
	case in.kind != nodeValue || in.at.kind != tokenString && in.at.kind != tokenNumber:
		return item.Step{}, unexpectedStep(in)
	case in.at.kind == tokenString:
		return item.Step{Name: in.at.text}, nil
	}
	if digits(in.at.text) < len(in.at.text) {
		return item.Step{}, unexpectedStep(in)
	}
	index, err := strconv.ParseInt(in.text, 10, 64)
	if err != nil || index < 0 || index > math.MaxInt32 {
		return item.Step{}, apierror.Validation("List index is not within the allowable range; index: [%s]%s", in.text, in.position())
	}
	return item.Step{Index: int(index), IsIndex: true}, nil
}

// parameter is the value of a ?.
func (b *binder) parameter(n *node) (item.Value, error) {
	if n.number >= len(b.parameters) {
		return nil, tooFewParameters()
	}
	return b.parameters[n.number], nil
}

// item makes the item of an INSERT. Each of its attributes may be a
// parameter, but nothing within them (like DynamoDB Local).
func (b *binder) item(n *node) (item.Item, error) {
	var built item.Builder
	seen := make(map[string]bool)
	for i := 0; i < len(n.args); i += 2 {
		name, err := key(n.args[i], "root")
		if err != nil {
			return nil, err
		}
		if name == "" {
			return nil, errEmptyStep
		}
		if seen[name] {
			return nil, apierror.Validation("Duplicate keys in tuple. Key: %s under root%s", name, n.args[i].position())
		}
		seen[name] = true
		var v item.Value
		if of := n.args[i+1]; of.kind == nodeParameter {
			v, err = b.parameter(of)
		} else {
			v, err = constant(of, "root", 0)
		}
		if err != nil {
			return nil, err
		}
		built.Add([]byte(name), v)
	}
	return built.Item(), nil
}

// key is the name of an entry of a {…}.
func key(n *node, under string) (string, error) {
	if n.kind == nodeValue && n.at.kind == tokenString {
		return n.at.text, nil
	}
	what := kindNames[n.kind]
	if n.kind == nodeValue {
		what = map[tokenKind]string{tokenNumber: "INT", tokenBool: "BOOL", tokenKeyword: "NULL"}[n.at.kind]
		if n.at.kind == tokenNumber && digits(n.at.text) < len(n.at.text) {
			what = "DECIMAL"
		}
	}
	return "", apierror.Validation("Tuple keys must be of type String. Actual type: %s under %s%s", what, under, n.position())
}

// isNegativeZero reports whether a literal is a zero with a minus sign and a
// point or an exponent.
func (n *node) isNegativeZero() bool {
	if n.at.kind != tokenNumber || !strings.HasPrefix(n.text, "-") || digits(n.at.text) == len(n.at.text) {
		return false
	}
	significand, _, _ := strings.Cut(strings.ToLower(n.at.text), "e")
	return strings.Trim(significand, "0.") == ""
}

// constant returns the value of a literal. under is the path of keys and
// indexes that leads to it, for messages.
func constant(n *node, under string, depth int) (item.Value, error) {
	if depth >= item.MaxDepth && (n.kind == nodeList || n.kind == nodeStruct) {
		return nil, apierror.Validation("Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit")
	}
	switch n.kind {
	case nodeValue:
		if n.isNegativeZero() {
			return nil, apierror.Validation("Negative zero decimal is not supported under key %s%s", under, n.position())
		}
		return n.value, n.fault
	case nodeIon:
		return nil, apierror.Validation("Ion Literals are not supported: SYMBOL under key %s%s", under, n.position())
	case nodeList:
		var elements []item.Value
		for i, e := range n.args {
			v, err := constant(e, under+"."+itoa(i), depth+1)
			if err != nil {
				return nil, err
			}
			elements = append(elements, v)
		}
		return item.List(elements...), nil
	case nodeBag:
		return set(n)
	case nodeStruct:
		return structure(n, under, depth)
	}
	what := kindNames[n.kind]
	switch {
	case n.kind == nodeMissing:
		what = "MISSING"
	case under == "root" && (n.kind == nodePath || n.kind == nodeSelect):
		what = strings.ToUpper(what)
	case under == "root":
		what = n.at.text
	}
	return nil, unsupportedValue(n, what, under)
}

func structure(n *node, under string, depth int) (item.Value, error) {
	var built item.Builder
	seen := make(map[string]bool)
	for i := 0; i < len(n.args); i += 2 {
		name, err := key(n.args[i], under)
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, apierror.Validation("Duplicate keys in tuple. Key: %s under %s%s", name, under, n.position())
		}
		seen[name] = true
		v, err := constant(n.args[i+1], under+"."+name, depth+1)
		if err != nil {
			return nil, err
		}
		built.Add([]byte(name), v)
	}
	return item.Map(built.Item()), nil
}

// set makes a set from a bag, whose members are all strings or all numbers.
func set(n *node) (item.Value, error) {
	if len(n.args) == 0 {
		return nil, apierror.Validation("Empty bags are not supported%s", n.position())
	}
	t := item.NS
	if n.args[0].at.kind == tokenString {
		t = item.SS
	}
	var members []item.Value
	for i, m := range n.args {
		v, err := bagMember(t, m, i == 0)
		if err != nil {
			return nil, err
		}
		members = append(members, v)
	}
	v := item.Set(t, members...)
	if v.Len() < len(members) {
		return nil, apierror.Validation("Input collection contains duplicates")
	}
	return v, nil
}

// bagMember returns the value of a bag's member. The first member determines the
// type; the messages for later members are those of DynamoDB Local.
func bagMember(t item.Type, m *node, first bool) (item.Value, error) {
	position := m.position()
	if !first {
		switch m.kind {
		case nodeValue, nodeIon, nodeList, nodeBag, nodeStruct:
		default:
			return nil, unsupportedValue(m, kindNames[m.kind], "root")
		}
		if t == item.NS {
			position = ""
		}
	}
	switch {
	case m.fault != nil:
		return nil, m.fault
	case m.kind != nodeValue || m.value.Type() != t.Member():
		return nil, apierror.Validation("Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags%s", position)
	}
	return m.value, nil
}

// unsupportedValue returns the fault of an expression in place of a value.
func unsupportedValue(n *node, what, under string) error {
	return apierror.Validation("Unsupported data type: %s under key %s%s", what, under, n.position())
}
