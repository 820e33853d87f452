package pdf

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"io"
)

// maxFilters is the maximum number of filters of one stream.
const maxFilters = 6

// decode returns the bytes of a stream after its filters, and the name of the first
// filter that is left: one of a picture, or an unknown one. Damaged data gives the
// bytes before the damage.
func (f *file) decode(s *stream) ([]byte, name) {
	data := s.raw
	if s.key != nil && f.crypt != nil {
		data = f.crypt.stream(*s.key, s.dict, data)
	}
	filters, params := f.filters(s.dict)
	for i, filter := range filters {
		switch filter {
		case "FlateDecode", "Fl":
			data = predict(f.inflate(data), f.dict(params[i]), f)
		case "LZWDecode", "LZW":
			early := f.integer(f.dict(params[i])["EarlyChange"], 1)
			data = predict(f.unlzw(data, early), f.dict(params[i]), f)
		case "ASCIIHexDecode", "AHx":
			l := lexer{b: data, limits: f.limits}
			data = []byte(l.hexadecimal())
		case "ASCII85Decode", "A85":
			data = ascii85(data)
		case "RunLengthDecode", "RL":
			data = f.runLength(data)
		case "Crypt":
		default:
			return data, filter
		}
	}
	return data, ""
}

// filters returns the filters of a stream with the parameters of each.
func (f *file) filters(d dict) ([]name, []any) {
	var names []name
	var params []any
	filter, parameter := f.resolve(first(d, "Filter", "F")), f.resolve(first(d, "DecodeParms", "DP"))
	switch filter := filter.(type) {
	case name:
		return []name{filter}, []any{single(f, parameter)}
	case array:
		all, _ := parameter.(array)
		for i, v := range filter[:min(len(filter), maxFilters)] {
			n, _ := f.resolve(v).(name)
			names = append(names, n)
			if i < len(all) {
				params = append(params, all[i])
			} else {
				params = append(params, nil)
			}
		}
	}
	return names, params
}

func single(f *file, parameter any) any {
	if a, ok := parameter.(array); ok && len(a) > 0 {
		return f.resolve(a[0])
	}
	return parameter
}

func first(d dict, keys ...name) any {
	for _, k := range keys {
		if v, ok := d[k]; ok {
			return v
		}
	}
	return nil
}

// inflate decodes zlib data, or plain deflate data with a damaged header.
func (f *file) inflate(data []byte) []byte {
	data = bytes.TrimLeft(data, "\r\n")
	if z, err := zlib.NewReader(bytes.NewReader(data)); err == nil {
		if out := f.readAll(z); len(out) > 0 {
			return out
		}
	}
	if len(data) > 2 {
		return f.readAll(flate.NewReader(bytes.NewReader(data[2:])))
	}
	return nil
}

// readAll reads until the end or the first error, within the limit.
func (f *file) readAll(r io.Reader) []byte {
	var out bytes.Buffer
	chunk := make([]byte, 32<<10)
	for {
		n, err := r.Read(chunk)
		f.limits.spendDecoded(n)
		out.Write(chunk[:n])
		if err != nil {
			return out.Bytes()
		}
	}
}

// unlzw decodes LZW data with codes of 9 to 12 bits.
func (f *file) unlzw(data []byte, early int) []byte {
	const reset, end = 256, 257
	type entry struct {
		prefix int
		last   byte
		size   int
	}
	table := make([]entry, 258, 4097)
	for i := range 256 {
		table[i] = entry{-1, byte(i), 1}
	}
	var out []byte
	width, previous := 9, -1
	bits, have := 0, 0
	for _, b := range data {
		bits, have = bits<<8|int(b), have+8
		if have < width {
			continue
		}
		have -= width
		code := bits >> have
		bits &= 1<<have - 1
		switch {
		case code == end:
			return out
		case code == reset:
			table, width, previous = table[:258], 9, -1
			continue
		case code > len(table) || code == len(table) && previous < 0:
			return out
		}
		from := code
		if code == len(table) {
			from = previous
		}
		size := table[from].size
		f.limits.spendDecoded(size + 1)
		start := len(out)
		out = append(out, make([]byte, size)...)
		for i, c := start+size-1, from; i >= start && c >= 0; i-- {
			out[i] = table[c].last
			c = table[c].prefix
		}
		begin := out[start]
		if code == len(table) {
			out = append(out, begin)
		}
		if previous >= 0 && len(table) < 4096 {
			table = append(table, entry{previous, begin, table[previous].size + 1})
		}
		previous = code
		for width < 12 && len(table)+early >= 1<<width {
			width++
		}
	}
	return out
}

