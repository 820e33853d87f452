package model

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file. Anchors and aliases are rejected, so that nothing in a file
// expands to more than it shows.
const (
	maxFileBytes = 1 << 20
	maxLines     = 10_000 // the parser's time grows with their square
	maxNesting   = 32
	maxFaults    = 50
)

// yamlDecoder decodes YAML into the structs of a model, whose tags describe the
// fields.
type yamlDecoder struct{ faults []*Fault }

// decode reads a text into target, a pointer to a struct, and returns all
// faults. A text without the field mark, which identifies the format, is
// another kind of file, and that is its only fault.
func decode(text []byte, target any, mark, what string) []*Fault {
	d := new(yamlDecoder)
	body := d.parse(text)
	if body != nil && d.marked(body, mark, what) {
		d.value(body, reflect.ValueOf(target).Elem(), fieldSpec{}, 0)
	}
	return d.faults
}

func (d *yamlDecoder) fault(at Position, format string, args ...any) {
	if len(d.faults) < maxFaults {
		d.faults = append(d.faults, &Fault{Code: "syntax", Message: fmt.Sprintf(format, args...), Position: at})
	}
}

// marked reports whether a body has the field that identifies the format.
func (d *yamlDecoder) marked(body ast.Node, mark, what string) bool {
	members, ok := d.mapping(body)
	if !ok {
		return false
	}
	for _, m := range members {
		if m.Key.GetToken().Value == mark {
			return true
		}
	}
	d.fault(positionOf(body), "this is not a %s: it has no field %s", what, mark)
	return false
}

// parse returns the only document of the text, nil if there is none or it is
// invalid.
func (d *yamlDecoder) parse(text []byte) ast.Node {
	if len(text) > maxFileBytes {
		d.fault(Position{}, "the file has a size of %s; the limit is %s", Bytes(len(text)), Bytes(maxFileBytes))
		return nil
	}
	if lines := bytes.Count(text, []byte{'\n'}); lines > maxLines {
		d.fault(Position{}, "the file has %d lines; the limit is %d", lines, maxLines)
		return nil
	}
	if at, deep := tooDeep(text); deep {
		d.fault(at, "lists and mappings are nested more than %d levels deep", maxNesting)
		return nil
	}
	file, err := parseYAML(text)
	var yamlErr yaml.Error
	switch {
	case errors.As(err, &yamlErr) && yamlErr.GetToken() != nil && yamlErr.GetToken().Position != nil:
		p := yamlErr.GetToken().Position
		d.fault(Position{p.Line, p.Column}, "this is not valid YAML: %s", yamlErr.GetMessage())
		return nil
	case err != nil:
		d.fault(Position{}, "this is not valid YAML: %v", err)
		return nil
	case len(file.Docs) > 1 && file.Docs[1].Body != nil:
		d.fault(positionOf(file.Docs[1].Body), "the file has a second document; only one is allowed")
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		d.fault(Position{1, 1}, "the file is empty")
		return nil
	}
	return file.Docs[0].Body
}

// parseYAML calls the parser, which is a library, and turns its panics into
// errors.
func parseYAML(text []byte) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the parser failed: %v", r)
		}
	}()
	return parser.ParseBytes(text, 0)
}

// tooDeep looks for nesting that would overflow the parser's stack, without
// parsing. It overestimates: brackets in strings count too.
func tooDeep(text []byte) (Position, bool) {
	const roughly = 16 * maxNesting
	depth, number := 0, 0
	for line := range bytes.Lines(text) {
		number++
		marks := 0
		for i, c := range line {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			case '-', '?', ':':
				// These nest within one line: "- - - a".
				if i+1 < len(line) && (line[i+1] == ' ' || line[i+1] == '\t') {
					marks++
				}
			}
			if depth > roughly || marks > roughly {
				return Position{number, i + 1}, true
			}
		}
	}
	return Position{}, false
}

func positionOf(n ast.Node) Position {
	if n == nil || reflect.ValueOf(n).IsNil() {
		return Position{}
	}
	t := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && m.Values[0].Key != nil {
		t = m.Values[0].Key.GetToken()
	} else if m, ok := n.(*ast.MappingValueNode); ok && m.Key != nil {
		t = m.Key.GetToken()
	}
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{t.Position.Line, t.Position.Column}
}

// fieldSpec is what a struct's tags say about one field.
type fieldSpec struct {
	index    []int
	name     string
	required bool
	named    bool // a mapping from names to elements
	short    bool // a scalar may stand for the whole struct
	scalar   bool // a scalar always stands for the whole struct
	oneof    []string
}

// fieldSpecs returns the fields that a struct accepts.
func fieldSpecs(t reflect.Type) (fields []fieldSpec) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			for _, inner := range fieldSpecs(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
			continue
		}
		tag, ok := f.Tag.Lookup("yaml")
		if !ok || tag == "-" {
			continue
		}
		parts := strings.Split(tag, ",")
		has := func(option string) bool { return slices.Contains(parts[1:], option) }
		fields = append(fields, fieldSpec{
			index: f.Index, name: parts[0],
			required: has("required"), named: has("named"), short: has("short"), scalar: has("scalar"),
			oneof: strings.Fields(f.Tag.Get("oneof")),
		})
	}
	return fields
}

