package code

import (
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model"
)

// keyRule is what a value must fulfil in a key, so that no other values make the same
// key and the value can be read from it: it ends before each of some texts.
type keyRule struct {
	entity *codeEntity
	key    *model.Field // the attribute that contains the value
	field  *model.Field
	next   string   // the text that follows the value; "" if there is none
	others []string // texts that follow such a value in keys of other entities
	filled bool     // it must not be empty
}

// name says which value it is, for errors.
func (r *keyRule) name() string { return r.field.Name + " of " + r.entity.Name }

// numeric reports whether a number can contain one of the texts.
func (r *keyRule) numeric() bool {
	return slices.ContainsFunc(append([]string{r.next}, r.others...), func(end string) bool { return end != "" && strings.Trim(end, "0123456789.-") == "" })
}

// sameTest reports whether two rules accept the same values.
func (r *keyRule) sameTest(other *keyRule) bool {
	return r.field == other.field && r.filled == other.filled && r.next == other.next && slices.Equal(r.others, other.others)
}

// keyRules returns the rules of the values in a text of an entity: of a key, or of
// another attribute that a value is read from. They are nil for all other attributes.
func (s *codeSpec) keyRules(e *codeEntity, key *model.Field) (rules []*keyRule) {
	if key.Type != item.S || !s.mustBeReadable(e, key) {
		return nil
	}
	parts := key.Operand().Parts
	for i, p := range parts {
		if p.Param.Field == nil {
			continue
		}
		r := &keyRule{entity: e, key: key, field: p.Param.Field, next: textAfter(parts, i), filled: len(parts) > 1}
		for _, end := range s.endsElsewhere(e, key, parts[:i+1]) {
			if end != r.next && !slices.Contains(r.others, end) {
				r.others = append(r.others, end)
			}
		}
		if known := mayContain(r.field, r.next); known {
			r.next = ""
		}
		r.others = slices.DeleteFunc(r.others, func(end string) bool { return mayContain(r.field, end) })
		if r.filled || len(r.others) > 0 {
			rules = append(rules, r)
		}
	}
	return rules
}

// mustBeReadable reports whether an attribute is a key, or another text that a field is
// decoded from.
func (s *codeSpec) mustBeReadable(e *codeEntity, f *model.Field) bool {
	for _, key := range keysOf(e.TableOf()) {
		if key.Has(f.Name) {
			return true
		}
	}
	return slices.ContainsFunc(e.fields, func(x *codeField) bool {
		a := s.source(e, x)
		return a != nil && a.Field == f
	})
}

// keysOf returns the keys of a table and its indexes.
func keysOf(t *model.Table) []schema.Key {
	all := []schema.Key{t.Schema().Key}
	for _, x := range t.Indexes {
		all = append(all, x.Schema().Key)
	}
	return all
}

// textAfter returns the text that follows a part.
func textAfter(parts []model.OperandPart, i int) string {
	if i+1 < len(parts) && isLiteral(parts[i+1]) {
		return parts[i+1].Text
	}
	return ""
}

func isLiteral(p model.OperandPart) bool { return p.Param.Field == nil && p.Shard == nil }

// endsElsewhere returns the texts that follow the last of some parts in the same attribute
// of other entities whose items can be in the same partition.
func (s *codeSpec) endsElsewhere(e *codeEntity, key *model.Field, parts []model.OperandPart) (ends []string) {
	for _, other := range s.entities {
		f, ok := other.Field(key.Name)
		if other == e || other.TableOf() != e.TableOf() || !ok || f.Type != item.S || !meet(e, other, key.Name) {
			continue
		}
		theirs := f.Operand().Parts
		if len(theirs) <= len(parts) || !slices.EqualFunc(parts, theirs[:len(parts)], sameKind) {
			continue
		}
		if end := textAfter(theirs, len(parts)-1); end != "" {
			ends = append(ends, end)
		}
	}
	return ends
}

// sameKind reports whether two parts are the same text, or both a value.
func sameKind(a, b model.OperandPart) bool {
	return isLiteral(a) == isLiteral(b) && a.Text == b.Text
}

