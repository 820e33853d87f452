package extract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Extraction describes the fields that a workflow extracts.
type Extraction struct {
	// Extractor is "builtin", the default, "service", the operator's service, or
	// "model", the operator's language model.
	Extractor string `json:"extractor,omitempty"`

	// Verify is a second extractor, which verifies the first one's values.
	Verify string `json:"verify,omitempty"`

	Fields []Spec `json:"fields"`
}

// Spec describes one field.
type Spec struct {
	Name     string   `json:"name"`
	Type     Type     `json:"type,omitempty"`    // defaults to text
	Labels   []string `json:"labels,omitempty"`  // text before the value, or above its column
	Pattern  string   `json:"pattern,omitempty"` // regular expression; its first group, if it has one
	Required bool     `json:"required,omitempty"`

	pattern *regexp.Regexp
}

// The limits of an extraction.
const (
	maxFields  = 100
	maxLabels  = 10
	maxPattern = 300
	maxName    = 60
)

// ParseExtraction parses and validates an extraction.
func ParseExtraction(text []byte) (Extraction, error) {
	var e Extraction
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&e); err != nil {
		return e, fmt.Errorf("the extraction is not JSON of the right form: %w", err)
	}
	if _, err := in.Token(); err != io.EOF {
		return e, errors.New("there is text after the extraction")
	}
	if !known(e.Extractor) {
		return e, fmt.Errorf(`the extractor is %.60q, but must be "builtin", "service" or "model"`, e.Extractor)
	}
	first := e.Extractor
	if first == "" {
		first = "builtin"
	}
	if !known(e.Verify) || e.Verify == first {
		return e, fmt.Errorf(`the extractor that verifies is %.60q, but must be "builtin", "service" or "model", and not the first one`, e.Verify)
	}
	if len(e.Fields) == 0 || len(e.Fields) > maxFields {
		return e, fmt.Errorf("the extraction has %d fields, but must have 1 to %d", len(e.Fields), maxFields)
	}
	seen := make(map[string]bool)
	for i := range e.Fields {
		s := &e.Fields[i]
		if err := s.check(); err != nil {
			return e, fmt.Errorf("field %d, %.60q: %w", i+1, s.Name, err)
		}
		if seen[s.Name] {
			return e, fmt.Errorf("two fields have the name %q", s.Name)
		}
		seen[s.Name] = true
	}
	return e, nil
}

// known reports whether an extractor exists. The empty one is the default.
func known(name string) bool {
	return name == "" || name == "builtin" || name == "service" || name == "model"
}

func (s *Spec) check() error {
	if s.Name == "" || len(s.Name) > maxName || strings.TrimSpace(s.Name) != s.Name {
		return fmt.Errorf("a name must have 1 to %d bytes and no surrounding space", maxName)
	}
	if _, ok := types[s.Type]; !ok {
		return fmt.Errorf("the type is %.60q, but must be text, address, number, amount, date or email", s.Type)
	}
	if len(s.Labels) > maxLabels {
		return fmt.Errorf("the field has %d labels, but can have at most %d", len(s.Labels), maxLabels)
	}
	for i, l := range s.Labels {
		if l = strings.TrimSpace(l); l == "" || len(l) > maxName {
			return fmt.Errorf("a label must have 1 to %d bytes", maxName)
		}
		s.Labels[i] = l
	}
	if len(s.Pattern) > maxPattern {
		return fmt.Errorf("the pattern has %d bytes, but can have at most %d", len(s.Pattern), maxPattern)
	}
	if s.Pattern != "" {
		p, err := regexp.Compile(s.Pattern)
		if err != nil {
			return fmt.Errorf("the pattern is not valid: %w", err)
		}
		s.pattern = p
	}
	if len(s.Labels) == 0 && s.Pattern == "" {
		s.Labels = []string{s.Name}
	}
	return nil
}
