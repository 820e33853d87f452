package model

import (
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// valuesOf returns the values of placeholders in the form that package expr
// takes.
func valuesOf(values map[string]any) map[string]item.Value {
	typed := make(map[string]item.Value, len(values))
	for ref, v := range values {
		typed[ref] = v.(requestValue).value
	}
	return typed
}

// requestValue is a value in a request to a server.
type requestValue struct{ value item.Value }

// MarshalJSON encodes the value as the API does.
func (s requestValue) MarshalJSON() ([]byte, error) { return wire.AppendValue(nil, s.value), nil }

// requestRenderer renders values for a server: those of generated items.
type requestRenderer struct {
	*sample                // the item after the write, or the item read
	old      *sample       // the item before the write, which conditions refer to
	fresh    *sample       // the source of new values
	matching *ordinalRange // set for queries
}

func (v *requestRenderer) field(f *Field) any { return requestValue{v.value(f)} }

func (v *requestRenderer) literal(l Literal, t item.Type, fresh bool) any {
	s := v.old
	if fresh {
		s = v.fresh
	}
	return requestValue{s.literal(l, t)}
}

func (v *requestRenderer) item(*Step) any { return requestItem{v.sample.item()} }

// requestItem is an item in a request to a server.
type requestItem struct{ item item.Item }

// MarshalJSON encodes the item as the API does.
func (s requestItem) MarshalJSON() ([]byte, error) { return wire.AppendItem(nil, s.item), nil }

func (v *requestRenderer) bounds(k *KeyPart) []any {
	if k.ranged == "" {
		if k.Op == expr.Equal {
			return []any{v.field(k.field)}
		}
		return []any{requestValue{item.String(v.fill(&k.template))}}
	}
	return v.matching.bounds(v.sample, k)
}

func (v *requestRenderer) filter(s *Step, f *Field) []any {
	if r := s.Action.Range; r != nil && r.Attribute == f.Name {
		return v.matching.around(v.sample, f, r.Is)
	}
	return []any{v.field(f)}
}
