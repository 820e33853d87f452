package model

import (
	"fmt"
	"strings"
)

// template is text that contains names of attributes.
type template struct {
	text  string
	parts []templatePart
}

// templatePart is a piece of constant text, or the name of an attribute.
type templatePart struct{ text, name string }

// parseTemplate parses text such as "A#{b}#{c}". A literal brace is doubled.
func parseTemplate(text string) (template, error) {
	t := template{text: text}
	var constant strings.Builder
	flush := func() {
		if constant.Len() > 0 {
			t.parts = append(t.parts, templatePart{text: constant.String()})
			constant.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c < ' ':
			return t, fmt.Errorf("the template %q contains a control character", text)
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			constant.WriteByte(c)
			i++
		case c == '{':
			end := strings.IndexAny(text[i+1:], "{}")
			if end < 0 || text[i+1+end] != '}' {
				return t, fmt.Errorf("the template %q has an unclosed brace; write {{ for a literal brace", text)
			}
			name := text[i+1 : i+1+end]
			if name == "" {
				return t, fmt.Errorf("the template %q has braces without a name", text)
			}
			flush()
			t.parts = append(t.parts, templatePart{name: name})
			i += 1 + end
		case c == '}':
			return t, fmt.Errorf("the template %q has an unopened brace; write }} for a literal brace", text)
		default:
			constant.WriteByte(c)
		}
	}
	flush()
	return t, nil
}

// names returns the attributes that the template is built from.
func (t *template) names() (names []string) {
	for _, p := range t.parts {
		if p.name != "" {
			names = append(names, p.name)
		}
	}
	return names
}

// single returns the attribute if the template consists of one attribute and
// nothing else.
func (t *template) single() (string, bool) {
	if len(t.parts) == 1 && t.parts[0].name != "" {
		return t.parts[0].name, true
	}
	return "", false
}

// prefix is the constant text that the template begins with.
func (t *template) prefix() string {
	if len(t.parts) > 0 {
		return t.parts[0].text
	}
	return ""
}

// FullTemplate returns the template text of the field, with the templates of the
// attributes that it contains written out.
func (f *Field) FullTemplate() string {
	if f.template == nil {
		return "{" + f.Name + "}"
	}
	var b strings.Builder
	for _, p := range f.entity.flatten(f.template, nil) {
		if p.name != "" {
			b.WriteString("{" + p.name + "}")
		} else {
			b.WriteString(strings.NewReplacer("{", "{{", "}", "}}").Replace(p.text))
		}
	}
	return b.String()
}

// KeyText is a part of a field's value: constant text, or the value of an attribute.
type KeyText struct{ Constant, Attribute string }

// Parts returns what the field's value is built from, with the templates of the
// attributes that it contains written out.
func (f *Field) Parts() (parts []KeyText) {
	if f.template == nil {
		return []KeyText{{Attribute: f.Name}}
	}
	for _, p := range f.entity.flatten(f.template, nil) {
		parts = append(parts, KeyText{p.text, p.name})
	}
	return parts
}
