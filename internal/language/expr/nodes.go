package expr

import "github.com/stator-db/stator/internal/data/item"

// Op is an operator or a function of the language.
type Op byte

// The operators and functions of conditions, then those of updates.
const (
	And Op = iota + 1
	Or
	Not
	Equal
	NotEqual
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	Between
	In
	Exists
	NotExists
	HasType
	BeginsWith
	Contains

	Plus
	Minus
	IfNotExists
	ListAppend

	// These occur in parsed nodes only.
	opPath  // a document path
	opValue // :value
	opSize  // size(…), an Operand with Size when bound
	opCall  // a function whose name has not been looked up
)

var opNames = [...]string{
	And: "AND", Or: "OR", Not: "NOT",
	Equal: "=", NotEqual: "<>", Less: "<", LessOrEqual: "<=", Greater: ">", GreaterOrEqual: ">=",
	Between: "BETWEEN", In: "IN",
	Exists: "attribute_exists", NotExists: "attribute_not_exists", HasType: "attribute_type",
	BeginsWith: "begins_with", Contains: "contains",
	Plus: "+", Minus: "-", IfNotExists: "if_not_exists", ListAppend: "list_append",
	opPath: "path", opValue: "value", opSize: "size", opCall: "function",
}

// String is the operator as it is written.
func (op Op) String() string { return opNames[op] }

// isOrdering reports whether the operator needs the order of its operands.
func (op Op) isOrdering() bool { return Less <= op && op <= Between }

// functions are the functions by name, with the number of their operands.
var functions = map[string]struct {
	op       Op
	operands int
}{
	"attribute_exists":     {Exists, 1},
	"attribute_not_exists": {NotExists, 1},
	"attribute_type":       {HasType, 2},
	"begins_with":          {BeginsWith, 2},
	"contains":             {Contains, 2},
	"size":                 {opSize, 1},
	"if_not_exists":        {IfNotExists, 2},
	"list_append":          {ListAppend, 2},
}

// node is a parsed piece of text. Placeholders are not bound yet: a step of a
// path may be called #name.
type node struct {
	op     Op
	text   string    // of opValue the placeholder, of a function its name
	path   item.Path // of opPath
	args   []*node
	parens bool // was alone in parentheses
}

// section is one of SET, REMOVE, ADD and DELETE with its actions.
type section struct {
	verb    Verb
	actions []parsedAction
}

type parsedAction struct {
	verb  Verb
	path  *node
	value *node // nil for REMOVE
}
