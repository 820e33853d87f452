package layout

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/stator-db/stator/apps/documents/extract/pdf"
)

// glyph is a character in the frame of its text: u along the line, v down.
type glyph struct {
	text   string
	u0, u1 float64
	v      float64 // of the baseline
	size   float64
}

// piece is a word or cell in the frame of its text.
type piece struct {
	cell   Cell
	u0, u1 float64
	v      float64
	size   float64
}

// The gaps that divide text, in units of its size.
const (
	wordGap  = 0.15 // between the letters of two words
	cellGap  = 1.0  // between two cells
	lineStep = 0.25 // baselines of one line differ by less
	rowStep  = 0.45 // baselines of one row differ by less
)

// FromPDF arranges the characters of a page.
func FromPDF(from *pdf.Page) Page {
	p := Page{Width: from.Width, Height: from.Height}
	turns := byTurn(&p, from.Glyphs)
	rules := slices.SortedFunc(slices.Values(from.Rules), func(a, b pdf.Rule) int { return cmp.Compare(a.X, b.X) })
	order := []int{0, 1, 2, 3}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(turns[b]), len(turns[a])) })
	for _, turn := range order {
		if turn != 0 {
			rules = nil
		}
		var all [][]letter
		for _, line := range lines(turns[turn]) {
			all = append(all, letters(line))
		}
		divide(all, rules)
		var pieces []piece
		for _, line := range all {
			pieces = append(pieces, p.cells(line, turn)...)
		}
		p.Rows = append(p.Rows, columns(rows(pieces), turn)...)
	}
	return p
}

// byTurn divides glyphs by the direction of their text.
func byTurn(p *Page, glyphs []pdf.Glyph) [4][]glyph {
	var turns [4][]glyph
	turn := 0
	for _, g := range glyphs {
		dx, dy := g.EndX-g.X, g.EndY-g.Y
		switch {
		case math.Abs(dx) < 1e-6 && math.Abs(dy) < 1e-6: // no width: as before
		case math.Abs(dx) >= math.Abs(dy) && dx >= 0:
			turn = 0
		case math.Abs(dx) >= math.Abs(dy):
			turn = 2
		case dy >= 0:
			turn = 1
		default:
			turn = 3
		}
		if outside(p, g) {
			continue
		}
		n := glyph{text: g.Text, size: g.Size}
		switch turn {
		case 0:
			n.u0, n.u1, n.v = g.X, g.EndX, g.Y
		case 1:
			n.u0, n.u1, n.v = g.Y, g.EndY, p.Width-g.X
		case 2:
			n.u0, n.u1, n.v = p.Width-g.X, p.Width-g.EndX, p.Height-g.Y
		case 3:
			n.u0, n.u1, n.v = p.Height-g.Y, p.Height-g.EndY, g.X
		}
		turns[turn] = append(turns[turn], n)
	}
	return turns
}

// outside reports whether a glyph is not on the page.
func outside(p *Page, g pdf.Glyph) bool {
	x, y := (g.X+g.EndX)/2, (g.Y+g.EndY)/2
	return x < -g.Size || y < -g.Size || x > p.Width+g.Size || y > p.Height+g.Size
}

// lines divides glyphs into lines, each from left to right.
func lines(glyphs []glyph) [][]glyph {
	slices.SortStableFunc(glyphs, func(a, b glyph) int { return cmp.Compare(a.v, b.v) })
	var all [][]glyph
	for start := 0; start < len(glyphs); {
		end := start + 1
		for end < len(glyphs) && glyphs[end].v-glyphs[start].v < lineStep*min(glyphs[end].size, glyphs[start].size) {
			end++
		}
		line := glyphs[start:end]
		slices.SortStableFunc(line, func(a, b glyph) int { return cmp.Compare(a.u0, b.u0) })
		all = append(all, line)
		start = end
	}
	return all
}

// letter is a glyph that is no space, with the gap before it.
type letter struct {
	glyph
	gap    float64 // in units of the size
	spaces int     // space characters in the gap
	column bool    // the gap divides columns
}

// letters removes the spaces and the letters that are shown twice to look bold.
func letters(line []glyph) []letter {
	var all []letter
	spaces := 0
	for _, g := range line {
		text := strings.TrimSpace(g.text)
		if text == "" {
			spaces += max(1, len([]rune(g.text)))
			continue
		}
		n := len(all)
		if n > 0 && shownTwice(all, g) {
			continue
		}
		l := letter{glyph: g, spaces: spaces}
		if n > 0 {
			l.gap = (g.u0 - all[n-1].u1) / max(1e-3, min(g.size, all[n-1].size))
			if strings.HasPrefix(g.text, " ") || strings.HasSuffix(all[n-1].glyph.text, " ") {
				l.spaces++
			}
		}
		all = append(all, l)
		spaces = 0
	}
	return all
}

