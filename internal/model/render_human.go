package model

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// humanRenderer renders values for people: templates with {attribute}.
type humanRenderer struct {
	step  *Step
	fixed map[string]string  // attributes whose value the pattern gives
	exact map[string]Literal // those whose value is no text
}

func newHumanRenderer(s *Step) *humanRenderer {
	w := &humanRenderer{step: s, fixed: make(map[string]string), exact: make(map[string]Literal)}
	for _, list := range [][]*Setting{s.Action.From, s.Action.Where, s.Action.Set} {
		for _, x := range list {
			if x.Value.kind == literalString && !strings.Contains(x.Value.text, "{") {
				w.fixed[x.Name] = x.Value.text
			} else if x.Value.kind != literalString {
				w.exact[x.Name] = x.Value
			} else {
				delete(w.fixed, x.Name) // a new value, whatever it was before
			}
		}
	}
	return w
}

func typed(t item.Type, text any) any { return map[string]any{t.String(): text} }

// render returns a template with the values that the pattern gives.
func (w *humanRenderer) render(t template) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		f := w.step.Entity.byName[p.name]
		switch text, ok := w.fixed[p.name]; {
		case ok:
			b.WriteString(text)
		case f.template != nil && !slices.Contains(w.step.Action.Given, p.name):
			b.WriteString(w.render(*f.template))
		default:
			b.WriteString("{" + p.name + "}")
		}
	}
	return b.String()
}

func (w *humanRenderer) field(f *Field) any {
	if f.template != nil && slices.Contains(w.step.Action.Given, f.Name) {
		return typed(f.Type, "{"+f.Name+"}")
	}
	if l, ok := w.exact[f.Name]; ok && f.template == nil {
		return w.literal(l, f.Type, false)
	}
	return typed(f.Type, w.render(templateOf(f)))
}

func (w *humanRenderer) bounds(k *KeyPart) []any {
	t := k.field.Type
	switch {
	case k.ranged != "":
		from, to := "{"+k.ranged+" from}", "{"+k.ranged+" to}"
		if k.Op != expr.Between {
			from = "{" + k.ranged + "}"
			to = from
		}
		var values []any
		for _, text := range k.rangeValues(w.render(k.beforeRange()), from, to) {
			values = append(values, typed(t, text))
		}
		return values
	case k.Op == expr.Equal:
		return []any{w.field(k.field)}
	}
	return []any{typed(t, w.render(k.template))}
}

func (w *humanRenderer) filter(s *Step, f *Field) []any {
	if s.filterOp(f.Name) == expr.Between {
		return []any{typed(f.Type, "{"+f.Name+" from}"), typed(f.Type, "{"+f.Name+" to}")}
	}
	return []any{w.field(f)}
}

func (w *humanRenderer) literal(l Literal, t item.Type, _ bool) any {
	if l.kind == literalString && strings.Contains(l.text, "{") {
		return typed(t, l.text)
	}
	v, err := l.value(t)
	if err != nil {
		return typed(t, l.text)
	}
	return json.RawMessage(wire.AppendValue(nil, v))
}

func (w *humanRenderer) item(s *Step) any {
	attrs := make(map[string]any)
	for _, f := range s.Entity.fields {
		if f.Stored && w.present(f) {
			attrs[f.Name] = w.field(f)
		}
	}
	return attrs
}

// present reports whether a field may be in the item, as far as the pattern
// determines it.
func (w *humanRenderer) present(f *Field) bool {
	for _, c := range f.when {
		if text, ok := w.fixed[c.Name]; ok && !slices.Contains(c.Value.Texts(), text) {
			return false
		}
	}
	return true
}
