package ops

import (
	"reflect"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/protocol/api"
)

// maxStatements is how many statements a request has at most that is not rejected.
const maxStatements = 100

// Tables returns the names of the tables that a request names, in order. It is for
// requests that failed and for traces: a table need not exist. Of statements it parses no more
// than the first ones: a request that is rejected may have any number of them.
func (s *Service) Tables(r Request, statements int) []string {
	var names []string
	add := func(name *string) {
		if name != nil && *name != "" {
			names = append(names, *name)
		}
	}
	statement := func(text *string, parameters []api.Value) {
		if statements--; text == nil || statements < 0 {
			return
		}
		if parsed, err := s.parseStatement(*text); err == nil {
			if st, err := bindStatement(parsed, parameters); err == nil {
				names = append(names, st.On())
			}
		}
	}
	switch in := r.in.(type) {
	case nil:
	case *api.BatchGetItem:
		names = sortedKeys(in.RequestItems)
	case *api.BatchWriteItem:
		names = sortedKeys(in.RequestItems)
	case *api.TransactGetItems:
		for _, action := range in.TransactItems {
			if action.Get != nil {
				add(action.Get.TableName)
			}
		}
	case *api.TransactWriteItems:
		for _, action := range in.TransactItems {
			switch {
			case action.ConditionCheck != nil:
				add(action.ConditionCheck.TableName)
			case action.Put != nil:
				add(action.Put.TableName)
			case action.Delete != nil:
				add(action.Delete.TableName)
			case action.Update != nil:
				add(action.Update.TableName)
			}
		}
	case *api.ExecuteStatement:
		statement(&in.Statement, in.Parameters)
	case *api.BatchExecuteStatement:
		for _, one := range in.Statements {
			statement(one.Statement, one.Parameters)
		}
	case *api.ExecuteTransaction:
		for _, one := range in.TransactStatements {
			statement(one.Statement, one.Parameters)
		}
	default:
		switch name := reflect.ValueOf(in).Elem().FieldByName("TableName"); {
		case !name.IsValid():
		case name.Kind() == reflect.String:
			text := name.String()
			add(&text)
		case name.Type() == reflect.TypeFor[*string]():
			add(name.Interface().(*string))
		}
	}
	for i, name := range names {
		if strings.HasPrefix(name, "arn:") {
			if found := tableARN().FindStringSubmatch(name); found != nil {
				names[i] = found[1]
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
