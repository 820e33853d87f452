package expr

import (
	"cmp"

	"github.com/stator-db/stator/internal/data/item"
)

// binder replaces the placeholders in the nodes of one expression by a
// request's names and values. The steps of all paths share one slice,
// allocated once at its full size.
type binder struct {
	kind  Kind
	b     *Bindings
	steps []item.Step
}

// newBinder returns a binder for an expression whose paths have this many
// steps.
func newBinder(kind Kind, b *Bindings, used *refs, steps int) binder {
	binding := binder{kind: kind, b: b}
	if len(used.names.inOrder) > 0 {
		binding.steps = make([]item.Step, 0, steps)
	}
	return binding
}

// path resolves the #names of a path. A path without any is used as parsed.
func (b *binder) path(p item.Path) (item.Path, error) {
	if !hasNames(p) {
		return p, nil
	}
	start := len(b.steps)
	for _, s := range p {
		if isPlaceholder(s) {
			name, ok := b.b.Names[s.Name]
			if !ok {
				return nil, b.undefinedName(s.Name)
			}
			s.Name = name
		}
		b.steps = append(b.steps, s)
	}
	return item.Path(b.steps[start:len(b.steps):len(b.steps)]), nil
}

// targets resolves the paths that an update changes or that a projection
// shows, from the last to the first, and checks that they are apart.
func (b *binder) targets(paths []item.Path) error {
	for i := len(paths) - 1; i >= 0; i-- {
		p, err := b.path(paths[i])
		if err != nil {
			return cmp.Or(checkApart(b.kind, paths[i+1:]), err)
		}
		paths[i] = p
	}
	return checkApart(b.kind, paths)
}

func (b *binder) value(ref string) (item.Value, error) {
	v, ok := b.b.value(ref)
	if !ok {
		return nil, b.undefinedValue(ref)
	}
	return v, nil
}

func (b *binder) undefinedName(ref string) error {
	return b.kind.invalid("An expression attribute name used in the document path is not defined; attribute name: %s", ref)
}

func (b *binder) undefinedValue(ref string) error {
	return b.kind.invalid("An expression attribute value used in expression is not defined; attribute value: %s", ref)
}

func hasNames(p item.Path) bool {
	for _, s := range p {
		if isPlaceholder(s) {
			return true
		}
	}
	return false
}

// isPlaceholder reports whether a step is a #name: a name in the text itself
// never begins with that sign.
func isPlaceholder(s item.Step) bool { return !s.IsIndex && s.Name[0] == '#' }

// operandCount is the fault of a function with the wrong number of operands.
func (b *binder) operandCount(n *node) error {
	if f, ok := functions[n.text]; ok && len(n.args) != f.operands {
		return b.kind.invalid("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", n.op, len(n.args))
	}
	if given := len(n.args) - 1; n.op == In && given > maxInList {
		return b.kind.invalid("The IN operator is provided with too many operands; number of operands: %d", given)
	}
	return nil
}

// operandType is the fault of an operand whose type the operator cannot use.
func (b *binder) operandType(op Op, t string) error {
	return b.kind.invalid("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", op, t)
}

// requiresPath is the fault of an operand that must be a path and is not.
func (b *binder) requiresPath(op Op) error {
	return b.kind.invalid("Operator or function requires a document path; operator or function: %s", op)
}

// notDistinct is the fault of a later operand that is the same path as the
// first.
func (b *binder) notDistinct(op Op, first item.Path) error {
	return b.kind.invalid("The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %s", op, first)
}
