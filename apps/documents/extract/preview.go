package extract

import (
	"bufio"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stator-db/stator/apps/documents/extract/layout"
)

// maxPreview is the maximum number of words of a preview.
const maxPreview = 20_000

// WritePreview writes a page of a document as an SVG picture, with the places of the
// fields on it marked. The number of the first page is 1. The picture has no scripts
// and no links, so that it can be a part of a page.
//
// Marks are rectangles of the class "mark" with the attribute data-field, which is
// the field's name; those with little confidence also have the class "unsure".
func WritePreview(w io.Writer, doc *layout.Document, number int, fields []Field) error {
	if number < 1 || number > len(doc.Pages) {
		return fmt.Errorf("the document has no page %d", number)
	}
	p := &doc.Pages[number-1]
	out := bufio.NewWriter(w)
	width, height := max(p.Width, 60), max(p.Height, 60)
	margin, font := 0.0, "Helvetica,Arial,sans-serif"
	if doc.Reader == "text" { // its characters have the same width and begin at the edge
		margin, font = 12, "monospace"
	}
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" class="preview" viewBox="%.1f %.1f %.1f %.1f" role="img" aria-label="page %d of %d">`,
		-margin, -margin, width+2*margin, height+2*margin, number, len(doc.Pages))
	fmt.Fprintf(out, `<style>.mark{fill:#2a7;fill-opacity:.2;stroke:#2a7;stroke-width:.8}.mark.unsure{fill:#d80;stroke:#d80}.preview text{font-family:%s;fill:#222;white-space:pre}</style>`, font)
	fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#fff"/>`, -margin, -margin, width+2*margin, height+2*margin)
	if kind := http.DetectContentType(p.Picture); kind == "image/png" || kind == "image/jpeg" {
		fmt.Fprintf(out, `<image width="%.1f" height="%.1f" preserveAspectRatio="none" href="data:%s;base64,%s"/>`, width, height, kind, base64.StdEncoding.EncodeToString(p.Picture))
	} else {
		writeWords(out, p)
	}
	for _, f := range fields {
		for _, place := range f.Places {
			if place.Page == number {
				writeMark(out, &f, place.Box)
			}
		}
	}
	fmt.Fprint(out, "</svg>\n")
	return out.Flush()
}

func writeWords(out *bufio.Writer, p *layout.Page) {
	words := 0
	for _, r := range p.Rows {
		for _, c := range r.Cells {
			for _, w := range c.Words {
				if words++; words > maxPreview {
					return
				}
				writeWord(out, w, r.Turn)
			}
		}
	}
}

// writeWord writes a word, stretched to its box.
func writeWord(out *bufio.Writer, w layout.Word, turn int) {
	b := w.Box
	x, y, length, size := b.X, b.Y+0.8*b.H, b.W, b.H
	switch turn {
	case 1:
		x, y, length, size = b.X+0.2*b.W, b.Y, b.H, b.W
	case 2:
		x, y = b.X+b.W, b.Y+0.2*b.H
	case 3:
		x, y, length, size = b.X+0.8*b.W, b.Y+b.H, b.H, b.W
	}
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" font-size="%.1f" textLength="%.1f" lengthAdjust="spacingAndGlyphs"`, x, y, size, length)
	if turn != 0 {
		fmt.Fprintf(out, ` transform="rotate(%d %.1f %.1f)"`, 90*turn, x, y)
	}
	fmt.Fprintf(out, ">%s</text>", escaped(w.Text))
}

func writeMark(out *bufio.Writer, f *Field, b layout.Box) {
	class := "mark"
	if f.Confidence < 0.7 {
		class = "mark unsure"
	}
	fmt.Fprintf(out, `<rect class="%s" data-field="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"><title>%s: %s</title></rect>`,
		class, escaped(f.Name), b.X-2, b.Y-1, b.W+4, b.H+2, escaped(f.Name), escaped(fmt.Sprintf("%.200s", f.Value)))
}

func escaped(text string) string {
	var out strings.Builder
	if err := xml.EscapeText(&out, []byte(text)); err != nil {
		return ""
	}
	return out.String()
}
