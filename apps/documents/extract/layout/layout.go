// Package layout arranges positioned text as a person reads it: words, cells, rows
// and columns.
package layout

import (
	"math"
	"strings"
)

// Document is a file as it is read. A text file has one page, whose positions are
// those of a typewriter.
type Document struct {
	Reader string `json:"reader"` // what read it: text, pdf, pdftotext or ocr
	Pages  []Page `json:"pages"`

	// Notes say what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Page has its rows in reading order. Positions are in points from the top left
// corner of the page as it is shown.
type Page struct {
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Rows   []Row   `json:"rows"`

	// Scan is set if the page is a picture. Its text, if there is any, is from OCR.
	Scan bool `json:"scan,omitempty"`

	// Picture is the picture of a scanned page, as PNG, JPEG or TIFF.
	Picture []byte `json:"picture,omitempty"`
}

// Row is a row of a table, or a line of text. It has one cell unless wide gaps
// divide it.
type Row struct {
	Cells []Cell `json:"cells"`
	Turn  int    `json:"turn,omitempty"` // quarter turns, clockwise, of the text
}

// Cell is a text without wide gaps.
type Cell struct {
	Words []Word `json:"words"`
}

// Word is a text without spaces; in a text file it is a whole cell.
type Word struct {
	Text string  `json:"text"`
	Box  Box     `json:"box"`
	Sure float64 `json:"sure,omitempty"` // confidence of OCR, 0 to 1; 0 for text that was not recognised
}

// Box is a rectangle of a page, in points. X and Y are its top left corner.
type Box struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
	W float64 `json:"w"`
	H float64 `json:"h"`
}

// Union returns the smallest box with both boxes. A box without height is empty.
func (b Box) Union(c Box) Box {
	if b.H <= 0 {
		return c
	}
	if c.H <= 0 {
		return b
	}
	x, y := min(b.X, c.X), min(b.Y, c.Y)
	return Box{x, y, max(b.X+b.W, c.X+c.W) - x, max(b.Y+b.H, c.Y+c.H) - y}
}

// Rounded returns a box with one decimal.
func (b Box) Rounded() Box {
	r := func(v float64) float64 { return math.Round(v*10) / 10 }
	return Box{r(b.X), r(b.Y), max(0.1, r(b.W)), max(0.1, r(b.H))}
}

// Box returns the box of a cell.
func (c *Cell) Box() Box {
	var all Box
	for _, w := range c.Words {
		all = all.Union(w.Box)
	}
	return all
}

// Text returns the words of a cell with spaces between them.
func (c *Cell) Text() string {
	var out strings.Builder
	for i, w := range c.Words {
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(w.Text)
	}
	return out.String()
}

// Within returns the box of the words at the bytes from start to end of a cell's
// text, and the least confidence of OCR in them.
func (c *Cell) Within(start, end int) (Box, float64) {
	var all Box
	at, sure := 0, 0.0
	for _, w := range c.Words {
		if at < end && at+len(w.Text) > start {
			all = all.Union(w.part(start-at, end-at))
			if w.Sure > 0 && (sure == 0 || w.Sure < sure) {
				sure = w.Sure
			}
		}
		at += len(w.Text) + 1
	}
	return all, sure
}

// part returns the box of a part of a word, as if its letters had one width.
func (w *Word) part(start, end int) Box {
	start, end = max(0, start), min(len(w.Text), end)
	b := w.Box
	if b.W < b.H { // a short word, or one that is turned
		return b
	}
	one := b.W / float64(len(w.Text))
	return Box{b.X + one*float64(start), b.Y, one * float64(end-start), b.H}
}

// Text returns the text of a row. Tabs divide its cells.
func (r *Row) Text() string {
	all := make([]string, len(r.Cells))
	for i := range r.Cells {
		all[i] = r.Cells[i].Text()
	}
	return strings.Join(all, "\t")
}

// Text returns the text of a document, one line for each row.
func (d *Document) Text() string {
	var out strings.Builder
	for _, p := range d.Pages {
		for i := range p.Rows {
			out.WriteString(p.Rows[i].Text())
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// Upright returns a box of a page as seen when its text is turned upright.
func (p *Page) Upright(b Box, turn int) Box {
	switch turn {
	case 1:
		return Box{b.Y, p.Width - b.X - b.W, b.H, b.W}
	case 2:
		return Box{p.Width - b.X - b.W, p.Height - b.Y - b.H, b.W, b.H}
	case 3:
		return Box{p.Height - b.Y - b.H, b.X, b.H, b.W}
	}
	return b
}

// turned is the inverse of Upright.
func (p *Page) turned(b Box, turn int) Box {
	switch turn {
	case 1:
		return Box{p.Width - b.Y - b.H, b.X, b.H, b.W}
	case 2:
		return Box{p.Width - b.X - b.W, p.Height - b.Y - b.H, b.W, b.H}
	case 3:
		return Box{b.Y, p.Height - b.X - b.W, b.H, b.W}
	}
	return b
}
