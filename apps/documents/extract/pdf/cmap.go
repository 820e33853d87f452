package pdf

import (
	"strings"
	"unicode/utf16"
)

// cmap maps codes to text (ToUnicode), or to numbers of glyphs (Encoding).
type cmap struct {
	spaces []codeSpace
	texts  map[uint32]string
	ranges []textRange
	cids   []cidRange
}

type codeSpace struct {
	size      int
	low, high uint32
}

type textRange struct {
	low, high uint32
	text      []uint16
}

type cidRange struct {
	low, high uint32
	cid       uint32
}

// maxMap bounds the entries of a cmap.
const maxMap = 100_000

// parseCMap parses a cmap. It reads the operators that define mappings and ignores
// the rest.
func (f *file) parseCMap(data []byte) *cmap {
	m := &cmap{texts: map[uint32]string{}}
	l := &lexer{b: data, limits: f.limits}
	var operands []any
	for {
		v := l.object()
		op, ok := v.(keyword)
		if !ok {
			if len(operands) < 3*maxMap {
				operands = append(operands, v)
			}
			continue
		}
		switch op {
		case ended:
			return m
		case "endcodespacerange":
			m.addSpaces(operands)
		case "endbfchar":
			m.addChars(operands)
		case "endbfrange":
			m.addRanges(operands)
		case "endcidrange":
			m.addCIDs(operands, 3)
		case "endcidchar":
			m.addCIDs(operands, 2)
		}
		operands = operands[:0]
	}
}

func (m *cmap) addSpaces(operands []any) {
	for i := 0; i+1 < len(operands) && len(m.spaces) < 100; i += 2 {
		low, ok := operands[i].(str)
		high, ok2 := operands[i+1].(str)
		if ok && ok2 && len(low) >= 1 && len(low) <= 4 {
			m.spaces = append(m.spaces, codeSpace{len(low), code(low), code(high)})
		}
	}
}

func (m *cmap) addChars(operands []any) {
	for i := 0; i+1 < len(operands) && len(m.texts) < maxMap; i += 2 {
		from, ok := operands[i].(str)
		switch to := operands[i+1].(type) {
		case str:
			if ok {
				m.texts[code(from)] = string(utf16.Decode(units(to)))
			}
		case name:
			if t, known := glyphText(string(to)); ok && known {
				m.texts[code(from)] = t
			}
		}
	}
}

func (m *cmap) addRanges(operands []any) {
	for i := 0; i+2 < len(operands) && len(m.ranges) < maxMap; i += 3 {
		from, ok := operands[i].(str)
		to, ok2 := operands[i+1].(str)
		if !ok || !ok2 {
			continue
		}
		low, high := code(from), code(to)
		switch v := operands[i+2].(type) {
		case str:
			m.ranges = append(m.ranges, textRange{low, high, units(v)})
		case array:
			for j, t := range v {
				if s, ok := t.(str); ok && len(m.texts) < maxMap {
					m.texts[low+uint32(j)] = string(utf16.Decode(units(s)))
				}
			}
		}
	}
}

func (m *cmap) addCIDs(operands []any, width int) {
	for i := 0; i+width-1 < len(operands) && len(m.cids) < maxMap; i += width {
		from, ok := operands[i].(str)
		to, ok2 := operands[i+width-2].(str)
		cid, ok3 := operands[i+width-1].(int)
		if ok && ok2 && ok3 {
			m.cids = append(m.cids, cidRange{code(from), code(to), uint32(cid)})
		}
	}
}

func code(s str) uint32 {
	v := uint32(0)
	for i := 0; i < len(s) && i < 4; i++ {
		v = v<<8 | uint32(s[i])
	}
	return v
}

func units(s str) []uint16 {
	if len(s) == 1 {
		return []uint16{uint16(s[0])}
	}
	all := make([]uint16, 0, len(s)/2)
	for i := 0; i+1 < len(s) && len(all) < 64; i += 2 {
		all = append(all, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return all
}

// text returns the text of a code.
func (m *cmap) text(c uint32) (string, bool) {
	t, ok := m.texts[c]
	if !ok {
		for _, r := range m.ranges {
			if c >= r.low && c <= r.high && len(r.text) > 0 {
				all := append([]uint16{}, r.text...)
				all[len(all)-1] += uint16(c - r.low)
				t, ok = string(utf16.Decode(all)), true
				break
			}
		}
	}
	if strings.ContainsAny(t, "\ufffd\x00") {
		return "", false
	}
	return t, ok
}

// cid returns the glyph number of a code.
func (m *cmap) cid(c uint32) uint32 {
	for _, r := range m.cids {
		if c >= r.low && c <= r.high {
			return r.cid + c - r.low
		}
	}
	return c
}

// next returns the first code of a string, and its length in bytes.
func (m *cmap) next(s string, otherwise int) (uint32, int) {
	for size := 1; size <= 4 && size <= len(s); size++ {
		c := code(str(s[:size]))
		for _, space := range m.spaces {
			if space.size == size && c >= space.low && c <= space.high {
				return c, size
			}
		}
	}
	n := min(otherwise, len(s))
	return code(str(s[:n])), n
}