func shownTwice(all []letter, g glyph) bool {
	for i := len(all) - 1; i >= 0 && i >= len(all)-3; i-- {
		if o := all[i]; o.text == g.text && math.Abs(o.u0-g.u0) < 0.12*g.size && math.Abs(o.u0-g.u0) < 0.5*max(0.2*g.size, g.u1-g.u0) {
			return true
		}
	}
	return false
}

// cells divides a line into cells, and their letters into words.
func (p *Page) cells(all []letter, turn int) []piece {
	var out []piece
	wide := wideGap(all)
	for start := 0; start < len(all); {
		end := start + 1
		for end < len(all) && all[end].gap <= wide && all[end].spaces < 3 && !all[end].column {
			end++
		}
		out = append(out, p.cell(all[start:end], turn))
		start = end
	}
	return out
}

// wideGap returns the gap that divides the cells of a line. It is larger in
// justified lines, whose spaces are all wide, and in spaced out titles.
func wideGap(all []letter) float64 {
	var gaps, tight []float64
	for _, l := range all[min(1, len(all)):] {
		if l.gap > wordGap && l.gap < 2.5 {
			gaps = append(gaps, l.gap)
		}
		tight = append(tight, l.gap)
	}
	if base, ok := spacing(all); ok {
		return max(cellGap, 3.5*base+0.6)
	}
	if len(gaps) < 4 || len(tight) < 4*len(gaps)/2 {
		return cellGap
	}
	slices.Sort(gaps)
	return max(cellGap, 1.7*gaps[len(gaps)/2])
}

// spacing returns the gap between the letters of a text that is spaced out, and
// whether it is.
func spacing(all []letter) (float64, bool) {
	if len(all) < 4 {
		return 0, false
	}
	var gaps []float64
	alphabetic, typed := 0, 0
	for i, l := range all {
		if i > 0 {
			gaps = append(gaps, l.gap)
			if l.spaces > 0 {
				typed++
			}
		}
		for _, r := range l.text {
			if unicode.IsLetter(r) {
				alphabetic++
				break
			}
		}
	}
	slices.Sort(gaps)
	base := gaps[len(gaps)/4]
	if base <= 0.12 || base > 1.5 || alphabetic*10 < len(all)*7 {
		return 0, false
	}
	near := 0
	for _, g := range gaps {
		if math.Abs(g-base) < 0.3*base+0.05 {
			near++
		}
	}
	if near*10 < len(gaps)*6 {
		return 0, false
	}
	// Words of one letter with spaces between them, such as "A b c", are not spaced
	// out unless there are many.
	return base, typed*2 < len(gaps) || len(all) >= 5
}

// cell returns the letters of a cell as words.
func (p *Page) cell(all []letter, turn int) piece {
	base, spaced := spacing(all)
	c := piece{u0: all[0].u0, u1: all[0].u1, v: all[0].v}
	for start := 0; start < len(all); {
		end := start + 1
		for end < len(all) && !divides(all[end], base, spaced) {
			end++
		}
		c.add(p, all[start:end], turn)
		start = end
	}
	return c
}

// divides reports whether a letter begins a word.
func divides(l letter, base float64, spaced bool) bool {
	if spaced {
		return l.gap > 1.5*base+0.1
	}
	// Some producers show spaces that the next letter covers.
	return l.gap > wordGap || l.spaces > 0 && l.gap > 0.06
}

// add adds a word to a cell.
func (c *piece) add(p *Page, all []letter, turn int) {
	var text strings.Builder
	u0, u1, v, size := all[0].u0, all[0].u1, all[0].v, 0.0
	for _, l := range all {
		text.WriteString(l.text)
		u0, u1, v, size = min(u0, l.u0), max(u1, l.u1), max(v, l.v), max(size, l.size)
	}
	c.u0, c.u1, c.size = min(c.u0, u0), max(c.u1, u1), max(c.size, size)
	b := p.turned(Box{u0, v - 0.8*size, u1 - u0, size}, turn)
	for word := range strings.FieldsSeq(text.String()) {
		c.cell.Words = append(c.cell.Words, Word{Text: word, Box: b.Rounded()})
	}
}
