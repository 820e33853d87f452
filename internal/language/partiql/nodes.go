package partiql

import "github.com/stator-db/stator/internal/data/item"

// nodeKind is the kind of a node.
type nodeKind byte

const (
	nodeName      nodeKind = iota + 1
	nodePath               // args: where it begins, then its steps
	nodeStep               // .name; text
	nodeIndex              // [args[0]]
	nodeAll                // .*
	nodeElements           // [*]
	nodeValue              // a string, a number, a boolean or null
	nodeMissing            // MISSING
	nodeIon                // `…`
	nodeParameter          // ?; number
	nodeList               // […], or several in parentheses
	nodeBag                // <<…>>
	nodeStruct             // {…}; args: key, value, key, value …
	nodeCall               // a function; text
	nodeUnary              // text is the operator
	nodeBinary             // text is the operator; AND and OR have two args or more
	nodeBetween            // text is between or not_between
	nodeIs                 // text is is or is_not; args: the operand, the type
	nodeIn                 // text is in or not_in; args: the first operand, the list
	nodeSelect
	nodeInsert
	nodeUpdate
	nodeDelete
)

// kindNames are the names of nodes in messages.
var kindNames = map[nodeKind]string{
	nodeName: "VariableReference", nodePath: "Path", nodeValue: "Literal", nodeMissing: "LiteralMissing",
	nodeIon: "Literal", nodeParameter: "Parameter", nodeList: "Seq", nodeBag: "Seq", nodeStruct: "Struct",
	nodeCall: "NAry", nodeUnary: "NAry", nodeBinary: "NAry", nodeBetween: "NAry", nodeIs: "Typed", nodeIn: "NAry",
	nodeSelect: "Select", nodeInsert: "DataManipulation", nodeUpdate: "DataManipulation", nodeDelete: "DataManipulation",
}

// node is a parsed piece of a statement, with its token.
type node struct {
	kind nodeKind
	at   token
	text string
	args []*node

	value  item.Value // of nodeValue; nil for an invalid number
	number int        // of nodeParameter
	fault  error      // of nodeValue: why there is no value
	parens bool       // was in parentheses

	query  *query        // of nodeSelect
	change *manipulation // of the other statements
}

// position returns where a node begins, for messages. A path has no position,
// only its steps have (observed on DynamoDB Local).
func (n *node) position() string {
	if n.kind == nodePath {
		return ""
	}
	return n.at.position()
}

// query is a SELECT.
type query struct {
	distinct, value bool
	all             bool // *
	columns         []*node
	aliased         bool // some column or the source has a second name
	from            *node
	joined          bool // there are more sources than from
	where           *node
	order           []orderKey
	clause          string // the first clause that is not supported
	clauseAt        *node  // nil if the message has no position
}

type orderKey struct {
	key        *node
	descending bool
}

// manipulation is an INSERT, an UPDATE or a DELETE.
type manipulation struct {
	table     *node
	aliased   bool
	item      *node // of an INSERT; nil when it is not a VALUE
	position  bool  // INSERT … AT
	conflict  bool  // ON CONFLICT
	sets      []assignment
	where     *node
	returning *returning
}

// assignment is one path = value of SET, or without a value one REMOVE.
type assignment struct{ path, value *node }

// returning is a RETURNING clause.
type returning struct {
	mode    string // all_old, modified_new, …
	star    bool
	several bool
}
