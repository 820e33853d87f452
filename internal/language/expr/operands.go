package expr

// The faults of nodes that cannot be represented, for readers of compiled expressions.

// CheckOperands returns the fault of a function with the wrong number of operands.
func CheckOperands(kind Kind, op Op, operands int) error {
	b := binder{kind: kind}
	return b.arity(op, operands)
}

// RequiresPath is the fault of an operand that must be a document path and is not.
func RequiresPath(kind Kind, op Op) error {
	b := binder{kind: kind}
	return b.requiresPath(op)
}
