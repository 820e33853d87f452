package pdf

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// font turns the codes of shown strings into text and widths.
type font struct {
	composite bool
	codes     *cmap     // how strings are divided into codes, and their glyph numbers
	unicode   *cmap     // ToUnicode
	wide      bool      // codes are UTF-16
	names     *encoding // of a simple font
	glyphs    map[uint32]string
	widths    map[uint32]float64
	width     float64 // of the other codes
	scale     float64 // from the units of widths to the size
	cache     map[uint32]string
}

// loadFont reads a font of the resources.
func (f *file) loadFont(v any) *font {
	d := f.dict(v)
	t := &font{scale: 0.001, width: 500, widths: map[uint32]float64{}, cache: map[uint32]string{}}
	if s, ok := f.resolve(d["ToUnicode"]).(*stream); ok {
		data, _ := f.decode(s)
		t.unicode = f.parseCMap(data)
	}
	if f.resolve(d["Subtype"]) == name("Type0") {
		f.loadComposite(t, d)
	} else {
		f.loadSimple(t, d)
	}
	return t
}

func (f *file) loadComposite(t *font, d dict) {
	t.composite = true
	t.codes = &cmap{}
	switch e := f.resolve(d["Encoding"]).(type) {
	case name:
		t.wide = strings.HasPrefix(string(e), "Uni") && !strings.Contains(string(e), "UTF8") && !strings.Contains(string(e), "UTF32")
	case *stream:
		data, _ := f.decode(e)
		t.codes = f.parseCMap(data)
	}
	var descendant dict
	if all := f.array(d["DescendantFonts"]); len(all) > 0 {
		descendant = f.dict(all[0])
	}
	t.width = f.float(descendant["DW"], 1000)
	f.cidWidths(t, f.array(descendant["W"]))
	if t.unicode == nil || len(t.unicode.texts)+len(t.unicode.ranges) == 0 {
		if s, ok := f.resolve(f.dict(descendant["FontDescriptor"])["FontFile2"]).(*stream); ok {
			data, _ := f.decode(s)
			t.glyphs = glyphTexts(data)
		}
	}
}

// cidWidths reads the widths of a composite font: "c [w1 w2 …]" or "from to w".
func (f *file) cidWidths(t *font, w array) {
	for i := 0; i+1 < len(w); {
		from := f.integer(w[i], 0)
		if list := f.array(w[i+1]); list != nil {
			for j, v := range list {
				t.widths[uint32(from+j)] = f.float(v, t.width)
			}
			i += 2
			continue
		}
		if i+2 >= len(w) {
			return
		}
		to, width := f.integer(w[i+1], 0), f.float(w[i+2], t.width)
		for c := from; c <= to && c-from < 1<<16 && len(t.widths) < 1<<17; c++ {
			t.widths[uint32(c)] = width
		}
		i += 3
	}
}

func (f *file) loadSimple(t *font, d dict) {
	base, _ := f.resolve(d["BaseFont"]).(name)
	descriptor := f.dict(d["FontDescriptor"])
	t.names = f.simpleEncoding(d, descriptor)
	core := coreWidths[coreFont(string(base), f.integer(descriptor["Flags"], 0))]
	widths := f.array(d["Widths"])
	if len(widths) == 0 && core != nil {
		for c := range 256 {
			t.widths[uint32(c)] = coreWidth(core, t.names[c])
		}
	}
	if len(widths) == 0 && core == nil {
		t.width = 600 // Courier
	} else {
		t.width = f.float(descriptor["MissingWidth"], 500)
	}
	start := f.integer(d["FirstChar"], 0)
	for i, w := range widths {
		if i < 256 {
			t.widths[uint32(start+i)] = f.float(w, 0)
		}
	}
	if m := f.floats(d["FontMatrix"]); f.resolve(d["Subtype"]) == name("Type3") && len(m) == 6 && m[0] != 0 {
		t.scale = m[0]
	}
}

// coreFont returns the name of the font among the core fonts that is most alike, or
// nothing for Courier.
func coreFont(base string, flags int) string {
	if _, rest, ok := strings.Cut(base, "+"); ok {
		base = rest
	}
	low := strings.ToLower(base)
	bold, italic := strings.Contains(low, "bold"), strings.Contains(low, "italic") || strings.Contains(low, "oblique")
	switch {
	case strings.Contains(low, "courier") || strings.Contains(low, "mono") || flags&1 != 0:
		return ""
	case strings.Contains(low, "times") || strings.Contains(low, "serif") && !strings.Contains(low, "sans") || flags&2 != 0:
		switch {
		case bold && italic:
			return "Times-BoldItalic"
		case bold:
			return "Times-Bold"
		case italic:
			return "Times-Italic"
		}
		return "Times-Roman"
	case bold:
		return "Helvetica-Bold"
	}
	return "Helvetica"
}

// coreWidth returns the width of a text's first character.
func coreWidth(core []float64, text string) float64 {
	for _, r := range text {
		for c := range 224 {
			if winAnsi[c+32] == string(r) {
				return core[c]
			}
		}
	}
	return 500
}

