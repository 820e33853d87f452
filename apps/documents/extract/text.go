package extract

import (
	"context"
	"strings"
)

// maxValue is how long the value of a field may be, in bytes.
const maxValue = 10_000

// fromText looks for fields in lines of text.
func fromText(ctx context.Context, text string, e Extraction) ([]Field, error) {
	if len(text) > maxText {
		return nil, unreadable("there are %d bytes of text, but at most %d are read", len(text), maxText)
	}
	lines := strings.Split(text, "\n")
	lower := make([]string, len(lines))
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
		lower[i] = strings.ToLower(lines[i])
		if len(lower[i]) != len(lines[i]) { // letters whose sizes differ: places would not fit
			lower[i] = lines[i]
		}
	}
	fields := make([]Field, 0, len(e.Fields))
	for i := range e.Fields {
		if ctx.Err() != nil {
			return nil, unreadable("it took too long to read")
		}
		fields = append(fields, e.Fields[i].find(text, lines, lower))
	}
	return fields, nil
}

// find looks for one field: behind a label first, anywhere by its pattern then.
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
			f := s.beside(lines, i, at, at+len(label))
			if f.Value != "" && len(others) < 10 {
				others[f.Value] = true
			}
			if f.Confidence > best.Confidence {
				best = f
			}
		}
	}
	if len(others) > 1 { // several answers: which is right?
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

// labelled is where a label stands in a line as a word of its own, or -1.
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

// beside is the value behind a label, or in the next line when nothing is there.
func (s *Spec) beside(lines []string, i, start, end int) Field {
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
	return Field{Value: rest, Confidence: 0.3, Source: "label"} // something is there, but of another type
}

// matched is what the pattern finds, written as the type has it.
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
