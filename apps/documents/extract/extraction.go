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

// Extraction is what a workflow wants of a document.
type Extraction struct {
	// Extractor is "builtin", the default, or "service": the model service that
	// the operator named.
	Extractor string `json:"extractor,omitempty"`
	Fields    []Spec `json:"fields"`
}

// Spec is one field that is wanted.
type Spec struct {
	Name     string   `json:"name"`
	Type     Type     `json:"type,omitempty"`    // text unless given
	Labels   []string `json:"labels,omitempty"`  // what stands before it, or above its column
	Pattern  string   `json:"pattern,omitempty"` // what it looks like; the first group, if there is one
	Required bool     `json:"required,omitempty"`

	pattern *regexp.Regexp
}

// The bounds of an extraction.
const (
	maxFields  = 100
	maxLabels  = 10
	maxPattern = 300
	maxName    = 60
)

// ParseExtraction reads and checks what a workflow wants.
func ParseExtraction(text []byte) (Extraction, error) {
	var e Extraction
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&e); err != nil {
		return e, fmt.Errorf("the extraction is not JSON of the right form: %w", err)
	}
	if _, err := in.Token(); err != io.EOF {
		return e, errors.New("something follows the extraction")
	}
	if e.Extractor != "" && e.Extractor != "builtin" && e.Extractor != "service" {
		return e, fmt.Errorf(`the extractor is %.60q, but must be "builtin" or "service"`, e.Extractor)
	}
	if len(e.Fields) == 0 || len(e.Fields) > maxFields {
		return e, fmt.Errorf("there are %d fields, but must be 1 to %d", len(e.Fields), maxFields)
	}
	seen := make(map[string]bool)
	for i := range e.Fields {
		s := &e.Fields[i]
		if err := s.check(); err != nil {
			return e, fmt.Errorf("field %d, %.60q: %w", i+1, s.Name, err)
		}
		if seen[s.Name] {
			return e, fmt.Errorf("two fields are called %q", s.Name)
		}
		seen[s.Name] = true
	}
	return e, nil
}

func (s *Spec) check() error {
	if s.Name == "" || len(s.Name) > maxName || strings.TrimSpace(s.Name) != s.Name {
		return fmt.Errorf("a name has 1 to %d bytes and no space around it", maxName)
	}
	if _, ok := types[s.Type]; !ok {
		return fmt.Errorf("the type is %.60q, but must be text, number, amount, date or email", s.Type)
	}
	if len(s.Labels) > maxLabels {
		return fmt.Errorf("there are %d labels, but can be %d", len(s.Labels), maxLabels)
	}
	for i, l := range s.Labels {
		if l = strings.TrimSpace(l); l == "" || len(l) > maxName {
			return fmt.Errorf("a label has 1 to %d bytes", maxName)
		}
		s.Labels[i] = l
	}
	if len(s.Pattern) > maxPattern {
		return fmt.Errorf("the pattern has %d bytes, but can have %d", len(s.Pattern), maxPattern)
	}
	if s.Pattern != "" {
		p, err := regexp.Compile(s.Pattern)
		if err != nil {
			return fmt.Errorf("the pattern makes no sense: %w", err)
		}
		s.pattern = p
	}
	if len(s.Labels) == 0 && s.Pattern == "" {
		s.Labels = []string{s.Name}
	}
	return nil
}
