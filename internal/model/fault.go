package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Position is a line and column in a file. The zero Position is unknown.
type Position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// compare orders positions as they are in the file.
func (p Position) compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Line, other.Line), cmp.Compare(p.Column, other.Column))
}

// Location is where a part of a model is in its file. The zero Location is that
// of a model that was not read from a file.
type Location struct {
	Position Position `yaml:"-"`

	members map[string]Position
}

// At returns the position of a field, or of the whole part if the field is not
// given.
func (p *Location) At(member string) Position {
	if at, ok := p.members[member]; ok {
		return at
	}
	return p.Position
}

// Fault is something that is wrong with a model.
type Fault struct {
	Code     string   `json:"code"`              // kind of fault; stable
	Pattern  string   `json:"pattern,omitempty"` // the access pattern it is about, if any
	Message  string   `json:"message"`
	Try      string   `json:"try,omitempty"` // how to fix it
	Position Position `json:"position"`
}

// Error returns the message, followed by how to fix it.
func (f *Fault) Error() string {
	if f.Try == "" {
		return f.Message
	}
	return f.Message + "; " + f.Try
}

// SyntaxError lists everything that is wrong with the text of a model.
type SyntaxError struct {
	File   string
	Faults []*Fault
}

// Error returns one line for each fault, with file, line and column.
func (e *SyntaxError) Error() string {
	var lines []string
	for _, f := range e.Faults {
		lines = append(lines, Located(e.File, f.Position, f.Error()))
	}
	return strings.Join(lines, "\n")
}

// Located returns a message with its file, line and column in front.
func Located(file string, at Position, message string) string {
	if at.Line == 0 {
		return file + ": " + message
	}
	return fmt.Sprintf("%s:%d:%d: %s", file, at.Line, at.Column, message)
}

func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// suggest returns advice about an unknown name: the nearest known one, or all
// known ones when there are few.
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

// distance is the edit distance of two names, ignoring case, since a wrong case
// is the likeliest mistake.
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
