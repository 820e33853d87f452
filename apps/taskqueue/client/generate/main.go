// Command generate writes the clients for JavaScript and Python from the
// description of the API and a template of each file.
package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/stator-db/stator/apps/taskqueue/openapi"
)

//go:embed *.tmpl
var templates embed.FS

// targets are the generated files, in the folder of package client, by template.
var targets = map[string]string{
	"javascript.tmpl": "javascript/taskqueue.js",
	"typescript.tmpl": "javascript/taskqueue.d.ts",
	"python.tmpl":     "python/taskqueue.py",
}

func main() {
	for name, target := range targets {
		text, err := generate(name)
		if err == nil {
			err = os.WriteFile(filepath.FromSlash(target), text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}

// generate executes a template.
func generate(name string) ([]byte, error) {
	d, err := openapi.Parse(openapi.Text)
	if err != nil {
		return nil, err
	}
	l := languages[name]
	t, err := template.New(name).Funcs(template.FuncMap{
		"type": func(s *openapi.Schema) string { return l.typeOf(d, s) }, "snake": snake, "wrap": wrap, "required": required,
	}).ParseFS(templates, name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, newAPI(d)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// api is what the templates see of the description.
type api struct {
	Schemas    []schema
	Operations []operation
}

type schema struct {
	Name string
	*openapi.Schema
}

// operation is a request: a method of the client.
type operation struct {
	openapi.Operation
	Method, Path string
	InPath       []openapi.Parameter
	InQuery      []openapi.Parameter
	Body, Reply  *openapi.Schema // may be nil
	MayBeEmpty   bool            // a reply without content is possible
}

func newAPI(d *openapi.Document) api {
	var a api
	for _, name := range d.Components.Schemas.Names {
		a.Schemas = append(a.Schemas, schema{name, d.Components.Schemas.Of[name]})
	}
	for _, path := range d.Paths.Names {
		if !strings.HasPrefix(path, "/v1/") {
			continue // not for programs that use the queue
		}
		for _, method := range d.Paths.Of[path].Names {
			a.Operations = append(a.Operations, newOperation(d, method, path, d.Paths.Of[path].Of[method]))
		}
	}
	return a
}

func newOperation(d *openapi.Document, method, path string, in openapi.Operation) operation {
	o := operation{Operation: in, Method: strings.ToUpper(method), Path: path, Body: in.Body.JSON()}
	for _, p := range in.Parameters {
		if p = d.Parameter(p); p.In == "path" {
			o.InPath = append(o.InPath, p)
		} else {
			o.InQuery = append(o.InQuery, p)
		}
	}
	for code, reply := range in.Responses.Of {
		switch {
		case code == "204":
			o.MayBeEmpty = true
		case strings.HasPrefix(code, "2"):
			o.Reply = reply.JSON()
		}
	}
	return o
}

// language has the names of types in a language.
type language struct {
	scalars   map[string]string
	array     string // format of an array
	numbers   string // of an object whose members are numbers
	enum, any string // format of a value; any value
	or        string // between the values of an enum
}

var (
	typescript = language{map[string]string{"string": "string", "integer": "number", "boolean": "boolean"}, "%s[]", "Record<string, number>", "%q", "unknown", " | "}
	python     = language{map[string]string{"string": "str", "integer": "int", "boolean": "bool"}, "List[%s]", "Dict[str, int]", "%q", "Any", ", "}

	languages = map[string]language{"javascript.tmpl": typescript, "typescript.tmpl": typescript, "python.tmpl": python}
)

func (l language) typeOf(d *openapi.Document, s *openapi.Schema) string {
	name, _ := d.Schema(s)
	switch {
	case name != "":
		return name
	case s.Enum != nil:
		values := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			values[i] = fmt.Sprintf(l.enum, v)
		}
		return strings.Join(values, l.or)
	case s.Type == "array":
		return fmt.Sprintf(l.array, l.typeOf(d, s.Items))
	case s.Type == "object" && string(s.Additional) != "true":
		return l.numbers
	case l.scalars[s.Type] != "":
		return l.scalars[s.Type]
	}
	return l.any
}

func required(s schema, name string) bool {
	for _, r := range s.Required {
		if r == name {
			return true
		}
	}
	return false
}

// snake returns a name in the form of Python's functions.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// wrap breaks a text into lines that start with a prefix.
func wrap(prefix, text string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(prefix)+len(line)+len(word) >= 100 {
			lines = append(lines, prefix+line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return strings.Join(append(lines, prefix+line), "\n")
}
