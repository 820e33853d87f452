// Package pdf reads the characters of PDF files, with their positions, and the
// pictures of scanned pages.
//
// Files are not trusted: the objects, the decoded bytes and the nesting that are
// read have limits, and cycles end.
package pdf

import (
	"context"
	"math"
	"unicode/utf16"
)

// Document is a file that was read.
type Document struct {
	Pages []Page

	f *file
}

// Page is a page as it is shown. Positions are in points from its top left corner.
type Page struct {
	Width, Height float64
	Glyphs        []Glyph
	Rules         []Rule

	images []placed
}

// Rule is a vertical line, such as the border of a table's column.
type Rule struct {
	X, Top, Bottom float64
}

// Glyph is a shown character, or a ligature of several.
type Glyph struct {
	Text       string // U+FFFD if the file does not say what it is
	X, Y       float64
	EndX, EndY float64 // where the next one begins, without spacing
	Size       float64
	Hidden     bool // invisible, as the text is that OCR programs add to scans
}

// placed is a picture of a page.
type placed struct {
	s   *stream
	ctm matrix
}

// Read reads a file. It fails with an error if the file is damaged beyond repair,
// needs a password, or exceeds a limit.
func Read(ctx context.Context, data []byte, l Limits) (d *Document, err error) {
	defer caught(&err)
	f := openFile(data, newLimits(ctx, l))
	d = &Document{f: f}
	root := f.dict(f.dict(f.trailer["Root"])["Pages"])
	if n := f.integer(root["Count"], 0); n > f.limits.Pages {
		f.limits.fail("it has %d pages, but at most %d are read", n, f.limits.Pages)
	}
	w := walker{d: d, seen: map[int]bool{}, fonts: map[any]*font{}}
	w.walk(f.dict(f.trailer["Root"])["Pages"], dict{}, 0)
	if len(d.Pages) == 0 {
		return nil, errDamaged
	}
	return d, nil
}

// walker walks the page tree.
type walker struct {
	d     *Document
	seen  map[int]bool
	fonts map[any]*font
}

// inherited are the entries of a page that its ancestors may have.
var inherited = []name{"Resources", "MediaBox", "CropBox", "Rotate"}

func (w *walker) walk(v any, above dict, depth int) {
	f := w.d.f
	if r, ok := v.(ref); ok {
		if w.seen[r.num] {
			return
		}
		w.seen[r.num] = true
	}
	d := f.dict(v)
	if d == nil || depth > maxDepth {
		return
	}
	whole := dict{}
	for _, k := range inherited {
		if value, ok := d[k]; ok {
			whole[k] = value
		} else if value, ok := above[k]; ok {
			whole[k] = value
		}
	}
	kids := f.array(d["Kids"])
	if kids == nil {
		if len(w.d.Pages) >= f.limits.Pages {
			f.limits.fail("it has more than the %d pages that are read", f.limits.Pages)
		}
		w.d.Pages = append(w.d.Pages, w.page(d, whole))
		return
	}
	for _, kid := range kids {
		f.limits.spendToken()
		w.walk(kid, whole, depth+1)
	}
}

// page reads one page.
func (w *walker) page(d, whole dict) Page {
	f := w.d.f
	var page Page
	view := page.place(f, whole)
	p := interpreter{f: f, page: &page, fonts: w.fonts, state: graphics{ctm: view, stretch: 1}, text: identity, line: identity}
	p.run(f.contents(d["Contents"]), f.dict(whole["Resources"]))
	for i, a := range f.array(d["Annots"]) {
		if i == maxAnnotations {
			break
		}
		p.annotation(f.dict(a), view)
	}
	return page
}

// maxAnnotations is the maximum number of annotations of a page.
const maxAnnotations = 2000

