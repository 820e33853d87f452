package extract

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/stator-db/stator/apps/documents/extract/layout"
)

// maxValue is the maximum length of a value, in bytes.
const maxValue = 10_000

// finder searches a document for fields.
type finder struct {
	ctx   context.Context // of the search, which a finder lives for
	doc   *layout.Document
	cells []cellText
	rows  []textRow
	text  string
	known []string // the labels of all fields, in lower case
}

// cellText is a cell with its text.
type cellText struct {
	page, row, cell int
	text, lower     string
	box             layout.Box // upright
	line            int        // index in finder.rows
}

// textRow is what the cells of a row have in common.
type textRow struct {
	end      int // index in finder.cells of the cell after its last one
	headings int // number of cells that are labels alone
}

// span is a part of a cell's text: a candidate for a value, or a part of one.
type span struct {
	cell       int // index in finder.cells
	start, end int
}

// findFields searches a document for all fields.
func findFields(ctx context.Context, doc *layout.Document, e Extraction) ([]Field, error) {
	f, err := newFinder(ctx, doc, e)
	if err != nil {
		return nil, err
	}
	fields := make([]Field, 0, len(e.Fields))
	for i := range e.Fields {
		field, err := f.find(ctx, &e.Fields[i])
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// inTime returns an error if the time for a document is over.
func inTime(ctx context.Context) error {
	if ctx.Err() != nil {
		return unreadable("reading it took too long")
	}
	return nil
}

func newFinder(ctx context.Context, doc *layout.Document, e Extraction) (*finder, error) {
	f := &finder{ctx: ctx, doc: doc}
	labels := make(map[string]bool)
	for _, s := range e.Fields {
		for _, l := range s.Labels {
			f.known = append(f.known, strings.ToLower(l))
			labels[strings.ToLower(l)] = true
		}
	}
	slices.SortStableFunc(f.known, func(a, b string) int { return len(b) - len(a) })
	for p := range doc.Pages {
		for r := range doc.Pages[p].Rows {
			if err := f.addRow(ctx, p, r, labels); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// addRow adds the cells of a row of a page.
func (f *finder) addRow(ctx context.Context, p, r int, labels map[string]bool) error {
	page := &f.doc.Pages[p]
	row := &page.Rows[r]
	cells, err := f.headingCells(ctx, row.Cells)
	if err != nil {
		return err
	}
	row.Cells = cells
	headings := 0
	for c := range row.Cells {
		if err := inTime(ctx); err != nil {
			return err
		}
		text := row.Cells[c].Text()
		if labels[strings.ToLower(strings.TrimSpace(text))] {
			headings++
		}
		lower := strings.ToLower(text)
		if len(lower) != len(text) { // offsets would not match
			lower = text
		}
		f.cells = append(f.cells, cellText{p, r, c, text, lower, page.Upright(row.Cells[c].Box(), row.Turn), len(f.rows)})
	}
	f.rows = append(f.rows, textRow{len(f.cells), headings})
	return nil
}

// headingCells divides cells that consist of labels only: the headings of columns
// with small gaps between them.
func (f *finder) headingCells(ctx context.Context, cells []layout.Cell) ([]layout.Cell, error) {
	var out []layout.Cell
	for i, c := range cells {
		if err := inTime(ctx); err != nil {
			return nil, err
		}
		parts := f.labelParts(c)
		if len(parts) > 1 && out == nil {
			out = slices.Clone(cells[:i])
		}
		if len(parts) > 1 {
			out = append(out, parts...)
		} else if out != nil {
			out = append(out, c)
		}
	}
	if out == nil {
		return cells, nil
	}
	return out, nil
}

// labelParts returns the labels of which a cell consists, or nothing.
func (f *finder) labelParts(c layout.Cell) []layout.Cell {
	var parts []layout.Cell
	for at := 0; at < len(c.Words) && len(c.Words) < 50; {
		n := f.labelWords(c.Words[at:])
		if n == 0 {
			return nil
		}
		parts = append(parts, layout.Cell{Words: c.Words[at : at+n]})
		at += n
	}
	return parts
}

// labelWords returns the number of words of the label with which words begin.
func (f *finder) labelWords(words []layout.Word) int {
	for _, l := range f.known {
		n := strings.Count(l, " ") + 1
		if n > len(words) {
			continue
		}
		c := layout.Cell{Words: words[:n]}
		if strings.EqualFold(c.Text(), l) {
			return n
		}
	}
	return 0
}

// candidate is a value that was found, with where it is.
type candidate struct {
	Field
	spans []span
}

// find searches for one field: after, to the right of or below a label first, then anywhere
// by its pattern.
func (f *finder) find(ctx context.Context, s *Spec) (Field, error) {
	best, err := f.byLabel(ctx, s)
	if err == nil && best.Value == "" && s.pattern != nil {
		best, err = f.anywhere(ctx, s)
	}
	if err == nil {
		err = inTime(ctx) // or the search for a pattern has ended early
	}
	if err != nil {
		return Field{}, err
	}
	best.Name = s.Name
	f.locate(&best)
	if len(best.Value) > maxValue {
		best.Value, best.Confidence = strings.ToValidUTF8(best.Value[:maxValue], ""), best.Confidence/2
	}
	return best.Field, nil
}

// byLabel searches for the best value of a field's labels.
func (f *finder) byLabel(ctx context.Context, s *Spec) (candidate, error) {
	var best candidate
	others := make(map[string]bool)
	for _, label := range s.Labels {
		label := strings.ToLower(label)
		for i := range f.cells {
			if err := inTime(ctx); err != nil {
				return candidate{}, err
			}
			at := labelled(f.cells[i].lower, label)
			if at < 0 || f.longer(i, at, label) {
				continue
			}
			c := f.valueOf(s, i, at, at+len(label))
			if c.Value != "" && len(others) < 10 {
				others[c.Value] = true
			}
			if c.Confidence > best.Confidence {
				best = c
			}
		}
	}
	if len(others) > 1 { // ambiguous
		best.Confidence *= 0.85
	}
	return best, nil
}

// longer reports whether a longer label of a field begins at the same place:
// "Invoice number" is no label "Invoice".
func (f *finder) longer(i, at int, label string) bool {
	for _, l := range f.known {
		if len(l) > len(label) && strings.HasPrefix(f.cells[i].lower[at:], l) && strings.HasPrefix(l, label) {
			return true
		}
	}
	return false
}

// anywhere searches for a value by its pattern.
func (f *finder) anywhere(ctx context.Context, s *Spec) (candidate, error) {
	for i := range f.cells {
		if err := inTime(ctx); err != nil {
			return candidate{}, err
		}
		if v, m := s.matched(ctx, f.cells[i].text); m != nil {
			return candidate{Field{Value: v, Confidence: 0.75, Source: "pattern"}, []span{{i, m[0], m[1]}}}, nil
		}
	}
	if f.text == "" {
		f.text = f.doc.Text()
	}
	if v, m := s.matched(ctx, f.text); m != nil {
		return candidate{Field: Field{Value: v, Confidence: 0.75, Source: "pattern"}}, nil
	}
	return candidate{}, nil
}

// valueOf returns the best value of a label: after it in its cell, to the right of
// it, or below.
func (f *finder) valueOf(s *Spec, i, start, end int) candidate {
	cell := &f.cells[i]
	rest := f.trimmed(span{i, end, len(cell.text)})
	marked := strings.HasPrefix(strings.TrimLeft(cell.text[end:], " \t"), ":") || strings.HasPrefix(strings.TrimLeft(cell.text[end:], " \t"), "=")
	confidence := 0.97
	if start > 0 {
		confidence = 0.9
	}
	unmarked := confidence
	if !marked {
		unmarked -= 0.07
	}
	var best candidate
	take := func(c candidate) {
		if c.Confidence > best.Confidence {
			best = c
		}
	}
	if rest.end > rest.start {
		rest = f.cut(rest, s)
		c := f.evaluate(s, []span{rest}, unmarked)
		if !marked && s.Type == "amount" && !pureAmount.MatchString(f.textOf(rest)) {
			c.Confidence = min(c.Confidence, 0.7) // "Total incl. 20 % VAT"
		}
		if s.Type == "address" {
			c = f.address(s, rest, unmarked)
		}
		take(c)
		if best.Confidence > 0.7 {
			return best
		}
		unmarked -= 0.05
	}
	headed := !marked && f.rows[cell.line].headings > 1
	if headed || s.Type == "address" && f.block(i) {
		take(f.below(s, i, 0.88))
	}
	if best.Confidence < 0.85 {
		take(f.right(s, i, unmarked))
	}
	if rest.end == rest.start && best.Confidence < 0.8 {
		take(f.below(s, i, 0.8))
	}
	return best
}

var pureAmount = regexp.MustCompile(`^\W*(?:\w{1,3}\W*)?[-+]?\d[\d.,'’\x{a0} ]*\W*(?:\w{1,3}\W*)?$`)

// trimmed removes the space and the separators around a span.
func (f *finder) trimmed(s span) span {
	text := f.cells[s.cell].text
	for s.start < s.end && strings.IndexByte(" \t:=#.", text[s.start]) >= 0 {
		s.start++
	}
	for s.end > s.start && strings.IndexByte(" \t:=#", text[s.end-1]) >= 0 {
		s.end--
	}
	return s
}

func (f *finder) textOf(s span) string { return f.cells[s.cell].text[s.start:s.end] }

// cut ends a value before the label of another field in its cell.
func (f *finder) cut(s span, of *Spec) span {
	lower := f.cells[s.cell].lower
	for _, l := range f.known {
		at := labelled(lower[s.start:s.end], l)
		if at <= 0 || slices.ContainsFunc(of.Labels, func(o string) bool { return strings.EqualFold(o, l) }) {
			continue
		}
		if after := strings.TrimLeft(lower[s.start+at+len(l):], " \t"); strings.HasPrefix(after, ":") {
			s.end = s.start + at
		}
	}
	return f.trimmed(s)
}

// labels reports whether a cell begins with a label of a field.
func (f *finder) labels(i int) bool {
	for _, l := range f.known {
		if labelled(f.cells[i].lower, l) == 0 {
			return true
		}
	}
	return false
}

// right returns the value in the cells to the right of a label.
func (f *finder) right(s *Spec, i int, confidence float64) candidate {
	var best candidate
	for n := i + 1; n < len(f.cells) && n <= i+4 && f.cells[n].page == f.cells[i].page && f.cells[n].row == f.cells[i].row; n++ {
		if f.labels(n) {
			break
		}
		part := f.trimmed(span{n, 0, len(f.cells[n].text)})
		if part.end == part.start {
			continue
		}
		c := f.evaluate(s, []span{part}, confidence)
		if s.Type == "address" {
			c = f.address(s, part, confidence)
		}
		if c.Confidence > best.Confidence {
			best = c
		}
		if s.Type == "" || s.Type == "text" || s.Type == "address" {
			break
		}
	}
	return best
}

// below returns the value in the first cell below a label.
func (f *finder) below(s *Spec, i int, confidence float64) candidate {
	if n := f.under(i, i, 3.2); n >= 0 && !f.labels(n) {
		part := f.trimmed(span{n, 0, len(f.cells[n].text)})
		if s.Type == "address" {
			return f.address(s, part, confidence)
		}
		return f.evaluate(s, []span{part}, confidence)
	}
	return candidate{}
}

// block reports whether a label heads lines below it, rather than a value far to the
// right of it.
func (f *finder) block(i int) bool {
	c, n := &f.cells[i], f.under(i, i, 1.9)
	if n < 0 || f.labels(n) || math.Abs(f.cells[n].box.X-c.box.X) > 0.5*c.box.H {
		return false
	}
	return i+1 < len(f.cells) && f.cells[i+1].row == c.row && f.cells[i+1].box.X-c.box.X-c.box.W > 8*c.box.H
}

// maxUnder is the maximum number of cells that are compared with the one above them.
const maxUnder = 250

// under returns the first cell below a cell that is aligned with another one, within
// a number of line heights, or -1.
func (f *finder) under(i, aligned int, lines float64) int {
	from, with := &f.cells[i], &f.cells[aligned]
	turn := f.turn(i)
	next := f.rows[from.line].end
	for n := next; n < min(len(f.cells), next+maxUnder); n++ {
		c := &f.cells[n]
		if c.page != from.page || f.turn(n) != turn {
			return -1
		}
		step := c.box.Y + c.box.H - from.box.Y - from.box.H
		if step < 0.3*from.box.H {
			continue
		}
		if step > lines*max(from.box.H, c.box.H) {
			return -1
		}
		if c.box.X < with.box.X+with.box.W && with.box.X < c.box.X+c.box.W || math.Abs(c.box.X-with.box.X) < from.box.H {
			return n
		}
	}
	return -1
}

func (f *finder) turn(i int) int {
	return f.doc.Pages[f.cells[i].page].Rows[f.cells[i].row].Turn
}

// maxAddress is the maximum number of lines of an address.
const maxAddress = 7

// address returns the lines of an address, of which the first is known.
func (f *finder) address(s *Spec, first span, confidence float64) candidate {
	spans := []span{first}
	for i := first.cell; len(spans) < maxAddress; {
		n := f.under(i, first.cell, 1.9)
		if n < 0 || f.labels(n) || math.Abs(f.cells[n].box.X-f.left(first)) > 1.2*f.cells[n].box.H || strings.HasSuffix(f.cells[n].text, ":") {
			break
		}
		spans = append(spans, span{n, 0, len(f.cells[n].text)})
		i = n
	}
	return f.evaluate(s, spans, confidence)
}

// left returns the left edge of a span.
func (f *finder) left(s span) float64 {
	c := &f.cells[s.cell]
	if s.start == 0 {
		return c.box.X
	}
	page := &f.doc.Pages[c.page]
	b, _ := page.Rows[c.row].Cells[c.cell].Within(s.start, s.end)
	return page.Upright(b, f.turn(s.cell)).X
}

// evaluate returns spans of text as a value of the field, with a confidence.
func (f *finder) evaluate(s *Spec, spans []span, confidence float64) candidate {
	lines := make([]string, len(spans))
	for i, one := range spans {
		lines[i] = f.textOf(one)
	}
	text := strings.Join(lines, ", ")
	c := candidate{Field: Field{Source: "label"}, spans: spans}
	if s.pattern != nil {
		if v, m := s.matched(f.ctx, text); m != nil {
			c.Value, c.Confidence = v, min(confidence+0.02, 0.99)
			if len(spans) == 1 {
				c.spans = []span{{spans[0].cell, spans[0].start + m[0], spans[0].start + m[1]}}
			}
			return c
		}
		confidence *= 0.5
	}
	v, ok := types[s.Type](text)
	switch {
	case ok:
		c.Value, c.Confidence = v, confidence
		return c
	case text == "":
		return candidate{}
	}
	c.Value, c.Confidence = text, 0.3 // a value of another type
	return c
}

// locate sets the places of a value, and lowers its confidence to the one of OCR.
func (f *finder) locate(c *candidate) {
	for _, s := range c.spans {
		cell := &f.cells[s.cell]
		box, sure := f.doc.Pages[cell.page].Rows[cell.row].Cells[cell.cell].Within(s.start, s.end)
		if box.H > 0 && len(c.Places) < maxAddress {
			c.Places = append(c.Places, Place{Page: cell.page + 1, Box: box.Rounded()})
		}
		if sure > 0 {
			c.Confidence = min(c.Confidence, c.Confidence*(0.5+0.5*sure))
		}
	}
}

// labelled returns the offset of a label in a text as a whole word, or -1.
func labelled(line, label string) int {
	for from := 0; ; {
		at := strings.Index(line[from:], label)
		if at < 0 {
			return -1
		}
		at += from
		end := at + len(label)
		if (at == 0 || !wordly(line[at-1])) && (end == len(line) || !wordly(line[end])) {
			return at
		}
		from = end
	}
}

func wordly(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// matched returns what the pattern finds, normalised for its type, and where. It finds
// nothing if the context ends.
func (s *Spec) matched(ctx context.Context, text string) (string, []int) {
	m := s.pattern.find(ctx, text)
	if m == nil {
		return "", nil
	}
	group := m[:2]
	if len(m) > 2 {
		group = m[2:4]
	}
	found := ""
	if group[0] >= 0 {
		found = text[group[0]:group[1]]
	}
	v, ok := types[s.Type](found)
	if !ok {
		return "", nil
	}
	return v, m
}
