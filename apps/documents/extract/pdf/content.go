package pdf

import (
	"bytes"
	"math"
)

// matrix maps (x, y) to (a x + c y + e, b x + d y + f).
type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

// times returns the matrix that applies m first and n second.
func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

func (m matrix) apply(x, y float64) (float64, float64) {
	return m[0]*x + m[2]*y + m[4], m[1]*x + m[3]*y + m[5]
}

// graphics is the part of the graphics state that places text.
type graphics struct {
	ctm                       matrix
	font                      *font
	size, char, word, leading float64
	stretch, rise             float64
	mode                      int
}

// The limits of page content.
const (
	maxStates = 500
	maxForms  = 12
	maxStack  = 600 // operands before an operator
)

// interpreter runs the content of a page and collects what it shows.
type interpreter struct {
	f     *file
	page  *Page
	state graphics
	stack []graphics
	fonts map[any]*font
	forms int

	text, line matrix
	marks      []mark
	path       [2]float64 // the current point
}

// mark is an open sequence of marked content.
type mark struct {
	actual string // the text that the sequence stands for
	has    bool
	from   int // number of glyphs before it
}

// run executes content with its resources.
func (p *interpreter) run(data []byte, resources dict) {
	l := &lexer{b: data, limits: p.f.limits}
	var operands []any
	for {
		v := l.object()
		op, ok := v.(keyword)
		if !ok {
			if len(operands) < maxStack {
				operands = append(operands, v)
			}
			continue
		}
		switch op {
		case ended:
			return
		case "BI":
			skipInlineImage(l)
		default:
			p.execute(op, operands, resources)
		}
		operands = operands[:0]
	}
}

// skipInlineImage skips a picture within the content.
func skipInlineImage(l *lexer) {
	for {
		if v := l.object(); v == keyword("ID") || v == ended {
			break
		}
	}
	for at := l.at; at < len(l.b); {
		i := bytes.Index(l.b[at:], []byte("EI"))
		if i < 0 {
			break
		}
		at += i + 2
		if isSpace(l.b[at-3]) && (at == len(l.b) || isSpace(l.b[at])) && printable(l.b[at:min(at+20, len(l.b))]) {
			l.at = at
			return
		}
	}
	l.at = len(l.b)
}

func printable(b []byte) bool {
	for _, c := range b {
		if c >= 0x7f || c < ' ' && !isSpace(c) {
			return false
		}
	}
	return true
}

func number(operands []any, i int) float64 {
	if i < len(operands) {
		switch v := operands[i].(type) {
		case int:
			return float64(v)
		case float64:
			return v
		}
	}
	return 0
}

func matrixOf(operands []any) matrix {
	var m matrix
	for i := range m {
		m[i] = number(operands, i)
	}
	return m
}

func stringOf(operands []any, i int) string {
	if i >= 0 && i < len(operands) {
		if s, ok := operands[i].(str); ok {
			return string(s)
		}
	}
	return ""
}

// execute executes one operator.
func (p *interpreter) execute(op keyword, v []any, resources dict) {
	s := &p.state
	switch op {
	case "q":
		if len(p.stack) < maxStates {
			p.stack = append(p.stack, *s)
		}
	case "Q":
		if n := len(p.stack); n > 0 {
			*s, p.stack = p.stack[n-1], p.stack[:n-1]
		}
	case "cm":
		s.ctm = matrixOf(v).times(s.ctm)
	case "gs":
		p.extended(v, resources)
	case "Do":
		p.draw(v, resources)
	case "m":
		p.path = [2]float64{number(v, 0), number(v, 1)}
	case "l":
		to := [2]float64{number(v, 0), number(v, 1)}
		p.rule(p.path, to)
		p.path = to
	case "re":
		x, y, w, h := number(v, 0), number(v, 1), number(v, 2), number(v, 3)
		for _, side := range [][4]float64{{x, y, x, y + h}, {x + w, y, x + w, y + h}, {x, y, x + w, y}, {x, y + h, x + w, y + h}} {
			p.rule([2]float64{side[0], side[1]}, [2]float64{side[2], side[3]})
		}
	case "BDC":
		p.begin(v, resources)
	case "BMC":
		p.marks = append(p.marks, mark{})
	case "EMC":
		p.end()
	default:
		p.executeText(op, v, resources)
	}
}

// maxRules is the maximum number of vertical lines of a page.
const maxRules = 20_000

// rule notes a line if it is vertical.
func (p *interpreter) rule(from, to [2]float64) {
	x0, y0 := p.state.ctm.apply(from[0], from[1])
	x1, y1 := p.state.ctm.apply(to[0], to[1])
	if len(p.page.Rules) < maxRules && finite(x0, y0, x1, y1) && math.Abs(x1-x0) < 0.7 && math.Abs(y1-y0) > 5 {
		p.page.Rules = append(p.page.Rules, Rule{(x0 + x1) / 2, min(y0, y1), max(y0, y1)})
	}
}

func (p *interpreter) executeText(op keyword, v []any, resources dict) {
	s := &p.state
	switch op {
	case "BT":
		p.text, p.line = identity, identity
	case "Tc":
		s.char = number(v, 0)
	case "Tw":
		s.word = number(v, 0)
	case "Tz":
		s.stretch = number(v, 0) / 100
	case "TL":
		s.leading = number(v, 0)
	case "Tr":
		s.mode = int(number(v, 0))
	case "Ts":
		s.rise = number(v, 0)
	case "Tf":
		if len(v) > 0 {
			if n, ok := v[0].(name); ok {
				p.setFont(p.f.dict(resources["Font"])[n])
			}
		}
		s.size = number(v, 1)
	case "Td":
		p.move(number(v, 0), number(v, 1))
	case "TD":
		s.leading = -number(v, 1)
		p.move(number(v, 0), number(v, 1))
	case "Tm":
		p.text = matrixOf(v)
		p.line = p.text
	case "T*":
		p.move(0, -s.leading)
	case "Tj":
		p.show(stringOf(v, 0))
	case "'":
		p.move(0, -s.leading)
		p.show(stringOf(v, 0))
	case "\"":
		s.word, s.char = number(v, 0), number(v, 1)
		p.move(0, -s.leading)
		p.show(stringOf(v, 2))
	case "TJ":
		if len(v) > 0 {
			all, _ := v[0].(array)
			p.showAll(all)
		}
	}
}

