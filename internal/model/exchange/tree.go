package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/stator-db/stator/internal/model"
)

// sourceTree is a value of a JSON or YAML file, with its position.
type sourceTree struct {
	at      model.Position
	kind    treeKind
	text    string // of a scalar
	list    []*sourceTree
	members []treeMember
}

type treeMember struct {
	name  string
	at    model.Position
	value *sourceTree
}

type treeKind byte

const (
	treeNull treeKind = iota
	treeString
	treeNumber
	treeBool
	treeList
	treeMap
)

func (k treeKind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a mapping"}[k]
}

// get returns a nested member of a map, nil if there is none.
func (t *sourceTree) get(names ...string) *sourceTree {
	for _, name := range names {
		if t == nil || t.kind != treeMap {
			return nil
		}
		var found *sourceTree
		for _, m := range t.members {
			if m.name == name {
				found = m.value
			}
		}
		t = found
	}
	return t
}

// parseSource parses a file that is JSON or YAML.
func parseSource(f File) (*sourceTree, error) {
	fault := func(at model.Position, format string, args ...any) error {
		return Faults{{File: f.Name, At: at, Message: fmt.Sprintf(format, args...)}}
	}
	if at, deep := tooDeep(f.Text); deep {
		return nil, fault(at, "lists and mappings are nested too deeply")
	}
	if text := bytes.TrimLeft(f.Text, " \t\r\n\ufeff"); len(text) > 0 && text[0] == '{' {
		t, at, err := parseJSON(f.Text)
		if err == nil {
			return t, nil
		}
		if strings.HasSuffix(f.Name, ".json") {
			return nil, fault(at, "this is not valid JSON: %v", err)
		}
	}
	nests := func(c, next byte) bool { return strings.IndexByte("-?:", c) >= 0 && (next == ' ' || next == '\t') }
	if at, deep := tooMany(f.Text, nests); deep {
		return nil, fault(at, "lists and mappings are nested too deeply")
	}
	file, err := parseYAML(f.Text)
	var yamlErr yaml.Error
	switch {
	case errors.As(err, &yamlErr) && yamlErr.GetToken() != nil && yamlErr.GetToken().Position != nil:
		p := yamlErr.GetToken().Position
		return nil, fault(model.Position{Line: p.Line, Column: p.Column}, "this is not valid YAML: %s", yamlErr.GetMessage())
	case err != nil:
		return nil, fault(model.Position{}, "this is not valid YAML: %v", err)
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		return nil, fault(model.Position{}, "the file is empty")
	}
	y := yamlReader{}
	t := y.tree(file.Docs[0].Body, 0)
	if y.err != "" {
		return nil, fault(y.at, "%s", y.err)
	}
	return t, nil
}

// parseJSON parses JSON. With an error it returns its position.
func parseJSON(text []byte) (*sourceTree, model.Position, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	r := jsonReader{in: in, lines: lineStarts(text)}
	t, err := r.tree(0)
	if err == nil {
		if _, err = in.Token(); errors.Is(err, io.EOF) {
			return t, model.Position{}, nil
		}
		err = fmt.Errorf("there is text after the end")
	}
	return nil, r.position(in.InputOffset()), err
}

type jsonReader struct {
	in    *json.Decoder
	lines []int64 // the offset at which each line starts
}

func lineStarts(text []byte) []int64 {
	starts := []int64{0}
	for i, c := range text {
		if c == '\n' {
			starts = append(starts, int64(i+1))
		}
	}
	return starts
}

// position is the line and column of an offset.
func (r *jsonReader) position(offset int64) model.Position {
	line, ok := slices.BinarySearch(r.lines, offset)
	if !ok {
		line-- // the line that starts before it
	}
	return model.Position{Line: line + 1, Column: int(offset-r.lines[line]) + 1}
}

func (r *jsonReader) tree(depth int) (*sourceTree, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("lists and mappings are nested more than %d levels deep", maxNesting)
	}
	tok, err := r.in.Token()
	if err != nil {
		return nil, err
	}
	t := &sourceTree{at: r.position(max(0, r.in.InputOffset()-1))}
	switch x := tok.(type) {
	case string:
		t.kind, t.text = treeString, x
	case json.Number:
		t.kind, t.text = treeNumber, x.String()
	case bool:
		t.kind, t.text = treeBool, fmt.Sprint(x)
	case json.Delim:
		seen := make(map[string]int)
		for r.in.More() {
			var m treeMember
			if x == '{' {
				key, err := r.in.Token()
				if err != nil {
					return nil, err
				}
				m.name, m.at = key.(string), r.position(r.in.InputOffset())
			}
			if m.value, err = r.tree(depth + 1); err != nil {
				return nil, err
			}
			if i, twice := seen[m.name]; x == '{' && twice {
				t.members[i] = m // the last one wins
			} else if x == '{' {
				seen[m.name] = len(t.members)
				t.members = append(t.members, m)
			} else {
				t.list = append(t.list, m.value)
			}
		}
		t.kind = treeList
		if x == '{' {
			t.kind = treeMap
		}
		if _, err := r.in.Token(); err != nil {
			return nil, err
		}
	}
	return t, nil
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

