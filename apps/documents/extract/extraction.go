package extract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	// Match, Minimum and Maximum validate the value that was found. One that is not
	// valid has little confidence.
	Match   string `json:"match,omitempty"`   // regular expression of the whole value
	Minimum string `json:"minimum,omitempty"` // of a number, an amount or a date
	Maximum string `json:"maximum,omitempty"`

	pattern, match *pattern
}

// The limits of an extraction.
const (
	maxFields  = 100
	maxLabels  = 10
	maxPattern = 300
	maxName    = 60
)

// Problem is a rule that an extraction breaks.
type Problem struct {
	Place   string // such as fields[0].pattern
	Message string
	of      string // the field, such as: field 1, "total"
}

func (p Problem) Error() string {
	if p.of == "" {
		return p.Message
	}
	return p.of + ": " + p.Message
}

// ParseExtraction parses and validates an extraction. It returns the first problem
// as an error.
func ParseExtraction(text []byte) (Extraction, error) {
	e, err := DecodeExtraction(text)
	if err != nil {
		return e, err
	}
	if problems := e.Check(); len(problems) > 0 {
		return e, problems[0]
	}
	return e, nil
}

// DecodeExtraction decodes an extraction, which may have problems.
func DecodeExtraction(text []byte) (Extraction, error) {
	var e Extraction
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&e); err != nil {
		return e, fmt.Errorf("the extraction is not JSON of the right form: %w", err)
	}
	if _, err := in.Token(); err != io.EOF {
		return e, errors.New("there is text after the extraction")
	}
	return e, nil
}

// Check normalises an extraction and returns its problems. An extraction without
// problems can be used.
func (e *Extraction) Check() []Problem {
	var all []Problem
	if !known(e.Extractor) {
		all = append(all, Problem{"extractor", fmt.Sprintf(`the extractor is %.60q, but must be "builtin", "service" or "model"`, e.Extractor), ""})
	}
	if !known(e.Verify) || e.Verify == e.First() {
		all = append(all, Problem{"verify", fmt.Sprintf(`the extractor that verifies is %.60q, but must be "builtin", "service" or "model", and not the first one`, e.Verify), ""})
	}
	if len(e.Fields) == 0 || len(e.Fields) > maxFields {
		return append(all, Problem{"fields", fmt.Sprintf("the extraction has %d fields, but must have 1 to %d", len(e.Fields), maxFields), ""})
	}
	seen := make(map[string]bool)
	for i := range e.Fields {
		s := &e.Fields[i]
		add := func(member string, format string, args ...any) {
			all = append(all, Problem{fmt.Sprintf("fields[%d].%s", i, member), fmt.Sprintf(format, args...), fmt.Sprintf("field %d, %.60q", i+1, s.Name)})
		}
		s.check(add)
		if seen[s.Name] && s.Name != "" {
			add("name", "two fields have the name %.60q", s.Name)
		}
		seen[s.Name] = true
	}
	return all
}

// First returns the name of the extractor, which defaults to the built-in one.
func (e *Extraction) First() string {
	if e.Extractor == "" {
		return "builtin"
	}
	return e.Extractor
}

// known reports whether an extractor exists. The empty one is the default.
func known(name string) bool {
	return name == "" || name == "builtin" || name == "service" || name == "model"
}

func (s *Spec) check(add func(member, format string, args ...any)) {
	if s.Name == "" || len(s.Name) > maxName || strings.TrimSpace(s.Name) != s.Name {
		add("name", "a name must have 1 to %d bytes and no surrounding space", maxName)
	}
	if _, ok := types[s.Type]; !ok {
		add("type", "the type is %.60q, but must be text, address, number, amount, date or email", s.Type)
	}
	if len(s.Labels) > maxLabels {
		add("labels", "the field has %d labels, but can have at most %d", len(s.Labels), maxLabels)
	}
	for i, l := range s.Labels {
		if l = strings.TrimSpace(l); l == "" || len(l) > maxName {
			add("labels", "a label must have 1 to %d bytes", maxName)
			break
		}
		s.Labels[i] = l
	}
	s.pattern = compile("pattern", s.Pattern, "%s", add)
	s.match = compile("match", s.Match, `^(?:%s)$`, add)
	s.checkRange(add)
	if len(s.Labels) == 0 && s.Pattern == "" {
		s.Labels = []string{s.Name}
	}
}

// compile compiles a regular expression within a form. An empty one is none.
func compile(member, text, form string, add func(member, format string, args ...any)) *pattern {
	if len(text) > maxPattern {
		add(member, "the pattern has %d bytes, but can have at most %d", len(text), maxPattern)
		return nil
	}
	if text == "" {
		return nil
	}
	p, err := newPattern(text)
	if err == nil {
		p, err = newPattern(fmt.Sprintf(form, text))
	}
	if err != nil {
		add(member, "the pattern is not valid: %v", err)
		return nil
	}
	return p
}
