package model

import (
	"encoding/json"
	"reflect"
	"strings"
)

// JSONSchema returns the format of a model as a JSON Schema, for editors. It is
// derived from the structs that Parse decodes into.
func JSONSchema() []byte {
	s := &schemaBuilder{defs: make(map[string]any)}
	root := s.object(reflect.TypeFor[Model]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "A model of stator"
	root["$defs"] = s.defs
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("encode the schema: " + err.Error())
	}
	return append(text, '\n')
}

// schemaBuilder collects the definitions of structs, each once.
type schemaBuilder struct{ defs map[string]any }

// ref returns a reference to the definition of a struct.
func (s *schemaBuilder) ref(t reflect.Type) map[string]any {
	name := t.Name()
	if _, made := s.defs[name]; !made {
		s.defs[name] = nil // it may refer to itself
		s.defs[name] = s.object(t)
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// object returns the schema of a struct: a mapping, or the scalar that may
// stand for it.
func (s *schemaBuilder) object(t reflect.Type) map[string]any {
	members := make(map[string]any)
	var required []string
	var short map[string]any
	for _, f := range fieldSpecs(t) {
		of := t.FieldByIndex(f.index)
		member := s.member(of.Type, f)
		if f.short {
			short = s.member(of.Type, f)
		}
		if doc := of.Tag.Get("doc"); doc != "" {
			member["description"] = doc
		}
		members[f.name] = member
		if f.required {
			required = append(required, f.name)
		}
	}
	object := map[string]any{"type": "object", "additionalProperties": false, "properties": members}
	if required != nil {
		object["required"] = required
	}
	if short != nil {
		return map[string]any{"anyOf": []any{short, object}}
	}
	return object
}

// member returns the schema of one field of a struct.
func (s *schemaBuilder) member(t reflect.Type, f fieldSpec) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	number := map[string]any{"type": []string{"number", "string"}}
	text := map[string]any{"type": "string"}
	switch t {
	case reflect.TypeFor[Rate]():
		return map[string]any{"type": "string", "pattern": `^[0-9._]+ */ *(` + strings.Join(keysOf(perUnit), "|") + `)$`}
	case reflect.TypeFor[Duration]():
		return map[string]any{"type": "string", "pattern": `^[0-9._]+ *(` + strings.Join(keysOf(durationUnits), "|") + `)$`}
	case reflect.TypeFor[Bytes](), reflect.TypeFor[Count]():
		return number
	case reflect.TypeFor[Names]():
		return map[string]any{"anyOf": []any{text, map[string]any{"type": "array", "items": text}}}
	case reflect.TypeFor[Projection]():
		return map[string]any{"anyOf": []any{map[string]any{"enum": []string{"ALL", "KEYS_ONLY"}}, map[string]any{"type": "array", "items": text, "minItems": 1}}}
	case reflect.TypeFor[Literal]():
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Struct:
		return s.ref(t)
	case reflect.Slice:
		element := t.Elem()
		if f.named {
			return map[string]any{"type": "object", "additionalProperties": s.entry(element.Elem())}
		}
		return map[string]any{"type": "array", "items": s.member(element, fieldSpec{})}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return map[string]any{"type": "number", "minimum": 0}
	}
	if len(f.oneof) > 0 {
		return map[string]any{"enum": enumOf(f.oneof)}
	}
	// YAML parses an unquoted word such as 1 or true as another type than a
	// string; a model takes it as it was written.
	return map[string]any{"type": []string{"string", "number", "boolean"}}
}

// enumOf returns the values of an enumeration. YAML parses the word NULL without quotes
// as null.
func enumOf(words []string) (values []any) {
	for _, word := range words {
		values = append(values, word)
		if word == "NULL" {
			values = append(values, nil)
		}
	}
	return values
}

// entry returns the schema of the value of a named entry.
func (s *schemaBuilder) entry(t reflect.Type) map[string]any {
	fields := fieldSpecs(t)
	if last := fields[len(fields)-1]; last.scalar {
		return s.member(t.FieldByIndex(last.index).Type, last)
	}
	return map[string]any{"anyOf": []any{s.ref(t), map[string]any{"type": "null"}}}
}
