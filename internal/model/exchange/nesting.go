package exchange

import (
	"bytes"

	"github.com/stator-db/stator/internal/model"
)

// tooDeep looks for nesting that would overflow a parser's stack, without
// parsing. It overestimates: brackets in strings count too.
func tooDeep(text []byte) (model.Position, bool) {
	const roughly = 5 * maxNesting
	depth, number := 0, 0
	for line := range bytes.Lines(text) {
		number++
		for i, c := range line {
			switch c {
			case '[', '{', '(':
				depth++
			case ']', '}', ')':
				depth = max(0, depth-1)
			}
			if depth > roughly {
				return model.Position{Line: number, Column: i + 1}, true
			}
		}
	}
	return model.Position{}, false
}

// tooMany looks for a line with so many nesting marks that they would overflow
// a parser's stack: "- - - a" in YAML, "!!!a" in HCL.
func tooMany(text []byte, opens func(c, next byte) bool) (model.Position, bool) {
	const roughly = 5 * maxNesting
	number := 0
	for line := range bytes.Lines(text) {
		number++
		marks := 0
		for i, c := range line {
			if i+1 < len(line) && opens(c, line[i+1]) {
				marks++
			}
			if marks > roughly {
				return model.Position{Line: number, Column: i + 1}, true
			}
		}
	}
	return model.Position{}, false
}
