package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/stator-db/stator/internal/language/partiql"
	"github.com/stator-db/stator/internal/protocol/api"
)

// Audited is what an audit log says of a request.
type Audited struct {
	// Parameters is a JSON object with the members of the request, without the contents of
	// items: no keys, no values, no literals of statements.
	Parameters json.RawMessage
	Resources  []string // ARNs
	ReadOnly   bool
	Data       bool // the request is to items or streams, not to tables
}

// maxAudited is how many resources of a request are written down.
const maxAudited = 100

// Audit returns what an audit log says of a request. One that could not be decoded has no more
// than its name.
func (s *Service) Audit(ctx context.Context, r Request) Audited {
	a := Audited{ReadOnly: isReadOnly(r.name)}
	if r.in == nil {
		return a
	}
	switch r.in.(type) {
	case *api.GetRecords, *api.GetShardIterator:
		a.Data = true
	}
	// A request may name what it cannot be parsed to: then its resources are not known.
	found, ok, err := s.itemPermissions(ctx, r.in)
	a.Data = a.Data || ok
	if !ok {
		found, err = s.tablePermissions(ctx, r)
	}
	if err == nil {
		seen := make(map[string]bool)
		for _, p := range found {
			if p.resource == "*" || p.resource == "" || seen[p.resource] || len(a.Resources) == maxAudited {
				continue
			}
			seen[p.resource] = true
			a.Resources = append(a.Resources, p.resource)
		}
	}
	if members, ok := auditedValue(reflect.ValueOf(r.in)); ok {
		a.Parameters, _ = json.Marshal(members) // of maps, lists, texts and numbers
	}
	return a
}

// isReadOnly reports whether requests of an operation only read. Statements may write.
func isReadOnly(name string) bool {
	name = name[strings.LastIndexByte(name, '.')+1:]
	for _, verb := range []string{"Get", "BatchGet", "TransactGet", "Describe", "List", "Query", "Scan", "ItemHistory"} {
		if strings.HasPrefix(name, verb) {
			return true
		}
	}
	return false
}

// private are the members that may contain what is in items, besides those with the types
// of values.
var private = map[string]bool{"NextToken": true, "ShardIterator": true}

// auditedValue returns a value of a request as JSON has it, with the names of CloudTrail;
// not ok if it is absent or is an item's.
func auditedValue(v reflect.Value) (any, bool) {
	switch v.Type() {
	case reflect.TypeFor[api.Attributes](), reflect.TypeFor[api.Value]():
		return nil, false
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil, false
		}
		return auditedValue(v.Elem())
	case reflect.Struct:
		members := make(map[string]any)
		addMembers(members, v)
		return members, true
	case reflect.Map:
		if v.IsNil() || v.Type().Elem() == reflect.TypeFor[api.Value]() {
			return nil, false
		}
		members := make(map[string]any)
		for _, key := range v.MapKeys() {
			if m, ok := auditedValue(v.MapIndex(key)); ok {
				members[key.String()] = m
			}
		}
		return members, true
	case reflect.Slice:
		if v.IsNil() {
			return nil, false
		}
		list := make([]any, 0, v.Len())
		for i := range v.Len() {
			if m, ok := auditedValue(v.Index(i)); ok {
				list = append(list, m)
			}
		}
		return list, len(list) > 0
	case reflect.String:
		return v.String(), v.String() != ""
	case reflect.Bool:
		return v.Bool(), true
	case reflect.Int, reflect.Int32, reflect.Int64:
		return v.Int(), true
	case reflect.Float64:
		return v.Float(), true
	}
	return nil, false
}

// addMembers adds the members of a struct. Those of embedded structs are its own.
func addMembers(members map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			addMembers(members, v.Field(i))
		case !f.IsExported() || private[f.Name] || f.Tag.Get("json") == "-": // compiled expressions have values
		default:
			m, ok := auditedValue(v.Field(i))
			if !ok {
				continue
			}
			if text, is := m.(string); is && f.Name == "Statement" {
				m = partiql.Redact(text)
			}
			name := cmp.Or(f.Tag.Get("name"), f.Name)
			members[strings.ToLower(name[:1])+name[1:]] = m
		}
	}
}
