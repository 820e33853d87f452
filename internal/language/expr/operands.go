package expr

import "github.com/stator-db/stator/internal/data/item"

// The faults of nodes that cannot be represented, for readers of compiled expressions.

// CheckOperands returns the fault of a function with the wrong number of operands.
func CheckOperands(kind Kind, op Op, operands int) error {
	b := binder{kind: kind}
	return b.arity(op, operands)
}

// SizeOfNumber is the fault of a size of a size, which is a number.
func SizeOfNumber(kind Kind) error {
	b := binder{kind: kind}
	return b.operandType(opSize, item.N.String())
}