func ascii85(data []byte) []byte {
	var out []byte
	var group [5]byte
	n := 0
	flush := func(n int) {
		for i := n; i < 5; i++ {
			group[i] = 84
		}
		v := uint32(0)
		for _, g := range group {
			v = v*85 + uint32(g)
		}
		out = append(out, []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}[:n-1]...)
	}
	for _, c := range bytes.TrimPrefix(bytes.TrimSpace(data), []byte("<~")) {
		switch {
		case c == '~':
			if n > 1 {
				flush(n)
			}
			return out
		case c == 'z' && n == 0:
			out = append(out, 0, 0, 0, 0)
		case c >= '!' && c <= 'u':
			group[n] = c - '!'
			if n++; n == 5 {
				flush(5)
				n = 0
			}
		}
	}
	if n > 1 {
		flush(n)
	}
	return out
}

func (f *file) runLength(data []byte) []byte {
	var out []byte
	for i := 0; i < len(data); {
		n := int(data[i])
		i++
		switch {
		case n == 128:
			return out
		case n < 128:
			end := min(i+n+1, len(data))
			out = append(out, data[i:end]...)
			i = end
		case i < len(data):
			f.limits.spendDecoded(257 - n)
			out = append(out, bytes.Repeat(data[i:i+1], 257-n)...)
			i++
		}
	}
	return out
}

// predict undoes the predictor of Flate and LZW data.
func predict(data []byte, d dict, f *file) []byte {
	predictor := f.integer(d["Predictor"], 1)
	if predictor < 2 {
		return data
	}
	colors, bits, columns := f.integer(d["Colors"], 1), f.integer(d["BitsPerComponent"], 8), f.integer(d["Columns"], 1)
	if colors < 1 || colors > 32 || bits < 1 || bits > 16 || columns < 1 || columns > 1<<20 {
		return data
	}
	unit := max(1, colors*bits/8)
	width := (columns*colors*bits + 7) / 8
	if width > len(data) {
		return data
	}
	if predictor == 2 {
		if bits == 8 {
			for row := 0; row < len(data); row += width {
				for i := row + unit; i < min(row+width, len(data)); i++ {
					data[i] += data[i-unit]
				}
			}
		}
		return data
	}
	out := make([]byte, 0, len(data))
	above := make([]byte, width)
	for at := 0; at < len(data); at += width + 1 {
		row := make([]byte, width)
		copy(row, data[at+1:min(at+1+width, len(data))])
		unfilter(data[at], row, above, unit)
		out, above = append(out, row...), row
	}
	return out
}

// unfilter undoes a filter of PNG.
func unfilter(kind byte, row, above []byte, unit int) {
	for i := range row {
		left, corner := 0, 0
		if i >= unit {
			left, corner = int(row[i-unit]), int(above[i-unit])
		}
		up := int(above[i])
		switch kind {
		case 1:
			row[i] += byte(left)
		case 2:
			row[i] += byte(up)
		case 3:
			row[i] += byte((left + up) / 2)
		case 4:
			row[i] += byte(paeth(left, up, corner))
		}
	}
}

func paeth(left, up, corner int) int {
	p := left + up - corner
	a, b, c := abs(p-left), abs(p-up), abs(p-corner)
	switch {
	case a <= b && a <= c:
		return left
	case b <= c:
		return up
	}
	return corner
}

func abs(n int) int { return max(n, -n) }
