// Package partiql parses the statements of PartiQL: text becomes nodes, nodes
// and parameters become the same tests and actions that expressions consist
// of.
//
// It does not decide which keys of a table a statement reads and how; package
// ops does, with the help of KeyTests.
package partiql

import (
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// Statement is a *Select, an *Insert, an *Update, a *Delete or an *Exists.
type Statement interface {
	// On is the name of the statement's table.
	On() string
}

// Select reads items.
type Select struct {
	Table, Index string
	Columns      []Column  // empty for all attributes
	Where        expr.Test // the zero Test for all items
	Order        []Order
}

// Column is one attribute of the result of a Select: the value at a path,
// named by the last name of the path.
type Column struct {
	Name string
	Path item.Path
}

// Order is an attribute that items are ordered by.
type Order struct {
	Name       string
	Descending bool
}

// Insert puts an item that does not exist yet.
type Insert struct {
	Table string
	Item  item.Item
}

// Update changes an item that exists.
type Update struct {
	Table     string
	Changes   *expr.Update
	Where     expr.Test
	Returning Returning
}

// Delete removes an item.
type Delete struct {
	Table     string
	Where     expr.Test
	Returning Returning
}

// Exists is a condition of a transaction: that a Select finds its item.
// Select is nil if the text is another kind of expression.
type Exists struct{ Select *Select }

// Returning selects what an Update or a Delete returns of its item.
type Returning string

// The items that can be returned.
const (
	AllOld      Returning = "ALL OLD"
	AllNew      Returning = "ALL NEW"
	ModifiedOld Returning = "MODIFIED OLD"
	ModifiedNew Returning = "MODIFIED NEW"
)

// On is the name of the table.
func (s *Select) On() string { return s.Table }

// On is the name of the table.
func (s *Insert) On() string { return s.Table }

// On is the name of the table.
func (s *Update) On() string { return s.Table }

// On is the name of the table.
func (s *Delete) On() string { return s.Table }

// On is the name of the table.
func (s *Exists) On() string {
	if s.Select == nil {
		return ""
	}
	return s.Select.Table
}

// Parsed is a parsed statement without its parameters. It is immutable and
// safe for concurrent use.
type Parsed struct {
	root       *node
	parameters int
}

// Parse parses a statement. It returns syntax errors only.
func Parse(text string) (*Parsed, error) {
	n, parameters, err := parse(text)
	if err != nil {
		return nil, err
	}
	switch n.kind {
	case nodeIs:
		if n.text == "is_not" { // the negation of another expression
			break
		}
		fallthrough
	case nodeName, nodePath, nodeValue, nodeMissing, nodeIon, nodeParameter, nodeList, nodeBag, nodeStruct:
		return nil, apierror.Validation("Unsupported operation: %s", kindNames[n.kind])
	}
	return &Parsed{n, parameters}, nil
}

// Kind is what a statement does.
type Kind int

// The kinds of statement. Other is an expression that is no statement.
const (
	Other Kind = iota
	Reads
	Writes
	Checks // EXISTS, a condition of a transaction
)

// Kind returns what the statement does, which its text determines alone.
func (p *Parsed) Kind() Kind {
	switch p.root.kind {
	case nodeSelect:
		return Reads
	case nodeInsert, nodeUpdate, nodeDelete:
		return Writes
	}
	if p.root.isExists() {
		return Checks
	}
	return Other
}

// isExists reports whether an expression is EXISTS with a SELECT.
func (n *node) isExists() bool {
	return n.kind == nodeCall && strings.EqualFold(n.text, "exists") && len(n.args) == 1 && n.args[0].kind == nodeSelect
}

// Bind binds the parameters, and makes every check that needs no table.
func (p *Parsed) Bind(parameters []item.Value) (Statement, error) {
	b := &binder{parameters: parameters}
	st, err := b.statement(p.root)
	if err != nil {
		return nil, err
	}
	if len(parameters) < p.parameters {
		return nil, tooFewParameters()
	}
	return st, nil
}

func tooFewParameters() error {
	return apierror.Validation("Number of parameters in request and statement don't match.")
}

// Cache holds parsed statements in an expr.Cache.
type Cache struct{ *expr.Cache }

// Parse is the function Parse, cached.
func (c Cache) Parse(text string) (*Parsed, error) {
	return expr.Cached(c.Cache, expr.Statement, text, Parse)
}
