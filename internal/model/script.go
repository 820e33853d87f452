package model

import (
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// valuesOf are the values of placeholders as the language takes them.
func valuesOf(values map[string]any) map[string]item.Value {
	typed := make(map[string]item.Value, len(values))
	for ref, v := range values {
		typed[ref] = v.(spoken).value
	}
	return typed
}

// spoken is a value in a request to a server.
type spoken struct{ value item.Value }

// MarshalJSON writes the value as the API does.
func (s spoken) MarshalJSON() ([]byte, error) { return wire.AppendValue(nil, s.value), nil }

// script is the voice that speaks to a server.
type script struct {
	*sample         // the item after the write, or the item read
	old     *sample // the item before, which conditions speak of
	fresh   *sample // where new values come from
	cast    *cast   // of queries
}

func (v *script) field(f *Field) any { return spoken{v.value(f)} }

func (v *script) literal(l Literal, t item.Type, fresh bool) any {
	s := v.old
	if fresh {
		s = v.fresh
	}
	return spoken{s.literal(l, t)}
}

func (v *script) item(*Step) any { return spokenItem{v.sample.item()} }

// spokenItem is an item in a request to a server.
type spokenItem struct{ item item.Item }

// MarshalJSON writes the item as the API does.
func (s spokenItem) MarshalJSON() ([]byte, error) { return wire.AppendItem(nil, s.item), nil }

func (v *script) bounds(k *KeyPart) []any {
	if k.ranged == "" {
		if k.Op == expr.Equal {
			return []any{v.field(k.field)}
		}
		return []any{spoken{item.String(v.fill(&k.template))}}
	}
	return v.cast.bounds(v.sample, k)
}

func (v *script) filter(s *Step, f *Field) []any {
	if r := s.Action.Range; r != nil && r.Attribute == f.Name {
		return v.cast.around(v.sample, f, r.Is)
	}
	return []any{v.field(f)}
}
