package workload

import "strings"

// Text describes a shape in one line.
func (s *Shape) Text() string {
	text := s.Operation
	if s.Statement {
		text = "a statement like " + text
	}
	if s.Table != "" {
		text += " of " + s.Table
	}
	if s.Index != "" {
		text += "." + s.Index
	}
	if s.Actions != "" {
		text += " (" + s.Actions + ")"
	} else if s.Form != "" {
		text += " " + s.Form
	}
	for _, part := range []struct {
		has        bool
		word, text string
	}{
		{s.Partition+s.Sort != "", "with the key", strings.TrimSpace(s.Partition + " " + s.Sort)},
		{s.Filter, "with a filter", s.FilterText}, {s.Condition, "with a condition", s.ConditionText},
		{s.Projection != "", "with a projection", s.Projection}, {s.Consistent, "consistent", ""},
	} {
		if part.has {
			text += ", " + strings.TrimSpace(part.word+" "+part.text)
		}
	}
	return text
}
