package browser

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
)

// shrink returns a screenshot with at most 256 colors, which takes a third of the bytes. Channels are rounded as far as that needs.
func shrink(text []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	size := full.Bounds()
	for step := 1; ; step *= 2 {
		round := func(c uint32) uint8 { return uint8(min(255, (int(c>>8)+step/2)/step*step)) } //nolint:gosec // it is at most 255
		places, colors := map[color.RGBA]uint8{}, color.Palette{}
		small := image.NewPaletted(size, nil)
		for y := size.Min.Y; y < size.Max.Y && len(colors) <= 256; y++ {
			for x := size.Min.X; x < size.Max.X; x++ {
				r, g, b, _ := full.At(x, y).RGBA()
				c := color.RGBA{round(r), round(g), round(b), 255}
				place, known := places[c]
				if !known {
					place = uint8(len(colors)) //nolint:gosec // the loop ends at 256
					places[c], colors = place, append(colors, c)
				}
				small.SetColorIndex(x, y, place)
			}
		}
		if len(colors) > 256 {
			continue
		}
		small.Palette = colors
		var out bytes.Buffer
		err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
		return out.Bytes(), err
	}
}
