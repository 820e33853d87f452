package oracletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// path leads from an item to a value inside it. Its steps are names (string)
// and indexes of lists (int); the first is a name.
type path []any

// String is the path as DynamoDB shows it in messages.
func (p path) String() string {
	steps := make([]string, len(p))
	for i, s := range p {
		steps[i] = fmt.Sprint(s)
		if _, ok := s.(int); ok {
			steps[i] = "[" + steps[i] + "]"
		}
	}
	return "[" + strings.Join(steps, ", ") + "]"
}

func (p path) name() string { return p[0].(string) }

// into reports whether a path is equal to another one or leads into it.
func (p path) into(other path) bool {
	return len(p) >= len(other) && slices.Equal(p[:len(other)], other)
}

// clashes reports whether two paths cannot be used together: one leads into
// the other, or they use one value both as a list and as a map.
func (p path) clashes(other path) bool {
	if p.into(other) || other.into(p) {
		return true
	}
	for i := range min(len(p), len(other)) {
		if p[i] == other[i] {
			continue
		}
		_, index := p[i].(int)
		_, otherIndex := other[i].(int)
		return index != otherIndex
	}
	return false
}

func clashing(paths []path) bool {
	for i, p := range paths {
		if slices.ContainsFunc(paths[:i], p.clashes) {
			return true
		}
	}
	return false
}

// at returns the value at the end of a path.
func at(v value, p path) (value, bool) {
	if len(p) == 0 {
		return v, true
	}
	switch step := p[0].(type) {
	case string:
		if o, ok := v.(object); ok {
			if e, ok := o[step]; ok {
				return at(e, p[1:])
			}
		}
	case int:
		if l, ok := v.(list); ok && step < len(l) {
			return at(l[step], p[1:])
		}
	}
	return nil, false
}

// holds reports whether the container of a path's last step exists.
func holds(it object, p path) bool {
	container, ok := at(it, p[:len(p)-1])
	if !ok {
		return false
	}
	want := "M"
	if _, ok := p[len(p)-1].(int); ok {
		want = "L"
	}
	return kindOf(container) == want
}

// put replaces the value at the end of a path whose container exists; an
// index past the end of a list appends. It returns the path of the value
// afterwards.
func put(it object, p path, v value) path {
	last := len(p) - 1
	container, _ := at(it, p[:last])
	switch step := p[last].(type) {
	case string:
		container.(object)[step] = v
	case int:
		l := container.(list)
		if step < len(l) {
			l[step] = v
			return p
		}
		replace(it, p[:last], append(slices.Clone(l), v))
		return append(slices.Clone(p[:last]), len(l))
	}
	return p
}

// remove removes the value at the end of a path, if there is one.
func remove(it object, p path) {
	last := len(p) - 1
	container, _ := at(it, p[:last])
	switch step := p[last].(type) {
	case string:
		delete(container.(object), step)
	case int:
		if l := container.(list); step < len(l) {
			replace(it, p[:last], slices.Concat(l[:step], l[step+1:]))
		}
	}
}

// replace replaces a list by another one.
func replace(it object, p path, with list) {
	if with == nil {
		with = list{}
	}
	container, _ := at(it, p[:len(p)-1])
	switch step := p[len(p)-1].(type) {
	case string:
		container.(object)[step] = with
	case int:
		container.(list)[step] = with
	}
}

// project returns an item with only the values at some paths. Elements of
// lists move together.
func project(it object, paths []path) object {
	v, ok := pick(it, paths)
	if !ok {
		return object{}
	}
	return v.(object)
}

func pick(v value, paths []path) (value, bool) {
	rests := make(map[any][]path)
	for _, p := range paths {
		if len(p) == 0 {
			return v, true
		}
		rests[p[0]] = append(rests[p[0]], p[1:])
	}
	switch v := v.(type) {
	case object:
		picked := make(object)
		for name, e := range v {
			if rest := rests[name]; rest != nil {
				if e, ok := pick(e, rest); ok {
					picked[name] = e
				}
			}
		}
		return picked, len(picked) > 0
	case list:
		picked := list{}
		for i, e := range v {
			if rest := rests[i]; rest != nil {
				if e, ok := pick(e, rest); ok {
					picked = append(picked, e)
				}
			}
		}
		return picked, len(picked) > 0
	}
	return nil, false
}

// placeholders collects the placeholders of a request while its expressions
// are formatted.
type placeholders struct {
	names  map[string]string // by placeholder
	values map[string]value
}

// name formats the name of an attribute: short names are used as they are.
func (w *placeholders) name(name string) string {
	if len(name) <= 2 && name[0] >= 'a' && name[0] <= 'z' {
		return name
	}
	for placeholder, known := range w.names {
		if known == name {
			return placeholder
		}
	}
	if w.names == nil {
		w.names = make(map[string]string)
	}
	placeholder := fmt.Sprintf("#n%d", len(w.names))
	w.names[placeholder] = name
	return placeholder
}

func (w *placeholders) value(v value) string {
	if w.values == nil {
		w.values = make(map[string]value)
	}
	placeholder := fmt.Sprintf(":v%d", len(w.values))
	w.values[placeholder] = v
	return placeholder
}

func (w *placeholders) path(p path) string {
	text := ""
	for i, step := range p {
		switch step := step.(type) {
		case string:
			if i > 0 {
				text += "."
			}
			text += w.name(step)
		case int:
			text += fmt.Sprintf("[%d]", step)
		}
	}
	return text
}

func (w *placeholders) projection(paths []path) string {
	texts := make([]string, len(paths))
	for i, p := range paths {
		texts[i] = w.path(p)
	}
	return strings.Join(texts, ", ")
}

// add adds the placeholders to a request.
func (w *placeholders) add(body map[string]any) {
	if w.names != nil {
		body["ExpressionAttributeNames"] = w.names
	}
	if w.values != nil {
		values := make(map[string]any)
		for _, placeholder := range slices.Sorted(maps.Keys(w.values)) {
			values[placeholder] = wireForm(w.values[placeholder])
		}
		body["ExpressionAttributeValues"] = values
	}
}
