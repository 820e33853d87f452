package ops

import (
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/language/partiql"
	"github.com/stator-db/stator/internal/protocol/api"
)

// parseStatement parses the text of a statement.
func (s *Service) parseStatement(text string) (*partiql.Parsed, error) {
	return partiql.Cache{Cache: s.parsed}.Parse(text)
}

// bindStatement puts the parameters of a request into a statement.
func bindStatement(parsed *partiql.Parsed, parameters []api.Value) (partiql.Statement, error) {
	if err := valuesFault(parameters); err != nil {
		return nil, err
	}
	values := make([]item.Value, len(parameters))
	for i, p := range parameters {
		values[i] = p.Value
	}
	return parsed.Bind(values)
}

// statementKey is the key of the one item that a WHERE clause names. more tells
// that the clause asks for more than the key.
func statementKey(t *schema.Table, where expr.Test) (key item.Item, more bool, err error) {
	attrs := t.Key.All()
	equals := make([][]item.Value, len(attrs))
	for i, a := range attrs {
		for _, k := range partiql.KeyTests(where, a.Name) {
			if k.Op == expr.Equal {
				equals[i] = append(equals[i], k.Values[0])
			}
		}
		if equals[i] == nil {
			return nil, false, errNoStatementKey
		}
	}
	values := make(map[string]item.Value)
	for i, a := range attrs {
		if len(equals[i]) > 1 {
			return nil, false, apierror.Validation("Multiple conditions on same key %s. Only single item Update/Insert/Delete are supported", a.Name)
		}
		if err := fitsKeyAttribute(a, equals[i][0]); err != nil {
			return nil, false, err
		}
		values[a.Name] = equals[i][0]
	}
	return item.Make(values), len(partiql.Conjuncts(where)) > len(attrs), nil
}

var errNoStatementKey = apierror.Validation("Where clause does not contain a mandatory equality on all key attributes")

// fitsKeyAttribute is the fault of a value that no item of the table can have
// in its key, as statements word it.
func fitsKeyAttribute(a schema.Attribute, v item.Value) error {
	switch {
	case v.Type() != a.Type:
		return apierror.Validation("Key attribute's data type should match its data type in table's schema: Key %s", a.Name)
	case len(v.Sortable()) == 0:
		return schema.EmptyKey(a, v)
	}
	return nil
}
