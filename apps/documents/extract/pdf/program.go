package pdf

import (
	"encoding/binary"
	"strings"
)

// Font programs say what their glyphs mean, for files that do not: the character
// map of a TrueType font, and the encoding of a CFF font.

// sfntTable returns a table of a TrueType font.
func sfntTable(data []byte, tag string) []byte {
	if len(data) < 12 {
		return nil
	}
	n := int(binary.BigEndian.Uint16(data[4:]))
	for i := 0; i < n && 12+16*i+16 <= len(data); i++ {
		e := data[12+16*i:]
		at, size := int(binary.BigEndian.Uint32(e[8:])), int(binary.BigEndian.Uint32(e[12:]))
		if string(e[:4]) == tag && at >= 0 && size >= 0 && at <= len(data) && size <= len(data)-at {
			return data[at : at+size]
		}
	}
	return nil
}

// charMap calls each for the characters of a font's map of a platform and encoding,
// with the numbers of their glyphs.
func charMap(data []byte, platform, encoding int, each func(char rune, glyph uint32)) bool {
	table := sfntTable(data, "cmap")
	if len(table) < 4 {
		return false
	}
	n := int(binary.BigEndian.Uint16(table[2:]))
	for i := 0; i < n && 4+8*i+8 <= len(table); i++ {
		e := table[4+8*i:]
		at := int(binary.BigEndian.Uint32(e[4:]))
		if int(binary.BigEndian.Uint16(e)) != platform || int(binary.BigEndian.Uint16(e[2:])) != encoding || at < 0 || at+16 > len(table) {
			continue
		}
		subtable(table[at:], each)
		return true
	}
	return false
}

func subtable(t []byte, each func(rune, uint32)) {
	u16 := func(at int) int {
		if at < 0 || at+2 > len(t) {
			return 0
		}
		return int(binary.BigEndian.Uint16(t[at:]))
	}
	switch u16(0) {
	case 0:
		for c := 0; c < 256 && 6+c < len(t); c++ {
			each(rune(c), uint32(t[6+c]))
		}
	case 4:
		segments := u16(6) / 2
		for s := range segments {
			end, start := u16(14+2*s), u16(16+2*segments+2*s)
			delta, offset := u16(16+4*segments+2*s), u16(16+6*segments+2*s)
			for c := start; c <= end && c < 0xffff; c++ {
				g := (c + delta) & 0xffff
				if offset != 0 {
					if g = u16(16 + 6*segments + 2*s + offset + 2*(c-start)); g != 0 {
						g = (g + delta) & 0xffff
					}
				}
				each(rune(c), uint32(g))
			}
			if 14+2*s > len(t) {
				return
			}
		}
	case 6:
		for i := range min(u16(8), 1<<16) {
			each(rune(u16(6)+i), uint32(u16(10+2*i)))
		}
	case 12:
		groups := int(binary.BigEndian.Uint32(t[12:]))
		total := 0
		for i := 0; i < groups && 16+12*i+12 <= len(t); i++ {
			e := t[16+12*i:]
			low, high, g := binary.BigEndian.Uint32(e), binary.BigEndian.Uint32(e[4:]), binary.BigEndian.Uint32(e[8:])
			for c := low; c <= high && total < 1<<17 && c <= 0x10ffff; c++ {
				each(rune(c), g+c-low)
				total++
			}
		}
	}
}

// glyphTexts returns the text of each glyph of a TrueType font.
func glyphTexts(data []byte) map[uint32]string {
	out := map[uint32]string{}
	each := func(c rune, g uint32) {
		if _, ok := out[g]; !ok && g != 0 && c >= ' ' {
			out[g] = string(c)
		}
	}
	for _, of := range [][2]int{{3, 10}, {3, 1}, {0, 4}, {0, 3}, {0, 1}} {
		if charMap(data, of[0], of[1], each) {
			break
		}
	}
	return out
}

// codeTexts returns the encoding of a TrueType font that is used with its own codes,
// or nil if it is not known.
func codeTexts(data []byte) *encoding {
	texts := glyphTexts(data)
	var out encoding
	found := false
	each := func(c rune, g uint32) {
		if c >= 0xf000 && c <= 0xf0ff {
			c -= 0xf000
		}
		if t, ok := texts[g]; ok && c < 256 {
			out[c], found = t, true
		}
	}
	if len(texts) > 0 && (charMap(data, 3, 0, each) || charMap(data, 1, 0, each)) && found {
		return &out
	}
	return nil
}

// cffIndex reads an index of a CFF font, and returns its parts and what follows.
func cffIndex(data []byte) (parts [][]byte, rest []byte) {
	if len(data) < 2 {
		return nil, nil
	}
	n := int(binary.BigEndian.Uint16(data))
	if n == 0 {
		return nil, data[2:]
	}
	if len(data) < 3 || data[2] < 1 || data[2] > 4 {
		return nil, nil
	}
	size := int(data[2])
	base := 3 + (n+1)*size - 1
	at := func(i int) int { return base + bigEndian(data[3+i*size:3+(i+1)*size]) }
	if base+1 > len(data) {
		return nil, nil
	}
	for i := range n {
		from, to := at(i), at(i+1)
		if from < 0 || to < from || to > len(data) {
			return nil, nil
		}
		parts = append(parts, data[from:to])
	}
	return parts, data[at(n):]
}