// value decodes one node into one value.
func (d *yamlDecoder) value(n ast.Node, v reflect.Value, f fieldSpec, depth int) {
	if depth > maxNesting {
		d.fault(positionOf(n), "lists and mappings are nested more than %d levels deep", maxNesting)
		return
	}
	switch x := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		d.fault(positionOf(n), "anchors, aliases and merges are not supported: write the value out in full")
		return
	case *ast.TagNode:
		d.fault(positionOf(n), "tags are not supported: remove %s", x.GetToken().Value)
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(n, v.Elem(), f, depth)
		return
	}
	if d.specialType(n, v, depth) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, depth)
	case reflect.Slice:
		if f.named {
			d.entries(n, v, depth)
		} else {
			d.elements(n, v, depth)
		}
	default:
		d.scalar(n, v, f)
	}
}

// structure decodes a mapping into a struct.
func (d *yamlDecoder) structure(n ast.Node, v reflect.Value, depth int) {
	fields := fieldSpecs(v.Type())
	place := d.location(n, v)
	if i := slices.IndexFunc(fields, func(f fieldSpec) bool { return f.short }); i >= 0 && (isScalar(n) || isNullAlone(n, fields[i])) {
		place.members[fields[i].name] = positionOf(n)
		d.value(n, v.FieldByIndex(fields[i].index), fields[i], depth+1)
		return
	}
	members, ok := d.mapping(n)
	if !ok {
		return
	}
	seen := make(map[string]bool)
	for _, m := range members {
		name := m.Key.GetToken().Value
		at := positionOf(m.Key)
		i := slices.IndexFunc(fields, func(f fieldSpec) bool { return f.name == name && !f.scalar })
		if i < 0 {
			var known []string
			for _, f := range fields {
				known = append(known, f.name)
			}
			d.fault(at, "unknown field %s%s", name, suggest(name, known))
			continue
		}
		seen[name] = true
		place.members[name] = positionOf(m.Value)
		d.value(m.Value, v.FieldByIndex(fields[i].index), fields[i], depth+1)
	}
	for _, f := range fields {
		if f.required && !seen[f.name] {
			d.fault(place.Position, "%s is missing", f.name)
		}
	}
	d.shareLocation(v, place)
}

// location records where a struct begins.
func (d *yamlDecoder) location(n ast.Node, v reflect.Value) *Location {
	p, ok := v.FieldByName("Location").Addr().Interface().(*Location)
	if !ok {
		panic(fmt.Sprintf("%s has no Location", v.Type()))
	}
	if p.Position.Line == 0 {
		p.Position = positionOf(n)
	}
	p.members = make(map[string]Position)
	return p
}

// shareLocation gives an embedded struct the location of the outer one.
func (d *yamlDecoder) shareLocation(v reflect.Value, place *Location) {
	if p, ok := v.Addr().Interface().(*Pattern); ok {
		p.Action.Location = *place
	}
}

// mapping returns the fields of a mapping.
func (d *yamlDecoder) mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	var members []*ast.MappingValueNode
	switch x := n.(type) {
	case *ast.MappingNode:
		members = x.Values
	case *ast.MappingValueNode:
		members = []*ast.MappingValueNode{x}
	default:
		d.fault(positionOf(n), "expected a mapping, found %s", kindOf(n))
		return nil, false
	}
	ok := true
	for _, m := range members {
		if m.Key == nil || m.Value == nil || m.Key.GetToken() == nil {
			d.fault(positionOf(m), "a field has no name or no value")
			ok = false
			continue
		}
		switch m.Key.(type) {
		case *ast.StringNode, *ast.IntegerNode, *ast.BoolNode, *ast.NullNode, *ast.FloatNode:
		default:
			d.fault(positionOf(m), "a field name must be plain text, not a merge, an anchor, a list or a mapping")
			ok = false
		}
	}
	return members, ok
}

// entries decodes a mapping of names into a slice of structs that have a Name.
func (d *yamlDecoder) entries(n ast.Node, v reflect.Value, depth int) {
	members, ok := d.mapping(n)
	if !ok {
		return
	}
	element := v.Type().Elem().Elem()
	fields := fieldSpecs(element)
	for _, m := range members {
		x := reflect.New(element).Elem()
		x.FieldByName("Name").SetString(m.Key.GetToken().Value)
		place := d.location(m.Key, x)
		if fields[len(fields)-1].scalar {
			f := fields[len(fields)-1]
			place.members["value"] = positionOf(m.Value)
			d.value(m.Value, x.FieldByIndex(f.index), f, depth+1)
		} else if _, null := m.Value.(*ast.NullNode); !null || slices.ContainsFunc(fields, func(f fieldSpec) bool { return f.required || isNullAlone(m.Value, f) }) {
			d.value(m.Value, x, fieldSpec{}, depth+1)
		}
		v.Set(reflect.Append(v, x.Addr()))
	}
}

