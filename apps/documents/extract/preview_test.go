package extract

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// The preview shows the words and marks where the fields are; names and texts of a
// document cannot add elements.
func TestPreview(t *testing.T) {
	x := builtin()
	f := File{"a.pdf", pdfOf(strings.ReplaceAll(goodText, "Northwind\n", "<script>alert(1)</script>\n"))}
	e := extraction(t, strings.ReplaceAll(invoice, `"contact"`, `"<b>\"c"`))
	r, err := x.Extract(t.Context(), f, e)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := x.Read(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	var svg strings.Builder
	if err := WritePreview(&svg, &doc, 1, r.Fields); err != nil {
		t.Fatal(err)
	}
	elements := map[string]int{}
	for in := xml.NewDecoder(strings.NewReader(svg.String())); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg.String())
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	if elements["script"] != 0 || elements["rect"] != 5 || elements["text"] < 10 {
		t.Errorf("elements %v of %s", elements, svg.String())
	}
	if err := WritePreview(io.Discard, &doc, 2, nil); err == nil {
		t.Error("a page that does not exist has a preview")
	}
}

// The places of fields are where their words are.
func TestPlaces(t *testing.T) {
	x := builtin()
	f := File{"a.pdf", pdfOf(goodText)}
	r, err := x.Extract(t.Context(), f, extraction(t, invoice))
	if err != nil {
		t.Fatal(err)
	}
	for i, field := range r.Fields {
		if len(field.Places) != 1 {
			t.Fatalf("%s has places %v", field.Name, field.Places)
		}
		// fpdf's lines are 7 mm apart, below a margin of 10 mm.
		line := []float64{1, 2, 5, 6}[i]
		top, b := (10+7*line)*72/25.4, field.Places[0].Box
		if b.Y < top || b.Y+b.H > top+7*72/25.4 || b.X < 40 || b.X+b.W > 250 {
			t.Errorf("%s is at %+v, but its line is at %.1f", field.Name, b, top)
		}
	}
}

// The preview of a text has a margin, and a font in which the marks are where the
// characters are.
func TestPreviewOfText(t *testing.T) {
	x := builtin()
	f := File{"a.txt", []byte(goodText)}
	r, err := x.Extract(t.Context(), f, extraction(t, invoice))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := x.Read(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	var svg strings.Builder
	if err := WritePreview(&svg, &doc, 1, r.Fields); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`viewBox="-12.0 -12.0 `, "font-family:monospace", `class="mark"`} {
		if !strings.Contains(svg.String(), part) {
			t.Errorf("no %s in %s", part, svg.String())
		}
	}
}
