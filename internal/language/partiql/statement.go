// Package partiql is the statements of PartiQL: text becomes nodes, nodes and
// parameters become the same tests and actions that expressions are made of.
//
// What a statement means for a table, which keys it names and how they are
// read, is decided by who runs it; KeyTests helps.
package partiql

import (
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
	Columns      []Column  // none: all attributes
	Where        expr.Test // without an Op: all items
	Order        []Order
}

// Column is one attribute of what a Select shows: the value at a path, under
// the path's last name.
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

// Exists is a condition of a transaction: that a Select finds its item. It has
// no Select when the text is an expression of another sort.
type Exists struct{ Select *Select }

// Returning is what an Update or a Delete shows of its item.
type Returning string

// The items that can be shown.
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

// Parsed is a statement's text without its parameters. It never changes and
// may be used by many at once.
type Parsed struct {
	root       *node
	parameters int
}

// Parse reads the text of a statement. Its faults are those of syntax.
func Parse(text string) (*Parsed, error) {
	n, parameters, err := parse(text)
	if err != nil {
		return nil, err
	}
	switch n.kind {
	case nodeName, nodePath, nodeValue, nodeMissing, nodeIon, nodeParameter, nodeList, nodeBag, nodeStruct:
		return nil, apierror.Validation("Unsupported operation: %s", kindNames[n.kind])
	}
	return &Parsed{n, parameters}, nil
}

// Bind puts the parameters in, and makes every check that needs no table.
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

// Cache keeps parsed statements, as expr.Cache keeps expressions, which it is.
type Cache struct{ *expr.Cache }

// Parse is the function Parse, remembered.
func (c Cache) Parse(text string) (*Parsed, error) {
	return expr.Cached(c.Cache, expr.Statement, text, Parse)
}
