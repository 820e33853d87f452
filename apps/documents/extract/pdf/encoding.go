package pdf

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// encoding is the text of each code of a simple font.
type encoding [256]string

// winAnsi, macRoman and standard are the encodings that files name.
var (
	winAnsi  = fromCharmap(charmap.Windows1252)
	macRoman = fromCharmap(charmap.Macintosh)
	standard = standardEncoding()
)

func fromCharmap(m *charmap.Charmap) *encoding {
	var e encoding
	for c := 32; c < 256; c++ {
		if r := m.DecodeByte(byte(c)); r != utf8.RuneError && r >= ' ' {
			e[c] = string(r)
		}
	}
	if m == charmap.Windows1252 {
		for _, c := range []int{0x7f, 0x81, 0x8d, 0x8f, 0x90, 0x9d} {
			e[c] = "•"
		}
	}
	e[0xa0] = strings.ReplaceAll(e[0xa0], "\u00a0", " ")
	return &e
}

// standardEncoding returns Adobe's standard encoding, which differs from ASCII in
// two quotation marks.
func standardEncoding() *encoding {
	var e encoding
	for c := 32; c < 127; c++ {
		e[c] = string(rune(c))
	}
	e['\''], e['`'] = "’", "‘"
	for from, text := range map[int]string{
		0xa1: "¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ", 0xb1: "–†‡·", 0xb6: "¶•‚„”»…‰", 0xbf: "¿", 0xc1: "`´ˆ˜¯˘˙¨", 0xca: "˚¸", 0xcd: "˝˛ˇ—",
		0xe1: "Æ", 0xe3: "ª", 0xe8: "ŁØŒº", 0xf1: "æ", 0xf5: "ı", 0xf8: "łøœß",
	} {
		for _, r := range text {
			e[from] = string(r)
			from++
		}
	}
	return &e
}

// named are the names of glyphs that are not built from a letter and an accent.
var named = glyphNames()

func glyphNames() map[string]string {
	named := map[string]string{}
	for text, names := range map[string]string{
		" ":                  "space",
		"!\"#$%&'()*+,-./":   "exclam quotedbl numbersign dollar percent ampersand quotesingle parenleft parenright asterisk plus comma hyphen period slash",
		"0123456789":         "zero one two three four five six seven eight nine",
		":;<=>?@[\\]^_`{|}~": "colon semicolon less equal greater question at bracketleft backslash bracketright asciicircum underscore grave braceleft bar braceright asciitilde",
		"¡¢£¤¥¦§¨©ª«¬®¯°±²³´µ¶·¸¹º»": "exclamdown cent sterling currency yen brokenbar section dieresis copyright ordfeminine guillemotleft logicalnot registered macron degree plusminus twosuperior threesuperior acute mu paragraph periodcentered cedilla onesuperior ordmasculine guillemotright",
		"¼½¾¿ÆÐ×ØÞßæð÷øþıŁłŒœƒ":      "onequarter onehalf threequarters questiondown AE Eth multiply Oslash Thorn germandbls ae eth divide oslash thorn dotlessi Lslash lslash OE oe florin",
		"–—‘’‚“”„†‡•…‰‹›⁄€™−ĐđĦħŋŊ":  "endash emdash quoteleft quoteright quotesinglbase quotedblleft quotedblright quotedblbase dagger daggerdbl bullet ellipsis perthousand guilsinglleft guilsinglright fraction Euro trademark minus Dcroat dcroat Hbar hbar eng Eng",
		"ˆˇ˘˙˚˛˜˝": "circumflex caron breve dotaccent ring ogonek tilde hungarumlaut",
		"αβγδεζηθικλμνξοπρςστυφχψω": "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu1 nu xi omicron pi rho sigma1 sigma tau upsilon phi chi psi omega",
		"ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ":  "Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi Omicron Pi Rho Sigma Tau Upsilon Phi Chi Psi Omega",
		"≤≥≠∞≈∑∏√∂∫◊←↑→↓№ſ":         "lessequal greaterequal notequal infinity approxequal summation product radical partialdiff integral lozenge arrowleft arrowup arrowright arrowdown afii61352 longs",
	} {
		all := []rune(text)
		for i, n := range strings.Fields(names) {
			named[n] = string(all[i])
		}
	}
	for n, text := range map[string]string{
		"ff": "ff", "fi": "fi", "fl": "fl", "ffi": "ffi", "ffl": "ffl", "f_f": "ff", "f_i": "fi", "f_l": "fl", "f_f_i": "ffi", "f_f_l": "ffl",
		"nbspace": " ", "nonbreakingspace": " ", "sfthyphen": "-", "softhyphen": "-", "hyphenminus": "-", "visiblespace": " ",
		"visualspace": " ", "periodcentered": "·", "middot": "·", "dotlessj": "j", "IJ": "IJ", "ij": "ij", "Euro": "€", "euro": "€",
		"Delta": "Δ", "quotedbl": "\"", "perthousandzero": "0", "compwordmark": "", "cwm": "", ".notdef": "", "nonmarkingreturn": "", ".null": "",
	} {
		named[n] = text
	}
	return named
}