// elements decodes a list.
func (d *yamlDecoder) elements(n ast.Node, v reflect.Value, depth int) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fault(positionOf(n), "expected a list, found %s", kindOf(n))
		return
	}
	for _, e := range list.Values {
		x := reflect.New(v.Type().Elem()).Elem()
		d.value(e, x, fieldSpec{}, depth+1)
		v.Set(reflect.Append(v, x))
	}
}

// specialType decodes the types that have a syntax of their own, and reports
// whether v is one.
func (d *yamlDecoder) specialType(n ast.Node, v reflect.Value, depth int) bool {
	target := v.Addr().Interface()
	switch t := target.(type) {
	case *Rate:
		parseScalar(d, n, t, parseRate)
	case *Bytes:
		parseScalar(d, n, t, ParseBytes)
	case *Duration:
		parseScalar(d, n, t, parseDuration)
	case *Count:
		parseScalar(d, n, t, parseCount)
	case *Names:
		if isScalar(n) {
			*t = Names{text(n)}
			return true
		}
		d.elements(n, v, depth)
	case *Projection:
		d.projection(n, t, depth)
	case *Literal:
		*t = d.literal(n, depth)
	default:
		return false
	}
	return true
}

func parseScalar[T any](d *yamlDecoder, n ast.Node, to *T, parse func(string) (T, error)) {
	if !isScalar(n) {
		d.fault(positionOf(n), "expected a single value, found %s", kindOf(n))
		return
	}
	got, err := parse(text(n))
	if err != nil {
		d.fault(positionOf(n), "%s", err)
		return
	}
	*to = got
}

func (d *yamlDecoder) projection(n ast.Node, p *Projection, depth int) {
	if !isScalar(n) {
		p.Kind = "INCLUDE"
		d.elements(n, reflect.ValueOf(&p.Names).Elem(), depth)
		return
	}
	p.Kind = text(n)
	if p.Kind != "ALL" && p.Kind != "KEYS_ONLY" {
		d.fault(positionOf(n), "unknown projection %s%s", p.Kind, suggest(p.Kind, []string{"ALL", "KEYS_ONLY"})+", or a list of attributes")
	}
}

// scalar decodes a plain value.
func (d *yamlDecoder) scalar(n ast.Node, v reflect.Value, f fieldSpec) {
	if !isScalar(n) && !isNullWord(n, f) {
		d.fault(positionOf(n), "expected a single value, found %s", kindOf(n))
		return
	}
	s := text(n)
	if isNullWord(n, f) {
		s = strings.ToUpper(s)
	}
	switch v.Kind() {
	case reflect.String:
		if len(f.oneof) > 0 && !slices.Contains(f.oneof, s) {
			d.fault(positionOf(n), "%s cannot be %q%s", cmp.Or(f.name, "this"), s, suggest(s, f.oneof))
			return
		}
		v.SetString(s)
	case reflect.Bool:
		if s != "true" && s != "false" {
			d.fault(positionOf(n), "%s must be true or false, not %q", f.name, s)
			return
		}
		v.SetBool(s == "true")
	case reflect.Int:
		i, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
		if err != nil || i < 0 || i > maxCount {
			d.fault(positionOf(n), "%s must be a non-negative whole number, not %q", f.name, s)
			return
		}
		v.SetInt(int64(i))
	case reflect.Float64:
		x, err := parseFloat(s)
		if err != nil || x < 0 {
			d.fault(positionOf(n), "%s must be a non-negative number, not %q", f.name, s)
			return
		}
		v.SetFloat(x)
	default:
		panic(fmt.Sprintf("no decoder for %s", v.Type()))
	}
}

func isScalar(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return true
	}
	return false
}

// isNullWord reports whether a node that YAML reads as null is a word that the field can
// be: the type NULL, which other programs write in lower case.
func isNullWord(n ast.Node, f fieldSpec) bool {
	null, ok := n.(*ast.NullNode)
	return ok && null.Token.Type == token.NullType && slices.Contains(f.oneof, strings.ToUpper(null.Token.Value))
}

// isNullAlone reports whether a null stands for a whole attribute of the type NULL. In
// lower case it is an attribute without fields.
func isNullAlone(n ast.Node, f fieldSpec) bool {
	return f.short && isNullWord(n, f) && n.GetToken().Value == "NULL"
}

// text is a scalar as it was written.
func text(n ast.Node) string {
	if l, ok := n.(*ast.LiteralNode); ok && l.Value != nil {
		return l.Value.Value
	}
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value
	}
	return n.GetToken().Value
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	}
	if isScalar(n) {
		return "the value " + strconv.Quote(text(n))
	}
	return "something else"
}
