package ops

import (
	"errors"
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/language/partiql"
	"github.com/stator-db/stator/internal/workload"
)

// statementWrite is the plan of a statement that changes an item, or of a
// condition in a transaction.
type statementWrite struct {
	db.Write

	kind        workload.Writes
	where       expr.Test
	conditional bool // the clause has conditions besides the key
	update      *expr.Update

	// returns returns what RETURNING asks for; nil if there is no such clause.
	returns func(db.Outcome) (item.Item, error)
}

// planWrite plans a write. A missing WHERE clause is reported before a missing
// table.
func (s *Service) planWrite(st partiql.Statement) (statementWrite, error) {
	var where expr.Test
	fits := []valueCheck{hasKeyKind, hasKeyType, isNotEmpty}
	switch st := st.(type) {
	case *partiql.Insert:
		return planInsert(st), nil
	case *partiql.Update:
		where = st.Where
	case *partiql.Delete:
		where = st.Where
	case *partiql.Exists:
		where, fits = st.Select.Where, fits[1:]
	}
	if where.Op == 0 {
		return statementWrite{}, errNoStatementKey
	}
	t, err := s.DB.Table(st.On())
	if err != nil {
		return statementWrite{}, err
	}
	key, more, err := statementKey(t, where, fits...)
	if _, exists := st.(*partiql.Exists); exists && !more && !errors.Is(err, errNoStatementKey) {
		return statementWrite{}, errNotConditional
	}
	if err != nil {
		return statementWrite{}, err
	}
	cond := expr.NewCondition(where)
	var plan statementWrite
	switch st := st.(type) {
	case *partiql.Update:
		plan = planUpdate(st, key, cond)
	case *partiql.Delete:
		plan = planDelete(st, key, cond)
	default:
		plan = statementWrite{kind: workload.ConditionCheck, Write: db.Write{Table: t.Name, Key: key, If: existsAnd(cond), Effect: db.Keep, Deletes: true}}
	}
	plan.where, plan.conditional = where, more
	return plan, nil
}

var errNotConditional = apierror.Validation("EXISTS() must contain a single item read with additional condition")

// existsAnd returns the condition of a write to an existing item.
func existsAnd(c *expr.Condition) func(item.Item) bool {
	return func(before item.Item) bool { return before != nil && c.Holds(before) }
}

func planInsert(st *partiql.Insert) statementWrite {
	return statementWrite{kind: workload.Put, Write: db.Write{
		Table: st.Table,
		Key:   st.Item,
		Fit:   fitsInsert,
		Effect: func(before item.Item) (item.Item, error) {
			if before != nil {
				return nil, apierror.DuplicateItem()
			}
			return st.Item, nil
		},
	}}
}

func fitsInsert(t *schema.Table, it item.Item) error {
	for _, a := range t.Key.All() {
		v, ok := it.Get(a.Name)
		if !ok {
			return apierror.Validation("Key attribute should be present in the item: Key %s", a.Name)
		}
		for _, fits := range []valueCheck{hasKeyType, isNotEmpty} {
			if err := fits(a, v); err != nil {
				return err
			}
		}
	}
	return t.CheckItem(it)
}

func planUpdate(st *partiql.Update, key item.Item, cond *expr.Condition) statementWrite {
	u := st.Changes
	w := updateWrite(st.Table, key, nil, u)
	w.If = existsAnd(cond)
	w.ActionBytes = 0 // only the item counts towards the limit
	p := statementWrite{kind: workload.Update, Write: w, update: u}
	switch st.Returning {
	case partiql.AllOld:
		p.returns = func(o db.Outcome) (item.Item, error) { return o.Before, nil }
	case partiql.AllNew:
		p.returns = func(o db.Outcome) (item.Item, error) { return o.After, nil }
	case partiql.ModifiedOld:
		p.returns = func(o db.Outcome) (item.Item, error) { return u.UpdatedOld(o.Before), nil }
	case partiql.ModifiedNew:
		p.returns = func(o db.Outcome) (item.Item, error) { return u.UpdatedNew(o.Before) }
	}
	return p
}

// planDelete plans a DELETE. If the item does not exist, its condition need not
// hold.
func planDelete(st *partiql.Delete, key item.Item, cond *expr.Condition) statementWrite {
	p := statementWrite{kind: workload.Delete, Write: db.Write{
		Table:   st.Table,
		Key:     key,
		If:      func(before item.Item) bool { return before == nil || cond.Holds(before) },
		Effect:  db.Remove,
		Deletes: true,
	}}
	if st.Returning != "" {
		p.returns = func(o db.Outcome) (item.Item, error) { return o.Before, nil }
	}
	return p
}

// returnedItems is how many items the customer sees at most.
func (p *statementWrite) returnedItems() int {
	if p.returns == nil {
		return 0
	}
	return 1
}

// returned returns what the customer sees of the item; nil for nothing.
func (p *statementWrite) returned(o db.Outcome) (item.Item, error) {
	if p.returns == nil {
		return nil, nil
	}
	shown, err := p.returns(o)
	if shown.Len() == 0 {
		return nil, err
	}
	return shown, err
}
