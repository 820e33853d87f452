package iam

import (
	"fmt"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

// leadingKey returns a pattern of the values that the partition key of a step has for the tenant of the caller, or why
// there is none.
func (g *generator) leadingKey(s *model.Step) (pattern, why string) {
	if s.Action.Verb() == model.Scan {
		return "", "a scan reads the items of all tenants"
	}
	key := s.Table.Schema().Key
	if s.Index != nil {
		key = s.Index.Schema().Key
	}
	name := key.Partition[0].Name
	f, ok := s.Entity.Field(name)
	if !ok {
		return "", fmt.Sprintf("%s has no %s", s.Entity.Name, name)
	}
	if f.Type == item.B {
		return "", fmt.Sprintf("%s is binary", name)
	}
	return g.tenantPattern(s.Entity, f)
}

// tenantPattern returns the pattern of a key whose first attribute is that of the tenant. Text must separate it
// from what follows, or the pattern would match other tenants whose names begin with the same text.
func (g *generator) tenantPattern(e *model.Entity, f *model.Field) (pattern, why string) {
	attribute, parts := g.options.TenantKey, f.Parts()
	if len(parts) > 0 && parts[0].Attribute == "" {
		pattern, parts = literalGlob(parts[0].Constant), parts[1:]
	}
	if len(parts) == 0 || parts[0].Attribute != attribute {
		return "", fmt.Sprintf("%s of %s is %q, which does not begin with {%s}", f.Name, e.Name, f.FullTemplate(), attribute)
	}
	pattern += "${" + g.options.TenantVariable + "}"
	parts = parts[1:]
	if len(parts) == 0 {
		return pattern, ""
	}
	separator := parts[0].Constant
	if separator == "" {
		return "", fmt.Sprintf("%s of %s is %q, which has no text after {%s} that ends its value", f.Name, e.Name, f.FullTemplate(), attribute)
	}
	if leaf, ok := e.Field(attribute); ok && leaf.Attribute != nil {
		for _, v := range leaf.Attribute.Values {
			if strings.Contains(v, separator) {
				return "", fmt.Sprintf("%s can be %q, which contains the text %q that ends it in %s of %s", attribute, v, separator, f.Name, e.Name)
			}
		}
	}
	pattern += literalGlob(separator)
	if len(parts) > 1 {
		pattern += "*"
	}
	return pattern, ""
}

// literalGlob returns text as a pattern that matches nothing else.
func literalGlob(text string) string {
	return strings.NewReplacer("*", "${*}", "?", "${?}", "$", "${$}").Replace(text)
}
