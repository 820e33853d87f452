package ops

import (
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/language/partiql"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) parseStatement(text string) (*partiql.Parsed, error) {
	return partiql.Cache{Cache: s.parsed}.Parse(text)
}

// statementKinds are the kinds of the statements of a request so far.
type statementKinds struct{ reads, writes bool }

// open adds a parsed statement, and returns a fault of the whole request: mixed if
// there are reads and writes, or that of a malformed parameter.
func (k *statementKinds) open(parsed *partiql.Parsed, parameters []api.Value, mixed error) error {
	switch parsed.Kind() {
	case partiql.Reads:
		k.reads = true
	case partiql.Writes:
		k.writes = true
	}
	if k.reads && k.writes {
		return mixed
	}
	return valuesFault(parameters)
}

// bindStatement binds the parameters of a request to a statement.
func bindStatement(parsed *partiql.Parsed, parameters []api.Value) (partiql.Statement, error) {
	if err := valuesFault(parameters); err != nil {
		return nil, err
	}
	values := make([]item.Value, len(parameters))
	for i, p := range parameters {
		values[i] = p.Value
	}
	st, err := parsed.Bind(values)
	if err != nil {
		return nil, err
	}
	if _, ok := st.(*partiql.Insert); ok { // its item has a limit of its own
		return st, nil
	}
	return st, expr.CheckParameters(values)
}

// statementKey returns the key of the item that a WHERE clause selects. more
// reports whether the clause has conditions besides the key. The fits return the
// fault of a value that cannot be in the key; all values are checked by the first
// of them before any is by the next.
func statementKey(t *schema.Table, where expr.Test, fits ...valueCheck) (key item.Item, more bool, err error) {
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
	more = len(partiql.Conjuncts(where)) > len(attrs)
	values := make(map[string]item.Value)
	for i, a := range attrs {
		if len(equals[i]) > 1 {
			return nil, more, apierror.Validation("Multiple conditions on same key %s. Only single item Update/Insert/Delete are supported", a.Name)
		}
		values[a.Name] = equals[i][0]
	}
	for _, fit := range fits {
		for i, a := range attrs {
			if err := fit(a, equals[i][0]); err != nil {
				return nil, more, err
			}
		}
	}
	return item.Make(values), more, nil
}

// A valueCheck returns the fault of a value for an attribute of the key.
type valueCheck func(schema.Attribute, item.Value) error

var errNoStatementKey = apierror.Validation("Where clause does not contain a mandatory equality on all key attributes")

// hasKeyType returns the fault of a value that does not have the type of a key,
// with the message that statements have for it.
func hasKeyType(a schema.Attribute, v item.Value) error {
	if v.Type() != a.Type {
		return apierror.Validation("Key attribute's data type should match its data type in table's schema: Key %s", a.Name)
	}
	return nil
}

// isNotEmpty returns the fault of an empty value of a key. Statements report it
// after the types of all keys (conformance/execute_statement/order.txt).
func isNotEmpty(a schema.Attribute, v item.Value) error {
	if len(v.Sortable()) == 0 {
		return schema.EmptyKey(a, v)
	}
	return nil
}

// namesKeyAttribute returns errNoStatementKey for a value that no key can have:
// for the SELECT of a batch or a transaction, an equality with such a value does
// not name a key.
func namesKeyAttribute(_ schema.Attribute, v item.Value) error {
	switch v.Type() {
	case item.S, item.N, item.B:
		return nil
	}
	return errNoStatementKey
}

// hasKeyKind returns the fault of a value that no key can have, for UPDATE and
// DELETE. They report it before the types of keys (conformance/execute_statement/order.txt).
func hasKeyKind(a schema.Attribute, v item.Value) error {
	switch v.Type() {
	case item.S, item.N, item.B:
		return nil
	}
	return keyKindFault{apierror.Validation("Key value must be of type S, N, or B. Key name: %s, Key type: %s", a.Name, v.Type())}
}

// keyKindFault is the fault of a value that no key can have. It is not a reason
// of a cancelled transaction, but rejects the transaction.
type keyKindFault struct{ fault *apierror.Error }

func (f keyKindFault) Error() string { return f.fault.Error() }
func (f keyKindFault) Unwrap() error { return f.fault }