// yamlReader converts YAML to trees. The short forms of CloudFormation's
// functions, such as !Ref, become the long ones.
type yamlReader struct {
	err string
	at  model.Position
}

func (y *yamlReader) fault(at model.Position, message string) *sourceTree {
	if y.err == "" {
		y.err, y.at = message, at
	}
	return &sourceTree{at: at}
}

func positionOf(n ast.Node) model.Position {
	if n == nil || reflect.ValueOf(n).IsNil() {
		return model.Position{}
	}
	tok := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && m.Values[0].Key != nil {
		tok = m.Values[0].Key.GetToken()
	} else if m, ok := n.(*ast.MappingValueNode); ok && m.Key != nil {
		tok = m.Key.GetToken()
	}
	if tok == nil || tok.Position == nil {
		return model.Position{}
	}
	return model.Position{Line: tok.Position.Line, Column: tok.Position.Column}
}

func (y *yamlReader) tree(n ast.Node, depth int) *sourceTree {
	at := positionOf(n)
	if depth > maxNesting {
		return y.fault(at, fmt.Sprintf("lists and mappings are nested more than %d levels deep", maxNesting))
	}
	t := &sourceTree{at: at}
	switch x := n.(type) {
	case nil, *ast.NullNode:
	case *ast.StringNode:
		t.kind, t.text = treeString, x.Value
		// YAML 1.1, which CloudFormation uses, has more words for booleans.
		if x.GetToken().Type == token.StringType {
			switch strings.ToLower(x.Value) {
			case "yes", "on":
				t.kind, t.text = treeBool, "true"
			case "no", "off":
				t.kind, t.text = treeBool, "false"
			}
		}
	case *ast.LiteralNode:
		t.kind = treeString
		if x.Value != nil {
			t.text = x.Value.Value
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		t.kind, t.text = treeNumber, n.GetToken().Value
	case *ast.BoolNode:
		t.kind, t.text = treeBool, fmt.Sprint(x.Value)
	case *ast.SequenceNode:
		t.kind = treeList
		for _, e := range x.Values {
			t.list = append(t.list, y.tree(e, depth+1))
		}
	case *ast.MappingNode:
		t.kind = treeMap
		for _, m := range x.Values {
			y.member(t, m, depth)
		}
	case *ast.MappingValueNode:
		t.kind = treeMap
		y.member(t, x, depth)
	case *ast.TagNode:
		return y.tagged(x, depth)
	default:
		return y.fault(at, "anchors, aliases and merges are not supported: write the value out in full")
	}
	return t
}

func (y *yamlReader) member(t *sourceTree, m *ast.MappingValueNode, depth int) {
	if m == nil || m.Key == nil || m.Key.GetToken() == nil {
		y.fault(t.at, "a field has no name")
		return
	}
	if _, merge := m.Key.(*ast.MergeKeyNode); merge {
		y.fault(positionOf(m.Key), "anchors, aliases and merges are not supported: write the value out in full")
		return
	}
	t.members = append(t.members, treeMember{m.Key.GetToken().Value, positionOf(m.Key), y.tree(m.Value, depth+1)})
}

// tagged returns a value with a tag as {Fn::Name: value}.
func (y *yamlReader) tagged(n *ast.TagNode, depth int) *sourceTree {
	at := positionOf(n)
	inner := y.tree(n.Value, depth+1)
	name := strings.TrimPrefix(n.GetToken().Value, "!")
	if strings.HasPrefix(name, "!") || name == "" {
		return inner // standard tags such as !!str
	}
	if name == "GetAtt" && inner.kind == treeString {
		resource, attr, _ := strings.Cut(inner.text, ".")
		inner = &sourceTree{at: inner.at, kind: treeList, list: []*sourceTree{
			{at: inner.at, kind: treeString, text: resource}, {at: inner.at, kind: treeString, text: attr},
		}}
	}
	if name != "Ref" && name != "Condition" {
		name = "Fn::" + name
	}
	return &sourceTree{at: at, kind: treeMap, members: []treeMember{{name, at, inner}}}
}