// accents are the endings of the names of accented letters.
var accents = map[string]rune{
	"grave": 0x300, "acute": 0x301, "circumflex": 0x302, "tilde": 0x303, "macron": 0x304, "breve": 0x306, "dotaccent": 0x307,
	"dieresis": 0x308, "ring": 0x30a, "hungarumlaut": 0x30b, "caron": 0x30c, "cedilla": 0x327, "commaaccent": 0x327, "ogonek": 0x328,
}

// glyphText returns the text of a glyph's name. Names such as a65 and g12, which
// stand for a number, are not known.
func glyphText(n string) (string, bool) {
	if t, ok := named[n]; ok {
		return t, true
	}
	if len(n) < 2 {
		return n, n != ""
	}
	if base, _, ok := strings.Cut(n, "."); ok && base != "" {
		return glyphText(base)
	}
	if strings.Contains(n, "_") {
		all := ""
		for part := range strings.SplitSeq(n, "_") {
			t, ok := glyphText(part)
			if !ok {
				return "", false
			}
			all += t
		}
		return all, true
	}
	for _, prefix := range []string{"uni", "u"} {
		digits, ok := strings.CutPrefix(n, prefix)
		if !ok || len(digits) < 4 || len(digits) > 6 && len(digits)%4 != 0 {
			continue
		}
		if prefix == "uni" && len(digits) > 4 {
			digits = digits[:4]
		}
		if v, err := strconv.ParseUint(digits, 16, 32); err == nil && v >= ' ' && v <= 0x10ffff {
			return string(rune(v)), true
		}
	}
	if accent, ok := accents[n[1:]]; ok {
		return norm.NFC.String(n[:1] + string(accent)), true
	}
	for _, small := range []string{"oldstyle", "inferior", "superior", "small", "tab"} {
		if base, ok := strings.CutSuffix(n, small); ok && base != "" {
			return glyphText(base)
		}
	}
	return "", false
}

// clean returns the text of a glyph in the form in which it is searched: ligatures
// and other compatibility forms become letters, and special spaces become spaces.
func clean(text string) string {
	plain := true
	for i := 0; i < len(text); i++ {
		if c := text[i]; c >= 0x80 || c < ' ' {
			plain = false
			break
		}
	}
	if plain {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == 0xa0 || r >= 0x2000 && r <= 0x200a || r == 0x202f || r == 0x205f || r == 0x3000 || r == '\t' || r == '\n' || r == '\r':
			out.WriteByte(' ')
		case r < ' ' || r == 0x7f || r == 0xad && len(text) > 2 || r >= 0x200b && r <= 0x200f || r == 0xfeff:
		case r == 0xad || r == 0x2010 || r == 0x2011:
			out.WriteByte('-')
		case r >= 0xfb00 && r <= 0xfb06 || r >= 0xff01 && r <= 0xff5e:
			out.WriteString(norm.NFKC.String(string(r)))
		default:
			out.WriteRune(r)
		}
	}
	return norm.NFC.String(out.String())
}
