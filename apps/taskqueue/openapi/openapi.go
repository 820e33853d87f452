// Package openapi has the description of the task queue's HTTP API in the form of
// OpenAPI 3.1, which the server serves and from which clients are generated.
package openapi

import (
	"bytes"
	_ "embed" // openapi.json
	"encoding/json"
	"fmt"
	"strings"
)

// Text is the description.
//
//go:embed openapi.json
var Text []byte

// Document is a description of an API: the parts of OpenAPI that this one uses.
type Document struct {
	OpenAPI    string                      `json:"openapi"`
	Paths      Ordered[Ordered[Operation]] `json:"paths"`
	Components struct {
		Parameters Ordered[Parameter] `json:"parameters"`
		Schemas    Ordered[*Schema]   `json:"schemas"`
	} `json:"components"`
}

// Operation is a request of the API.
type Operation struct {
	ID          string           `json:"operationId"`
	Summary     string           `json:"summary"`
	Description string           `json:"description"`
	Parameters  []Parameter      `json:"parameters"`
	Body        *Content         `json:"requestBody"`
	Responses   Ordered[Content] `json:"responses"`
}

// Parameter is a parameter in the path or in the query.
type Parameter struct {
	Ref         string  `json:"$ref"`
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Required    bool    `json:"required"`
	Description string  `json:"description"`
	Schema      *Schema `json:"schema"`
}

// Content is the body of a request or a reply.
type Content struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Schema *Schema `json:"schema"`
	} `json:"content"`
}

// Schema describes a JSON value.
type Schema struct {
	Ref         string           `json:"$ref"`
	Type        string           `json:"type"`
	Description string           `json:"description"`
	Format      string           `json:"format"`
	Enum        []string         `json:"enum"`
	Items       *Schema          `json:"items"`
	Properties  Ordered[*Schema] `json:"properties"`
	Required    []string         `json:"required"`
	Additional  json.RawMessage  `json:"additionalProperties"`
}

// Parse reads the description.
func Parse(text []byte) (*Document, error) {
	d := new(Document)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read the description of the API: %w", err)
	}
	return d, nil
}

// Schema returns the schema that a reference names, or "" and the schema itself if it
// is not a reference.
func (d *Document) Schema(s *Schema) (name string, schema *Schema) {
	if s == nil || s.Ref == "" {
		return "", s
	}
	name = strings.TrimPrefix(s.Ref, "#/components/schemas/")
	return name, d.Components.Schemas.Of[name]
}

// Parameter returns the parameter that a reference names, or the parameter itself.
func (d *Document) Parameter(p Parameter) Parameter {
	if p.Ref == "" {
		return p
	}
	return d.Components.Parameters.Of[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
}

// JSON returns the schema of a JSON body, or nil.
func (c *Content) JSON() *Schema {
	if c == nil {
		return nil
	}
	return c.Content["application/json"].Schema
}

// Ordered is a JSON object whose members keep their order.
type Ordered[T any] struct {
	Names []string
	Of    map[string]T
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Ordered[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil { // the brace
		return err
	}
	o.Of = make(map[string]T)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var v T
		if err := d.Decode(&v); err != nil {
			return err
		}
		o.Names = append(o.Names, name.(string))
		o.Of[name.(string)] = v
	}
	return nil
}