func (p *interpreter) showAll(all array) {
	for i, v := range all {
		switch v := v.(type) {
		case str:
			p.show(string(v))
		default:
			p.advance(-number(all, i) / 1000 * p.state.size * p.state.stretch)
		}
	}
}

func (p *interpreter) move(x, y float64) {
	p.line = matrix{1, 0, 0, 1, x, y}.times(p.line)
	p.text = p.line
}

func (p *interpreter) advance(x float64) {
	p.text = matrix{1, 0, 0, 1, x, 0}.times(p.text)
}

// setFont chooses a font. Fonts are read once for a file.
func (p *interpreter) setFont(v any) {
	key := v
	if _, ok := v.(ref); !ok {
		p.state.font = p.f.loadFont(v)
		return
	}
	if _, ok := p.fonts[key]; !ok {
		p.fonts[key] = p.f.loadFont(v)
	}
	p.state.font = p.fonts[key]
}

// show shows a string.
func (p *interpreter) show(text string) {
	s := &p.state
	if s.font == nil {
		s.font = p.f.loadFont(nil)
	}
	for len(text) > 0 {
		c, n := s.font.next(text)
		if n == 0 {
			return
		}
		w := s.font.advance(c) * s.size * s.stretch
		p.collect(s.font.text(c), w)
		w += s.char * s.stretch
		if n == 1 && text[0] == ' ' {
			w += s.word * s.stretch
		}
		p.advance(w)
		text = text[n:]
	}
}

// collect adds a glyph of a width to the page.
func (p *interpreter) collect(text string, width float64) {
	p.f.limits.spendGlyph()
	if text == "" {
		return
	}
	s := &p.state
	m := matrix{1, 0, 0, 1, 0, s.rise}.times(p.text).times(s.ctm)
	x, y := m.apply(0, 0)
	ex, ey := m.apply(width, 0)
	ux, uy := m[2]*s.size, m[3]*s.size
	size := math.Hypot(ux, uy)
	if !finite(x, y, ex, ey, size) || size <= 0 {
		return
	}
	p.page.Glyphs = append(p.page.Glyphs, Glyph{Text: text, X: x, Y: y, EndX: ex, EndY: ey, Size: size, Hidden: s.mode == 3})
}

func finite(all ...float64) bool {
	for _, v := range all {
		if math.IsNaN(v) || math.Abs(v) > 1e7 {
			return false
		}
	}
	return true
}

// extended sets the font of an extended graphics state.
func (p *interpreter) extended(v []any, resources dict) {
	if len(v) == 0 {
		return
	}
	n, _ := v[0].(name)
	if f := p.f.array(p.f.dict(p.f.dict(resources["ExtGState"])[n])["Font"]); len(f) == 2 {
		p.setFont(f[0])
		p.state.size = p.f.float(f[1], p.state.size)
	}
}

// draw runs a form, or notes a picture.
func (p *interpreter) draw(v []any, resources dict) {
	if len(v) == 0 {
		return
	}
	n, _ := v[0].(name)
	s, ok := p.f.resolve(p.f.dict(resources["XObject"])[n]).(*stream)
	if !ok {
		return
	}
	switch p.f.resolve(s.dict["Subtype"]) {
	case name("Image"):
		p.page.images = append(p.page.images, placed{s, p.state.ctm})
	case name("Form"):
		if p.forms >= maxForms {
			return
		}
		data, _ := p.f.decode(s)
		inner := p.f.dict(s.dict["Resources"])
		if inner == nil {
			inner = resources
		}
		saved, depth := p.state, len(p.stack)
		text, line := p.text, p.line
		if m := p.f.floats(s.dict["Matrix"]); len(m) == 6 {
			p.state.ctm = matrix(m).times(p.state.ctm)
		}
		p.forms++
		p.run(data, inner)
		p.forms--
		p.state, p.stack = saved, p.stack[:min(depth, len(p.stack))]
		p.text, p.line = text, line
	}
}

// begin begins marked content, which may say what its text is.
func (p *interpreter) begin(v []any, resources dict) {
	m := mark{from: len(p.page.Glyphs)}
	if len(v) > 1 {
		d, _ := v[1].(dict)
		if n, ok := v[1].(name); ok {
			d = p.f.dict(p.f.dict(resources["Properties"])[n])
		}
		if s, ok := p.f.resolve(d["ActualText"]).(str); ok {
			m.actual, m.has = clean(textString(s)), true
		}
	}
	if len(p.marks) < maxStates {
		p.marks = append(p.marks, m)
	}
}

// end ends marked content. The glyphs of a sequence with a text become one.
func (p *interpreter) end() {
	n := len(p.marks)
	if n == 0 {
		return
	}
	m := p.marks[n-1]
	p.marks = p.marks[:n-1]
	all := p.page.Glyphs
	if !m.has || m.from >= len(all) {
		return
	}
	one, last := all[m.from], all[len(all)-1]
	one.Text, one.EndX, one.EndY = m.actual, last.EndX, last.EndY
	p.page.Glyphs = all[:m.from]
	if one.Text != "" {
		p.page.Glyphs = append(p.page.Glyphs, one)
	}
}