// simpleEncoding returns the text of each code of a simple font.
func (f *file) simpleEncoding(d, descriptor dict) *encoding {
	e := f.resolve(d["Encoding"])
	base, _ := e.(name)
	differences, _ := e.(dict)
	if differences != nil {
		base, _ = f.resolve(differences["BaseEncoding"]).(name)
	}
	var out encoding
	switch base {
	case "WinAnsiEncoding":
		out = *winAnsi
	case "MacRomanEncoding":
		out = *macRoman
	case "StandardEncoding":
		out = *standard
	default:
		out = *f.builtinEncoding(d, descriptor)
	}
	at := 0
	for _, v := range f.array(differences["Differences"]) {
		switch v := f.resolve(v).(type) {
		case int:
			at = v
		case name:
			if at >= 0 && at < 256 {
				out[at] = differenceText(string(v), at)
			}
			at++
		}
	}
	return &out
}

var numbered = regexp.MustCompile(`^(?:[A-Za-z]|cid|glyph|index|char)(\d{1,3})$`)

// differenceText returns the text of a glyph's name. A name that is the number of
// its code stands for the character with that number.
func differenceText(n string, at int) string {
	if t, ok := glyphText(n); ok {
		return t
	}
	if m := numbered.FindStringSubmatch(n); m != nil {
		if v, err := strconv.Atoi(m[1]); err == nil && v == at && v < 256 {
			if t, ok := texCodes[v]; ok {
				return t
			}
			return winAnsi[v]
		}
	}
	return "\ufffd"
}

// texCodes are the codes below the space in the fonts of TeX, whose bitmaps have no
// names.
var texCodes = map[int]string{
	11: "ff", 12: "fi", 13: "fl", 14: "ffi", 15: "ffl",
	16: "“", 17: "”", 18: "„", 19: "«", 20: "»", 21: "–", 22: "—", 27: "ff", 28: "fi", 29: "fl", 30: "ffi", 31: "ffl",
}

var putForm = regexp.MustCompile(`dup\s+(\d{1,3})\s*/([^\s/]{1,40})\s+put`)

// builtinEncoding returns the encoding of a font that names none: the one of its
// font program, or the standard one.
func (f *file) builtinEncoding(d, descriptor dict) *encoding {
	if s, ok := f.resolve(descriptor["FontFile"]).(*stream); ok {
		data, _ := f.decode(s)
		out := *standard
		if puts := putForm.FindAllSubmatch(data[:min(len(data), 16<<10)], 256); len(puts) > 0 {
			out = encoding{}
			for _, m := range puts {
				if c, err := strconv.Atoi(string(m[1])); err == nil && c < 256 {
					out[c] = differenceText(string(m[2]), c)
				}
			}
		}
		return &out
	}
	if s, ok := f.resolve(descriptor["FontFile2"]).(*stream); ok {
		data, _ := f.decode(s)
		if e := codeTexts(data); e != nil {
			return e
		}
		return winAnsi
	}
	if s, ok := f.resolve(descriptor["FontFile3"]).(*stream); ok {
		data, _ := f.decode(s)
		if e := cffEncoding(data); e != nil {
			return e
		}
	}
	base, _ := f.resolve(d["BaseFont"]).(name)
	switch {
	case strings.Contains(string(base), "Symbol"):
		return symbol
	case f.resolve(d["Subtype"]) == name("TrueType"):
		return winAnsi
	}
	return standard
}

// symbol is the part of the Symbol font's encoding that texts use.
var symbol = symbolEncoding()

func symbolEncoding() *encoding {
	e := *standard
	for i, r := range []rune("ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ") {
		e['A'+i] = string(r)
	}
	for i, r := range []rune("αβχδεφγηιϕκλμνοπθρστυϖωξψζ") {
		e['a'+i] = string(r)
	}
	e[0xa0], e[0xb0], e[0xb1], e[0xb4], e[0xb7], e['-'] = "€", "°", "±", "×", "•", "−"
	return &e
}

// next returns the first code of a string, and its length in bytes.
func (t *font) next(s string) (uint32, int) {
	if !t.composite {
		return uint32(s[0]), 1
	}
	return t.codes.next(s, 2)
}

// advance returns the width of a code, in units of the size.
func (t *font) advance(c uint32) float64 {
	if t.composite {
		c = t.codes.cid(c)
	}
	if w, ok := t.widths[c]; ok {
		return w * t.scale
	}
	return t.width * t.scale
}

// text returns the text of a code; U+FFFD if it is not known.
func (t *font) text(c uint32) string {
	if s, ok := t.cache[c]; ok {
		return s
	}
	s := clean(t.lookUp(c))
	if len(t.cache) < 1<<17 {
		t.cache[c] = s
	}
	return s
}

func (t *font) lookUp(c uint32) string {
	if t.unicode != nil {
		if s, ok := t.unicode.text(c); ok && !private(s) {
			return s
		}
	}
	switch {
	case t.names != nil:
		return t.names[byte(c)]
	case t.wide:
		return string(utf16.Decode([]uint16{uint16(c)}))
	}
	if s, ok := t.glyphs[t.codes.cid(c)]; ok {
		return s
	}
	return "\ufffd"
}

// private reports whether a text consists of characters for private use, which say
// nothing.
func private(s string) bool {
	for _, r := range s {
		if r < 0xe000 || r > 0xf8ff {
			return false
		}
	}
	return s != ""
}
