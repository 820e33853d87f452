package layout

import "strings"

// The size of a character of plain text, in points.
const (
	charWidth  = 6
	lineHeight = 12
)

// FromText arranges lines of plain text, each character as wide as any other. Tabs
// and two spaces or more divide cells.
func FromText(text string) Document {
	var p Page
	n := 0
	for line := range strings.Lines(text) {
		r := Row{}
		for at := 0; at < len(line); {
			end := cellEnd(line, at)
			cell := line[at:end]
			if words := strings.TrimSpace(cell); words != "" {
				x := float64(at+strings.Index(cell, words)) * charWidth
				w := Word{Text: words, Box: Box{x, float64(n) * lineHeight, float64(len(words)) * charWidth, lineHeight}}
				r.Cells = append(r.Cells, Cell{Words: []Word{w}})
				p.Width = max(p.Width, x+w.Box.W)
			}
			at = end
		}
		if len(r.Cells) > 0 {
			p.Rows = append(p.Rows, r)
		}
		n++
	}
	p.Height = float64(n) * lineHeight
	return Document{Reader: "text", Pages: []Page{p}}
}

// cellEnd returns the end of the cell that begins at an offset of a line.
func cellEnd(line string, at int) int {
	for at < len(line) && isBlank(line[at]) {
		at++
	}
	for ; at < len(line); at++ {
		if line[at] == '\t' || isBlank(line[at]) && (at+1 == len(line) || isBlank(line[at+1])) {
			return at
		}
	}
	return at
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
