package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Position is a place in a file. The zero Position is nowhere.
type Position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Location is where a piece of a model stands in its file. The zero Place is that
// of a model that was not read from one.
type Location struct {
	Position Position `yaml:"-"`

	members map[string]Position
}

// At is where a member stands, or else the whole.
func (p *Location) At(member string) Position {
	if at, ok := p.members[member]; ok {
		return at
	}
	return p.Position
}

// Fault is something that is wrong with a model.
type Fault struct {
	Code     string   `json:"code"`              // what kind it is; stable
	Pattern  string   `json:"pattern,omitempty"` // the access pattern it is about, if it is about one
	Message  string   `json:"message"`
	Try      string   `json:"try,omitempty"` // what would mend it
	Position Position `json:"position"`
}

// Error is the message with what to do.
func (f *Fault) Error() string {
	if f.Try == "" {
		return f.Message
	}
	return f.Message + "; " + f.Try
}

// SyntaxError is everything that is wrong with the text of a model.
type SyntaxError struct {
	File   string
	Faults []*Fault
}

// Error is a line for each fault, with file, line and column.
func (e *SyntaxError) Error() string {
	var lines []string
	for _, f := range e.Faults {
		lines = append(lines, Located(e.File, f.Position, f.Error()))
	}
	return strings.Join(lines, "\n")
}

// Located is a message behind its place in a file.
func Located(file string, at Position, message string) string {
	if at.Line == 0 {
		return file + ": " + message
	}
	return fmt.Sprintf("%s:%d:%d: %s", file, at.Line, at.Column, message)
}

func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// suggest is what may have been meant by a name that is not known: the nearest
// of those that are, or all when there are few.
func suggest(name string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	best := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(distance(name, a), distance(name, b)) })
	switch {
	case distance(name, best) <= (len(name)+2)/3:
		return fmt.Sprintf("; did you mean %s?", best)
	case len(known) <= 12:
		return "; expected one of " + strings.Join(known, ", ")
	}
	return ""
}

// distance is how many letters differ between two names; upper and lower case
// are the same, since that is the likeliest slip.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			step := left
			if a[i] != b[j] {
				step++
			}
			left = row[j+1]
			row[j+1] = min(step, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
