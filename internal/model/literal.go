package model

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/stator-db/stator/internal/data/item"
)

// Literal is a value in a model: a scalar, a list or a map.
type Literal struct {
	Position Position

	kind    literalKind
	text    string
	list    []Literal
	entries []*Setting
}

type literalKind byte

const (
	literalNone literalKind = iota
	literalString
	literalNumber
	literalBool
	literalNull
	literalList
	literalMap
)

// Text returns a scalar as it was written.
func (l Literal) Text() string { return l.text }

// Texts returns the scalars of a list, or the only scalar.
func (l Literal) Texts() []string {
	if l.kind != literalList {
		return []string{l.text}
	}
	var all []string
	for _, e := range l.list {
		all = append(all, e.text)
	}
	return all
}

// StringLiteral returns a literal that is a string.
func StringLiteral(s string) Literal { return Literal{kind: literalString, text: s} }

// literal decodes any node.
func (d *yamlDecoder) literal(n ast.Node, depth int) Literal {
	l := Literal{Position: positionOf(n)}
	if depth > maxNesting {
		d.fault(l.Position, "lists and mappings are nested more than %d levels deep", maxNesting)
		return l
	}
	switch x := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		l.kind, l.text = literalString, text(n)
	case *ast.IntegerNode, *ast.FloatNode:
		l.kind, l.text = literalNumber, strings.ReplaceAll(text(n), "_", "")
		if _, err := item.ParseNumber(l.text); err != nil {
			d.fault(l.Position, "%s is not a DynamoDB number: write it in decimal digits", text(n))
		}
	case *ast.BoolNode:
		l.kind, l.text = literalBool, "false"
		if x.Value {
			l.text = "true"
		}
	case *ast.NullNode:
		l.kind, l.text = literalNull, "null"
	case *ast.SequenceNode:
		l.kind = literalList
		for _, e := range x.Values {
			l.list = append(l.list, d.literal(e, depth+1))
		}
	case *ast.MappingNode, *ast.MappingValueNode:
		l.kind = literalMap
		members, _ := d.mapping(n)
		for _, m := range members {
			if m.Key == nil || m.Value == nil || m.Key.GetToken() == nil {
				continue
			}
			s := &Setting{Name: m.Key.GetToken().Value, Value: d.literal(m.Value, depth+1)}
			s.Position = positionOf(m.Key)
			l.entries = append(l.entries, s)
		}
	default:
		d.fault(l.Position, "expected a value; anchors, aliases, tags and infinities are not supported")
	}
	return l
}

// guess is the type that a literal has by its syntax alone.
func (l Literal) guess() item.Type {
	switch l.kind {
	case literalNumber:
		return item.N
	case literalBool:
		return item.BOOL
	case literalNull:
		return item.NULL
	case literalList:
		return item.L
	case literalMap:
		return item.M
	}
	return item.S
}

// value converts the literal to a value of a type.
func (l Literal) value(t item.Type) (item.Value, error) {
	bad := func() (item.Value, error) {
		return nil, fmt.Errorf("%s is not of type %s", l.show(), t)
	}
	switch t {
	case item.S:
		if l.kind == literalString || l.kind == literalNumber || l.kind == literalBool {
			return item.String(l.text), nil
		}
	case item.N:
		if l.kind == literalNumber || l.kind == literalString {
			n, err := item.ParseNumber(l.text)
			if err != nil {
				return bad()
			}
			return item.Num(n), nil
		}
	case item.B:
		if l.kind == literalString {
			b, err := base64.StdEncoding.DecodeString(l.text)
			if err != nil {
				return bad()
			}
			return item.Binary(b), nil
		}
	case item.BOOL:
		if l.kind == literalBool {
			return item.Bool(l.text == "true"), nil
		}
	case item.NULL:
		if l.kind == literalNull {
			return item.Null(), nil
		}
	case item.SS, item.NS, item.BS:
		return l.set(t)
	case item.L:
		if l.kind == literalList {
			var all []item.Value
			for _, e := range l.list {
				v, err := e.value(e.guess())
				if err != nil {
					return nil, err
				}
				all = append(all, v)
			}
			return item.List(all...), nil
		}
	case item.M:
		if l.kind == literalMap {
			attrs := make(map[string]item.Value)
			for _, s := range l.entries {
				v, err := s.Value.value(s.Value.guess())
				if err != nil {
					return nil, err
				}
				attrs[s.Name] = v
			}
			return item.Map(item.Make(attrs)), nil
		}
	}
	return bad()
}

func (l Literal) set(t item.Type) (item.Value, error) {
	members := l.list
	if l.kind != literalList {
		members = []Literal{l}
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("a set has at least one member")
	}
	var all []item.Value
	for _, e := range members {
		v, err := e.value(t.Member())
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return item.Set(t, all...), nil
}

func (l Literal) show() string {
	switch l.kind {
	case literalList:
		return "a list"
	case literalMap:
		return "a map"
	case literalString:
		return fmt.Sprintf("%q", l.text)
	}
	return l.text
}