// annotation runs what an annotation shows, such as the text in a field of a form.
func (p *interpreter) annotation(d dict, view matrix) {
	f := p.f
	const hidden, noView = 2, 32
	if f.integer(d["F"], 0)&(hidden|noView) != 0 || f.resolve(d["Subtype"]) == name("Popup") {
		return
	}
	shown := f.resolve(f.dict(d["AP"])["N"])
	if states, ok := shown.(dict); ok {
		state, _ := f.resolve(d["AS"]).(name)
		shown = f.resolve(states[state])
	}
	s, ok := shown.(*stream)
	box, rect := f.floats(f.dict(shown)["BBox"]), f.floats(d["Rect"])
	if !ok || len(box) != 4 || len(rect) != 4 {
		return
	}
	m := identity
	if v := f.floats(s.dict["Matrix"]); len(v) == 6 {
		m = matrix(v)
	}
	x0, y0, x1, y1 := bounds(m, box)
	rx0, ry0, rx1, ry1 := bounds(identity, rect)
	if x1-x0 < 1e-6 || y1-y0 < 1e-6 {
		return
	}
	sx, sy := (rx1-rx0)/(x1-x0), (ry1-ry0)/(y1-y0)
	fit := matrix{sx, 0, 0, sy, rx0 - x0*sx, ry0 - y0*sy}
	p.state = graphics{ctm: m.times(fit).times(view), stretch: 1}
	p.stack, p.marks = nil, nil
	data, _ := f.decode(s)
	p.run(data, f.dict(s.dict["Resources"]))
}

// bounds returns the bounds of a box after a transformation.
func bounds(m matrix, box []float64) (x0, y0, x1, y1 float64) {
	x0, y0 = math.Inf(1), math.Inf(1)
	x1, y1 = math.Inf(-1), math.Inf(-1)
	for _, c := range [][2]float64{{box[0], box[1]}, {box[0], box[3]}, {box[2], box[1]}, {box[2], box[3]}} {
		x, y := m.apply(c[0], c[1])
		x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x), max(y1, y)
	}
	return x0, y0, x1, y1
}

// contents joins the streams of a page's content.
func (f *file) contents(v any) []byte {
	switch v := f.resolve(v).(type) {
	case *stream:
		data, _ := f.decode(v)
		return data
	case array:
		var all []byte
		for _, part := range v {
			if s, ok := f.resolve(part).(*stream); ok {
				data, _ := f.decode(s)
				all = append(append(all, data...), '\n')
			}
		}
		return all
	}
	return nil
}

// place sets the size of a page, and returns the matrix from its coordinates to
// points from the top left corner of the page as it is shown.
func (p *Page) place(f *file, whole dict) matrix {
	box := f.floats(whole["CropBox"])
	if len(box) != 4 || box[0] == box[2] || box[1] == box[3] {
		box = f.floats(whole["MediaBox"])
	}
	if len(box) != 4 || !finite(box...) || box[0] == box[2] || box[1] == box[3] {
		box = []float64{0, 0, 612, 792}
	}
	x0, x1 := math.Min(box[0], box[2]), math.Max(box[0], box[2])
	y0, y1 := math.Min(box[1], box[3]), math.Max(box[1], box[3])
	p.Width, p.Height = x1-x0, y1-y0
	switch ((f.integer(whole["Rotate"], 0)/90)%4 + 4) % 4 {
	case 1:
		p.Width, p.Height = p.Height, p.Width
		return matrix{0, 1, 1, 0, -y0, -x0}
	case 2:
		return matrix{-1, 0, 0, 1, x1, -y0}
	case 3:
		p.Width, p.Height = p.Height, p.Width
		return matrix{0, -1, -1, 0, y1, x1}
	}
	return matrix{1, 0, 0, -1, -x0, y1}
}

// textString decodes a text string: UTF-16 with a byte order mark, UTF-8 with one,
// or a single-byte encoding.
func textString(s str) string {
	if len(s) >= 2 && s[0] == 0xfe && s[1] == 0xff {
		var all []uint16
		for i := 2; i+1 < len(s); i += 2 {
			all = append(all, uint16(s[i])<<8|uint16(s[i+1]))
		}
		return string(utf16.Decode(all))
	}
	if len(s) >= 3 && s[:3] == "\xef\xbb\xbf" {
		return string(s[3:])
	}
	out := ""
	for i := 0; i < len(s) && i < 10_000; i++ {
		out += winAnsi[s[i]]
	}
	return out
}