// cffNumbers returns the operands of an operator of a CFF dictionary.
func cffNumbers(d []byte, operator byte) []int {
	var operands []int
	for i := 0; i < len(d); {
		b := d[i]
		i++
		switch {
		case b == 12:
			i++
			operands = nil
		case b <= 21:
			if b == operator {
				return operands
			}
			operands = nil
		case b == 28 && i+2 <= len(d):
			operands = append(operands, int(int16(binary.BigEndian.Uint16(d[i:]))))
			i += 2
		case b == 29 && i+4 <= len(d):
			operands = append(operands, int(int32(binary.BigEndian.Uint32(d[i:]))))
			i += 4
		case b == 30:
			for i < len(d) && d[i]&0xf != 0xf && d[i]>>4 != 0xf {
				i++
			}
			i++
			operands = append(operands, 0)
		case b >= 32 && b <= 246:
			operands = append(operands, int(b)-139)
		case b >= 247 && b <= 250 && i < len(d):
			operands = append(operands, (int(b)-247)*256+int(d[i])+108)
			i++
		case b >= 251 && b <= 254 && i < len(d):
			operands = append(operands, -(int(b)-251)*256-int(d[i])-108)
			i++
		}
	}
	return nil
}

// cffEncoding returns the encoding of a CFF font that has its own, or nil.
func cffEncoding(data []byte) *encoding {
	if len(data) < 4 || int(data[2]) > len(data) {
		return nil
	}
	_, rest := cffIndex(data[data[2]:])
	tops, rest := cffIndex(rest)
	strs, _ := cffIndex(rest)
	if len(tops) == 0 {
		return nil
	}
	charset, codes := cffNumbers(tops[0], 15), cffNumbers(tops[0], 16)
	if len(charset) != 1 || len(codes) != 1 || charset[0] < 3 || codes[0] < 2 || charset[0] >= len(data) || codes[0] >= len(data) {
		return nil
	}
	names := cffCharset(data[charset[0]:], strs)
	var out encoding
	e := data[codes[0]:]
	if len(e) < 2 {
		return nil
	}
	glyph := 1
	put := func(c int) {
		if glyph < len(names) && c < 256 {
			out[c] = differenceText(names[glyph], c)
		}
		glyph++
	}
	switch e[0] & 0x7f {
	case 0:
		for _, c := range e[2:min(2+int(e[1]), len(e))] {
			put(int(c))
		}
	case 1:
		for i := 2; i+1 < min(2+2*int(e[1]), len(e)); i += 2 {
			for j := 0; j <= int(e[i+1]); j++ {
				put(int(e[i]) + j)
			}
		}
	}
	return &out
}

// cffCharset returns the names of the first 300 glyphs, which are as many as a
// simple font can use.
func cffCharset(c []byte, strs [][]byte) []string {
	names := []string{".notdef"}
	put := func(id int) {
		switch {
		case id >= 391 && id-391 < len(strs):
			names = append(names, string(strs[id-391]))
		case id < len(cffNames):
			names = append(names, cffNames[id])
		default:
			names = append(names, "?")
		}
	}
	kind := c[0]
	for c = c[1:]; len(c) >= 2 && len(names) < 300; {
		id := int(binary.BigEndian.Uint16(c))
		left := 0
		switch {
		case kind == 0:
			c = c[2:]
		case kind == 1 && len(c) >= 3:
			left, c = int(c[2]), c[3:]
		case kind == 2 && len(c) >= 4:
			left, c = int(binary.BigEndian.Uint16(c[2:])), c[4:]
		default:
			return names
		}
		for i := 0; i <= left && len(names) < 300; i++ {
			put(id + i)
		}
	}
	return names
}

// cffNames are the names of the standard strings of CFF up to 228, which are the
// glyphs of Adobe's Latin fonts.
var cffNames = strings.Fields(`.notdef space exclam quotedbl numbersign dollar percent ampersand quoteright parenleft parenright asterisk plus comma
hyphen period slash zero one two three four five six seven eight nine colon semicolon less equal greater question at
A B C D E F G H I J K L M N O P Q R S T U V W X Y Z bracketleft backslash bracketright asciicircum underscore quoteleft
a b c d e f g h i j k l m n o p q r s t u v w x y z braceleft bar braceright asciitilde exclamdown cent sterling fraction yen
florin section currency quotesingle quotedblleft guillemotleft guilsinglleft guilsinglright fi fl endash dagger daggerdbl
periodcentered paragraph bullet quotesinglbase quotedblbase quotedblright guillemotright ellipsis perthousand questiondown
grave acute circumflex tilde macron breve dotaccent dieresis ring cedilla hungarumlaut ogonek caron emdash AE ordfeminine
Lslash Oslash OE ordmasculine ae dotlessi lslash oslash oe germandbls onesuperior logicalnot mu trademark Eth onehalf plusminus
Thorn onequarter divide brokenbar degree thorn threequarters twosuperior registered minus eth multiply threesuperior copyright
Aacute Acircumflex Adieresis Agrave Aring Atilde Ccedilla Eacute Ecircumflex Edieresis Egrave Iacute Icircumflex Idieresis
Igrave Ntilde Oacute Ocircumflex Odieresis Ograve Otilde Scaron Uacute Ucircumflex Udieresis Ugrave Yacute Ydieresis Zcaron
aacute acircumflex adieresis agrave aring atilde ccedilla eacute ecircumflex edieresis egrave iacute icircumflex idieresis
igrave ntilde oacute ocircumflex odieresis ograve otilde scaron uacute ucircumflex udieresis ugrave yacute ydieresis zcaron`)
