package openapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Check returns nil if a JSON value is as a schema describes it: it has the types,
// the required members, and no members that are not described.
func (d *Document) Check(s *Schema, v any) error {
	_, s = d.Schema(s)
	if s == nil {
		return fmt.Errorf("has no schema")
	}
	switch s.Type {
	case "":
		return nil // any value
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("is %v, want an object", v)
		}
		return d.checkObject(s, m)
	case "array":
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("is %v, want an array", v)
		}
		for i, x := range list {
			if err := d.Check(s.Items, x); err != nil {
				return fmt.Errorf("[%d] %w", i, err)
			}
		}
		return nil
	}
	return checkScalar(s, v)
}

func (d *Document) checkObject(s *Schema, m map[string]any) error {
	for _, name := range s.Required {
		if _, ok := m[name]; !ok {
			return fmt.Errorf("lacks %s", name)
		}
	}
	for name, v := range m {
		p, ok := s.Properties.Of[name]
		switch {
		case !ok && s.Additional == nil:
			return fmt.Errorf("has %s, which is not described", name)
		case !ok && string(s.Additional) == "true":
			continue
		case !ok:
			p = new(Schema)
			if err := json.Unmarshal(s.Additional, p); err != nil {
				return err
			}
		}
		if err := d.Check(p, v); err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
	}
	return nil
}

func checkScalar(s *Schema, v any) error {
	ok := false
	switch s.Type {
	case "string":
		var text string
		text, ok = v.(string)
		if ok && s.Format == "date-time" {
			_, err := time.Parse(time.RFC3339, text)
			ok = err == nil
		}
		if ok && s.Enum != nil {
			ok = slices.Contains(s.Enum, text)
		}
	case "integer":
		var n float64
		n, ok = v.(float64)
		ok = ok && n == float64(int64(n))
	case "boolean":
		_, ok = v.(bool)
	}
	if !ok {
		return fmt.Errorf("is %v, want a %s %s%v", v, s.Type, s.Format, s.Enum)
	}
	return nil
}
