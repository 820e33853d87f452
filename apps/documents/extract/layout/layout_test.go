package layout

import (
	"strings"
	"testing"

	"github.com/stator-db/stator/apps/documents/extract/pdf"
)

// text shows a text from a position on, with a width of half the size for each
// letter and a distance between them.
func text(x, y, size, distance float64, s string) []pdf.Glyph {
	var all []pdf.Glyph
	for _, r := range s {
		w := size / 2
		if r == ' ' {
			w = size / 4
		}
		all = append(all, pdf.Glyph{Text: string(r), X: x, Y: y, EndX: x + w, EndY: y, Size: size})
		x += w + distance
	}
	return all
}

func join(parts ...[]pdf.Glyph) []pdf.Glyph {
	var all []pdf.Glyph
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// column returns lines of text of a column.
func column(x, y float64, lines ...string) []pdf.Glyph {
	var all []pdf.Glyph
	for i, l := range lines {
		all = append(all, text(x, y+float64(i)*12, 10, 0, l)...)
	}
	return all
}

func TestReadingOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		glyphs []pdf.Glyph
		want   string
	}{
		{"a line", text(10, 20, 10, 0, "Total 12"), "Total 12"},
		{"lines from below", join(text(10, 40, 10, 0, "below"), text(10, 20, 10, 0, "above")), "above|below"},
		{"no space characters", join(text(10, 20, 10, 0, "Total"), text(38, 20, 10, 0, "12")), "Total 12"},
		{"kerned letters", text(10, 20, 10, -0.8, "Total"), "Total"},
		{"loose letters", text(10, 20, 10, 1, "Total"), "Total"},
		{"a spaced out title", text(10, 20, 10, 6, "INVOICE NOTE"), "INVOICE NOTE"},
		{"typed spaces in a title", text(10, 20, 10, 0, "I N V O I C E"), "INVOICE"},
		{"digits with spaces stay apart", text(10, 20, 10, 0, "1 2 3 4 5"), "1 2 3 4 5"},
		{"single letters stay apart", text(10, 20, 10, 0, "A b c"), "A b c"},
		{"shown twice to look bold", join(text(10, 20, 10, 0, "Total"), text(10.3, 20, 10, 0, "Total")), "Total"},
		{"doubled letters stay", text(10, 20, 10, 0, "coffee"), "coffee"},
		{"cells", join(text(10, 20, 10, 0, "Total"), text(100, 20, 10, 0, "12.50")), "Total\t12.50"},
		{"a larger value", join(text(10, 20, 10, 0, "Total"), text(100, 22, 16, 0, "12.50")), "Total\t12.50"},
		{"a raised number", join(text(10, 20, 10, 0, "12"), text(20.5, 16, 6, 0, "50")), "1250"},
		{"a covered space", []pdf.Glyph{{Text: "a", X: 10, Y: 9, EndX: 15, EndY: 9, Size: 10}, {Text: " ", X: 15, Y: 9, EndX: 18, EndY: 9, Size: 10}, {Text: "b", X: 15.1, Y: 9, EndX: 20, EndY: 9, Size: 10}}, "ab"},
		{"columns of text",
			join(column(10, 20, "the first line of the left", "the second line of the left", "the third line of the left"),
				column(160, 20, "the first line of the right", "the second line of the right", "the third line of the right")),
			"the first line of the left|the second line of the left|the third line of the left|the first line of the right|the second line of the right|the third line of the right"},
		{"a table", join(column(10, 20, "Paper", "Pens", "Binders"), column(160, 20, "10", "20", "30")), "Paper\t10|Pens\t20|Binders\t30"},
		{"outside the page", join(text(10, 20, 10, 0, "in"), text(10, -500, 10, 0, "out")), "in"},
	} {
		p := FromPDF(&pdf.Page{Width: 300, Height: 300, Glyphs: c.glyphs})
		d := Document{Pages: []Page{p}}
		if got := strings.ReplaceAll(strings.TrimSpace(d.Text()), "\n", "|"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A vertical line divides cells whose gap is small.
func TestRules(t *testing.T) {
	page := pdf.Page{Width: 300, Height: 300, Glyphs: join(text(10, 20, 10, 0, "Date"), text(34, 20, 10, 0, "Total")), Rules: []pdf.Rule{{X: 32, Top: 5, Bottom: 30}}}
	p := FromPDF(&page)
	if got := p.Rows[0].Text(); got != "Date\tTotal" {
		t.Errorf("with a line: %q", got)
	}
	page.Rules[0].Top = 25 // below the text
	if p = FromPDF(&page); p.Rows[0].Text() != "Date Total" {
		t.Errorf("without a line: %q", p.Rows[0].Text())
	}
}

// Text in each direction is read, and its boxes are where it is on the page.
func TestTurns(t *testing.T) {
	for turn, d := range [][2]float64{{1, 0}, {0, 1}, {-1, 0}, {0, -1}} {
		var glyphs []pdf.Glyph
		x, y := 150.0, 100.0
		for _, r := range "Total" {
			glyphs = append(glyphs, pdf.Glyph{Text: string(r), X: x, Y: y, EndX: x + 5*d[0], EndY: y + 5*d[1], Size: 10})
			x, y = x+5*d[0], y+5*d[1]
		}
		p := FromPDF(&pdf.Page{Width: 300, Height: 200, Glyphs: glyphs})
		if len(p.Rows) != 1 || p.Rows[0].Text() != "Total" || p.Rows[0].Turn != turn {
			t.Errorf("turn %d: %+v", turn, p.Rows)
			continue
		}
		b := p.Rows[0].Cells[0].Box()
		for _, g := range glyphs {
			if mx, my := (g.X+g.EndX)/2, (g.Y+g.EndY)/2; mx < b.X-0.2 || mx > b.X+b.W+0.2 || my < b.Y-0.2 || my > b.Y+b.H+0.2 {
				t.Errorf("turn %d: %q at %v, %v is not in %+v", turn, g.Text, mx, my, b)
			}
		}
		if u := p.Upright(b, turn); p.turned(u, turn) != b || u.W < u.H {
			t.Errorf("turn %d: %+v is %+v upright", turn, b, u)
		}
	}
}

// Plain text has the cells that spaces and tabs divide.
func TestFromText(t *testing.T) {
	d := FromText("Total:  12.50\tEUR\n\n one two \n")
	if got := d.Text(); got != "Total:\t12.50\tEUR\none two\n" {
		t.Errorf("%q", got)
	}
}
