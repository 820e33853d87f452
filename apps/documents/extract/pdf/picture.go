package pdf

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"math"
)

// maxPixels is the maximum size of a picture that is decoded.
const maxPixels = 40_000_000

// Picture returns the picture that covers most of a page, as PNG, JPEG or TIFF, or
// nothing if there is none, if it is not upright, or if its encoding is not known.
func (d *Document) Picture(page int) (data []byte, err error) {
	defer caught(&err)
	p := &d.Pages[page]
	for _, i := range p.images {
		m := i.ctm
		upright := m[0] > 0 && m[3] < 0 && math.Abs(m[1]) < 0.02*m[0] && math.Abs(m[2]) < 0.02*m[0]
		if upright && m[0] >= 0.8*p.Width && -m[3] >= 0.8*p.Height {
			return d.f.picture(i.s), nil
		}
	}
	return nil, nil
}

// Scanned reports whether pictures cover a large part of a page.
func (p *Page) Scanned() bool {
	area := 0.0
	for _, i := range p.images {
		area += math.Abs(i.ctm[0]*i.ctm[3] - i.ctm[1]*i.ctm[2])
	}
	return area > 0.3*p.Width*p.Height
}

// picture returns a picture in a format of its own.
func (f *file) picture(s *stream) []byte {
	data, filter := f.decode(s)
	w, h := f.integer(first(s.dict, "Width", "W"), 0), f.integer(first(s.dict, "Height", "H"), 0)
	if w < 1 || h < 1 || w > maxPixels/h {
		return nil
	}
	switch filter {
	case "DCTDecode", "DCT":
		return data
	case "CCITTFaxDecode", "CCF":
		_, params := f.filters(s.dict)
		return fax(data, w, h, f.integer(f.dict(params[len(params)-1])["K"], 0))
	case "":
		return f.samples(s, data, w, h)
	}
	return nil
}

// samples returns a picture of uncompressed samples as PNG.
func (f *file) samples(s *stream, data []byte, w, h int) []byte {
	bits := f.integer(first(s.dict, "BitsPerComponent", "BPC"), 8)
	space := f.resolve(first(s.dict, "ColorSpace", "CS"))
	if f.resolve(first(s.dict, "ImageMask", "IM")) == true {
		bits, space = 1, name("DeviceGray")
	}
	n, palette := f.components(space)
	if n == 0 || bits != 1 && bits != 8 || bits == 1 && n != 1 {
		return nil
	}
	invert := false
	if d := f.floats(first(s.dict, "Decode", "D")); len(d) > 1 && palette == nil {
		invert = d[0] > d[1]
	}
	row := (w*n*bits + 7) / 8
	if len(data) < row*h {
		return nil
	}
	f.limits.spendDecoded(4 * w * h)
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		line := data[y*row : (y+1)*row]
		for x := range w {
			img.SetNRGBA(x, y, sample(line, x, n, bits, palette, invert))
		}
	}
	var out bytes.Buffer
	if png.Encode(&out, img) != nil {
		return nil
	}
	return out.Bytes()
}

// sample returns the colour of a pixel of a line.
func sample(line []byte, x, n, bits int, palette []byte, invert bool) color.NRGBA {
	v := byte(0)
	if bits == 1 {
		v = line[x/8] >> (7 - x%8) & 1
		if palette == nil {
			v *= 255
		}
	} else {
		v = line[x*n]
	}
	if palette != nil {
		if i := 3 * int(v); i+2 < len(palette) {
			return color.NRGBA{palette[i], palette[i+1], palette[i+2], 255}
		}
		return color.NRGBA{A: 255}
	}
	c := color.NRGBA{v, v, v, 255}
	switch {
	case bits == 8 && n == 3:
		c = color.NRGBA{line[x*3], line[x*3+1], line[x*3+2], 255}
	case bits == 8 && n == 4:
		k := 255 - int(line[x*4+3])
		c = color.NRGBA{byte((255 - int(line[x*4])) * k / 255), byte((255 - int(line[x*4+1])) * k / 255), byte((255 - int(line[x*4+2])) * k / 255), 255}
	}
	if invert {
		c.R, c.G, c.B = 255-c.R, 255-c.G, 255-c.B
	}
	return c
}

// components returns the number of values of a pixel, and the colours of a palette.
func (f *file) components(space any) (int, []byte) {
	a, _ := space.(array)
	n, _ := space.(name)
	if len(a) > 0 {
		n, _ = f.resolve(a[0]).(name)
	}
	switch n {
	case "DeviceGray", "G", "CalGray":
		return 1, nil
	case "DeviceRGB", "RGB", "CalRGB":
		return 3, nil
	case "DeviceCMYK", "CMYK":
		return 4, nil
	case "ICCBased":
		if len(a) > 1 {
			return f.integer(f.dict(a[1])["N"], 3), nil
		}
	case "Indexed", "I":
		if len(a) < 4 {
			break
		}
		if base, _ := f.components(f.resolve(a[1])); base != 3 {
			break
		}
		switch v := f.resolve(a[3]).(type) {
		case str:
			return 1, []byte(v)
		case *stream:
			data, _ := f.decode(v)
			return 1, data
		}
	}
	return 0, nil
}

// fax wraps fax data in a TIFF file.
func fax(data []byte, w, h, k int) []byte {
	compression := uint32(4)
	if k >= 0 {
		compression = 3
	}
	tags := [][3]uint32{ // tag, type (4 is a number of 32 bits), value
		{256, 4, uint32(w)}, {257, 4, uint32(h)}, {258, 3, 1}, {259, 3, compression}, {262, 3, 0}, {273, 4, 0},
		{277, 3, 1}, {278, 4, uint32(h)}, {279, 4, uint32(len(data))},
	}
	if k > 0 {
		tags = append(tags, [3]uint32{292, 4, 1})
	}
	size := 8 + 2 + 12*len(tags) + 4
	out := append([]byte("II*\x00"), 8, 0, 0, 0)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(tags)))
	for _, t := range tags {
		if t[0] == 273 {
			t[2] = uint32(size)
		}
		out = binary.LittleEndian.AppendUint16(out, uint16(t[0]))
		out = binary.LittleEndian.AppendUint16(out, uint16(t[1]))
		out = binary.LittleEndian.AppendUint32(out, 1)
		out = binary.LittleEndian.AppendUint32(out, t[2])
	}
	return append(append(out, 0, 0, 0, 0), data...)
}
