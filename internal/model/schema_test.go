package model

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"
)

var rewrite = flag.Bool("rewrite", false, "update the expected files")

const schemaFile = "../../docs/model.schema.json"

// The published schema is the one derived from the structs.
func TestSchemaIsShipped(t *testing.T) {
	made := JSONSchema()
	if *rewrite {
		if err := os.WriteFile(schemaFile, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shipped, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, shipped) {
		t.Errorf("%s differs from the types; go test ./internal/model -run TestSchemaIsShipped -rewrite updates it", schemaFile)
	}
}

// The schema accepts every valid model, and rejects an unknown field.
func TestSchemaTakesModels(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(JSONSchema(), &root); err != nil {
		t.Fatal(err)
	}
	v := validator{root}
	files, _ := filepath.Glob("../../apps/*/*.model.yaml")
	fixed, _ := filepath.Glob("testdata/faults/*.fixed.model.yaml")
	examples, _ := filepath.Glob("../../examples/models/*.model.yaml")
	files = append(slices.Concat(files, fixed, examples), "testdata/shapes.model.yaml")
	for _, file := range files {
		if err := v.check(root, loadYAML(t, file), "$"); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	wrong := map[string]any{"model": 1.0, "tables": map[string]any{}, "entities": map[string]any{}, "patterns": []any{}, "colour": "red"}
	if v.check(root, wrong, "$") == nil {
		t.Error("the schema accepts a field that does not exist")
	}
}

func loadYAML(t *testing.T, file string) any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(asJSON, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// validator implements the part of JSON Schema that our schema uses.
type validator struct{ root map[string]any }

func (v validator) check(s map[string]any, value any, at string) error {
	if ref, ok := s["$ref"].(string); ok {
		name := filepath.Base(ref)
		return v.check(v.root["$defs"].(map[string]any)[name].(map[string]any), value, at)
	}
	if several, ok := s["anyOf"].([]any); ok {
		var last error
		for _, one := range several {
			if last = v.check(one.(map[string]any), value, at); last == nil {
				return nil
			}
		}
		return last
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, value) {
		return fmt.Errorf("%s: %v is not one of %v", at, value, enum)
	}
	if err := checkType(s["type"], value, at); err != nil {
		return err
	}
	if pattern, ok := s["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(fmt.Sprint(value)) {
		return fmt.Errorf("%s: %v does not match %s", at, value, pattern)
	}
	if list, ok := value.([]any); ok && s["items"] != nil {
		for i, e := range list {
			if err := v.check(s["items"].(map[string]any), e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	}
	if object, ok := value.(map[string]any); ok {
		return v.members(s, object, at)
	}
	return nil
}

func (v validator) members(s, object map[string]any, at string) error {
	properties, _ := s["properties"].(map[string]any)
	for name, value := range object {
		if p, ok := properties[name].(map[string]any); ok {
			if err := v.check(p, value, at+"."+name); err != nil {
				return err
			}
			continue
		}
		switch more := s["additionalProperties"].(type) {
		case bool:
			return fmt.Errorf("%s does not allow the field %s", at, name)
		case map[string]any:
			if err := v.check(more, value, at+"."+name); err != nil {
				return err
			}
		}
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			return fmt.Errorf("%s lacks %s", at, name)
		}
	}
	return nil
}

func checkType(want any, value any, at string) error {
	is := map[string]bool{}
	switch x := value.(type) {
	case string:
		is["string"] = true
	case bool:
		is["boolean"] = true
	case nil:
		is["null"] = true
	case float64:
		is["number"] = true
		is["integer"] = x == float64(int64(x))
	case []any:
		is["array"] = true
	case map[string]any:
		is["object"] = true
	}
	switch w := want.(type) {
	case string:
		if !is[w] {
			return fmt.Errorf("%s: %v is not of type %s", at, value, w)
		}
	case []any:
		if !slices.ContainsFunc(w, func(one any) bool { return is[one.(string)] }) {
			return fmt.Errorf("%s: %v is not one of %v", at, value, w)
		}
	}
	return nil
}