// meet reports whether an attribute can make keys of two entities the same, or puts them
// into the same partition: sort keys matter only within a partition.
func meet(a, b *codeEntity, name string) bool {
	return slices.ContainsFunc(keysOf(a.TableOf()), func(key schema.Key) bool {
		if !key.Has(name) {
			return false
		}
		if slices.ContainsFunc(key.Partition, func(x schema.Attribute) bool { return x.Name == name }) {
			return true
		}
		return !slices.ContainsFunc(key.Partition, func(x schema.Attribute) bool {
			f, inA := a.Field(x.Name)
			g, inB := b.Field(x.Name)
			return !inA || !inB || !mayBeEqual(f.Operand(), g.Operand())
		})
	})
}

// mayBeEqual reports whether two values can be equal, by the texts that they begin with.
func mayBeEqual(a, b *model.Operand) bool {
	begin := func(o *model.Operand) (text string, whole bool) {
		switch {
		case o.Constant != nil:
			return plainText(o.Constant), true
		case isLiteral(o.Parts[0]):
			return o.Parts[0].Text, false
		}
		return "", false
	}
	textA, wholeA := begin(a)
	textB, wholeB := begin(b)
	switch {
	case wholeA && wholeB:
		return textA == textB
	case wholeA:
		return strings.HasPrefix(textA, textB)
	case wholeB:
		return strings.HasPrefix(textB, textA)
	}
	return strings.HasPrefix(textA, textB) || strings.HasPrefix(textB, textA)
}

// formatSigns are the characters other than digits that all values of a format contain.
var formatSigns = map[string]string{"uuid": "-", "iso8601": "-T:Z", "iso8601-ms": "-T:.Z", "hour": "-T", "date": "-", "week": "-W", "month": "-"}

// mayContain reports whether the model says that values of a field contain a text, by
// their format or because it lists such values. The text then cannot be a test.
func mayContain(f *model.Field, text string) bool {
	if text == "" || f.Attribute == nil {
		return false
	}
	return strings.Trim(text, formatSigns[f.Attribute.Format]) == "" ||
		slices.ContainsFunc(f.Attribute.Values, func(v string) bool { return strings.Contains(v, text) })
}

// keyCheck is a test of a parameter before a request is built.
type keyCheck struct {
	*keyRule
	param model.Param
}

// bound reports whether the value is the end of a range. It may be empty, or the
// beginning of a value.
func (c keyCheck) bound() bool {
	return c.param.Role == model.RangeFrom || c.param.Role == model.RangeTo
}

// ends returns all texts that the value must not contain.
func (c keyCheck) ends() []string {
	if c.next == "" {
		return c.others
	}
	return append([]string{c.next}, c.others...)
}

// fieldChecks returns the tests of the values of an entity in one of its attributes.
func (s *codeSpec) fieldChecks(e *codeEntity, key *model.Field) (all []keyCheck) {
	for _, r := range s.keyRules(e, key) {
		all = append(all, keyCheck{r, model.Param{Field: r.field}})
	}
	return all
}

// stepChecks returns the tests of the parameters of a step that become parts of keys.
func (s *codeSpec) stepChecks(c *codeStep) (all []keyCheck) {
	for _, member := range []string{"Key", "ExpressionAttributeValues"} {
		values, _ := c.Body[member].(map[string]any)
		for _, ref := range slices.Sorted(maps.Keys(values)) {
			if o := values[ref].(*model.Operand); o.Of != nil {
				all = addChecks(all, operandChecks(o, s.keyRules(c.entity, o.Of))...)
			}
		}
	}
	return all
}

// operandChecks returns the tests of the parameters of an operand.
func operandChecks(o *model.Operand, rules []*keyRule) (all []keyCheck) {
	for _, p := range o.Parts {
		for _, r := range rules {
			if p.Param.Field == nil || p.Param.Role == model.EachShard || p.Leaf != r.field {
				continue
			}
			if c := (keyCheck{r, p.Param}); !c.bound() || len(c.ends()) > 0 {
				all = append(all, c)
			}
		}
	}
	return all
}

// addChecks adds tests that are not among the others already.
func addChecks(all []keyCheck, more ...keyCheck) []keyCheck {
	for _, c := range more {
		if !slices.ContainsFunc(all, func(x keyCheck) bool { return x.param == c.param && x.sameTest(c.keyRule) }) {
			all = append(all, c)
		}
	}
	return all
}
