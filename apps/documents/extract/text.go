package extract

import (
	"context"
	"strings"
)

// maxValue is the maximum length of a value, in bytes.
const maxValue = 10_000

// fromText searches lines of text for fields.
func fromText(ctx context.Context, text string, e Extraction) ([]Field, error) {
	if len(text) > maxText {
		return nil, unreadable("the text has %d bytes, but at most %d are read", len(text), maxText)
	}
	lines := strings.Split(text, "\n")
	lower := make([]string, len(lines))
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
		lower[i] = strings.ToLower(lines[i])
		if len(lower[i]) != len(lines[i]) { // lower case changes the length: offsets would not match
			lower[i] = lines[i]
		}
	}
	fields := make([]Field, 0, len(e.Fields))
	for i := range e.Fields {
		if ctx.Err() != nil {
			return nil, unreadable("reading it took too long")
		}
		fields = append(fields, e.Fields[i].find(text, lines, lower))
	}
	return fields, nil
}

// find searches for one field: after a label first, then anywhere by its pattern.
func (s *Spec) find(text string, lines, lower []string) Field {
	var best Field
	others := make(map[string]bool)
	for _, label := range s.Labels {
		label := strings.ToLower(label)
		for i := range lower {
			at := labelled(lower[i], label)
			if at < 0 {
				continue
			}
			f := s.valueAfter(lines, i, at, at+len(label))
			if f.Value != "" && len(others) < 10 {
				others[f.Value] = true
			}
			if f.Confidence > best.Confidence {
				best = f
			}
		}
	}
	if len(others) > 1 { // ambiguous
		best.Confidence *= 0.85
	}
	if best.Value == "" && s.pattern != nil {
		if v, ok := s.matched(text); ok {
			best = Field{Value: v, Confidence: 0.75, Source: "pattern"}
		}
	}
	best.Name = s.Name
	if len(best.Value) > maxValue {
		best.Value, best.Confidence = strings.ToValidUTF8(best.Value[:maxValue], ""), best.Confidence/2
	}
	return best
}

// labelled returns the offset of a label in a line as a whole word, or -1.
func labelled(line, label string) int {
	for from := 0; ; {
		at := strings.Index(line[from:], label)
		if at < 0 {
			return -1
		}
		at += from
		end := at + len(label)
		if (at == 0 || !wordly(line[at-1])) && (end == len(line) || !wordly(line[end])) {
			return at
		}
		from = end
	}
}

func wordly(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// valueAfter returns the value after a label, or in the next line if there is none.
func (s *Spec) valueAfter(lines []string, i, start, end int) Field {
	confidence := 0.97
	if start > 0 {
		confidence = 0.9
	}
	rest := lines[i][end:]
	marked := strings.HasPrefix(strings.TrimLeft(rest, " \t"), ":") || strings.HasPrefix(strings.TrimLeft(rest, " \t"), "=")
	rest = strings.Trim(rest, " \t:=#.")
	if rest == "" {
		if i+1 == len(lines) {
			return Field{}
		}
		rest, confidence = lines[i+1], 0.8
	} else if !marked {
		confidence -= 0.07
	}
	if s.pattern != nil {
		if v, ok := s.matched(rest); ok {
			return Field{Value: v, Confidence: min(confidence+0.02, 0.99), Source: "label"}
		}
		confidence *= 0.5
	}
	v, ok := types[s.Type](rest)
	switch {
	case ok:
		return Field{Value: v, Confidence: confidence, Source: "label"}
	case rest == "":
		return Field{}
	}
	return Field{Value: rest, Confidence: 0.3, Source: "label"} // a value of another type
}

// matched returns what the pattern finds, normalised for its type.
func (s *Spec) matched(text string) (string, bool) {
	m := s.pattern.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	v := m[0]
	if len(m) > 1 {
		v = m[1]
	}
	return types[s.Type](v)
}
