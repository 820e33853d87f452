package partiql

import (
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// binder makes a statement from nodes and parameters.
type binder struct {
	parameters []item.Value
	operators  int
	miscounted error // the first fault of the number and the kind of an update's operands
	misused    error // the first fault of how operands are used in a condition; see where
}

func (b *binder) statement(n *node) (Statement, error) {
	switch n.kind {
	case nodeSelect:
		return b.selects(n)
	case nodeInsert:
		return b.insert(n)
	case nodeUpdate:
		return b.update(n.change)
	case nodeDelete:
		return b.delete(n.change)
	}
	if n.isExists() {
		s, err := b.selects(n.args[0])
		return &Exists{s}, err
	}
	return &Exists{}, nil
}

var (
	errAlias  = apierror.Validation("Aliasing is not supported")
	errJoined = apierror.Validation("Only select from a single table or index is supported.")
)

func (b *binder) selects(n *node) (*Select, error) {
	q := n.query
	s := new(Select)
	switch {
	case q.distinct:
		return nil, apierror.Validation("Unsupported token in expression: DISTINCT")
	case q.clause != "" && q.clauseAt != nil:
		return nil, apierror.Validation("Unsupported clause: %s%s", q.clause, q.clauseAt.position())
	case q.clause != "":
		return nil, apierror.Validation("Unsupported clause: %s", q.clause)
	case q.joined:
		return nil, errJoined
	case q.value:
		return nil, apierror.Validation("Select projection doesn't support value or pivot keywords")
	case q.aliased:
		return nil, errAlias
	}
	var err error
	if s.Table, s.Index, err = source(q.from); err != nil {
		return nil, err
	}
	if s.Columns, err = b.columns(q); err != nil {
		return nil, err
	}
	if s.Where, err = b.where(q.where); err != nil {
		return nil, err
	}
	s.Order, err = order(q.order)
	return s, err
}

// source returns the table, and the index if there is one, that a path names.
func source(n *node) (table, index string, err error) {
	switch {
	case n.kind == nodeName && n.text == "":
		return "", "", errEmptyStep
	case n.kind == nodeName:
		return n.text, "", nil
	case n.kind != nodePath || n.args[0].kind != nodeName:
		return "", "", apierror.Validation("Unexpected from source")
	}
	p, err := path(n)
	switch {
	case err != nil:
		return "", "", err
	case len(p) > 2:
		return "", "", apierror.Validation("A path may contain at most 2 components in the FROM clause")
	case p[1].IsIndex:
		return "", "", apierror.Validation("Invalid list expression in source.")
	}
	return p[0].Name, p[1].Name, nil
}

func (b *binder) columns(q *query) ([]Column, error) {
	if q.all {
		return nil, nil
	}
	var columns []Column
	var paths []item.Path
	seen := make(map[string]bool)
	for _, n := range q.columns {
		if n.kind == nodePath && n.args[len(n.args)-1].kind == nodeAll {
			return nil, apierror.Validation("Changing item's hierarchy while reading isn't supported")
		}
		path, err := path(n)
		if err != nil {
			return nil, err
		}
		name := columnName(path)
		if seen[name] {
			return nil, apierror.Validation("Duplicate identifiers in select clause: %s", name)
		}
		seen[name] = true
		columns, paths = append(columns, Column{name, path}), append(paths, path)
	}
	return columns, expr.CheckApart(paths)
}

// columnName is the name of the value at a path: the path from its last name
// on, as in b[0] for a.b[0].
func columnName(p item.Path) string {
	last := len(p) - 1
	for p[last].IsIndex {
		last--
	}
	name := p[last].Name
	for _, s := range p[last+1:] {
		name += "[" + itoa(s.Index) + "]"
	}
	return name
}

func order(keys []orderKey) ([]Order, error) {
	var all []Order
	for _, k := range keys {
		switch k.key.kind {
		case nodeName:
			all = append(all, Order{k.key.text, k.descending})
		case nodePath:
			return nil, apierror.Validation("Argument to ORDER BY must be of type VariableReference. Type: PATH")
		default:
			return nil, apierror.Validation("Argument to ORDER BY must be of type VariableReference. Type: %s", k.key.at.text)
		}
	}
	return all, nil
}

// target is the table that an UPDATE or a DELETE changes.
func target(m *manipulation) (string, error) {
	if m.aliased {
		return "", errAlias
	}
	table, index, err := source(m.table)
	if err == nil && index != "" {
		err = apierror.Validation("This operation is not supported on an index")
	}
	return table, err
}

// insert, delete and update report faults in the order of DynamoDB's own
// library, which DynamoDB Local has: what is written and the conditions come
// before the table and RETURNING (conformance/execute_statement/order.txt).
func (b *binder) insert(n *node) (*Insert, error) {
	m := n.change
	switch {
	case m.position:
		return nil, apierror.Validation("AT is not supported in insert statements.%s", n.position())
	case m.conflict:
		return nil, apierror.Validation("Unsupported clause: ON CONFLICT")
	case m.item.kind != nodeStruct:
		return nil, apierror.Validation("Unsupported format in item expression. Please use struct format {...} to express item values for insert statement.%s", m.item.position())
	}
	it, err := b.item(m.item)
	if err != nil {
		return nil, err
	}
	if m.table.kind == nodePath { // which has a position here: observed on the service
		return nil, apierror.Validation("FROM clause may only contain a single table name in data manipulation statements%s", m.table.at.position())
	}
	table, _, err := source(m.table)
	switch {
	case err != nil:
		return nil, err
	case m.returning != nil:
		return nil, apierror.Validation("RETURNING is not supported in INSERT")
	}
	return &Insert{table, it}, nil
}

func (b *binder) delete(m *manipulation) (*Delete, error) {
	where, err := b.where(m.where)
	if err != nil {
		return nil, err
	}
	d := &Delete{Where: where}
	if d.Table, err = target(m); err != nil {
		return nil, err
	}
	if d.Returning, err = m.returning.bind(); err != nil {
		return nil, err
	}
	if d.Returning != "" && d.Returning != AllOld {
		return nil, apierror.Validation("Invalid returning clause: RETURNING %s *. Only RETURNING ALL OLD * is allowed in DELETE statements.", d.Returning)
	}
	return d, nil
}

func (b *binder) update(m *manipulation) (*Update, error) {
	where, err := b.where(m.where)
	if err != nil {
		return nil, err
	}
	u := &Update{Where: where, Changes: new(expr.Update)}
	for _, s := range m.sets {
		a, err := b.action(s)
		if err != nil {
			return nil, err
		}
		u.Changes.Actions = append(u.Changes.Actions, a)
	}
	if err := b.checkUpdate(u.Changes); err != nil {
		return nil, err
	}
	if u.Table, err = target(m); err != nil {
		return nil, err
	}
	u.Returning, err = m.returning.bind()
	return u, err
}

func (r *returning) bind() (Returning, error) {
	switch {
	case r == nil:
		return "", nil
	case r.several:
		return "", apierror.Validation("Invalid syntax with multiple returning elements in RETURNING clause")
	case !r.star:
		return "", apierror.Validation("Expected '*' after ( MODIFIED | ALL ) ( NEW | OLD ) in RETURNING clause")
	}
	return Returning(strings.ToUpper(strings.ReplaceAll(r.mode, "_", " "))), nil
}
