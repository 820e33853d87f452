package layout

import (
	"cmp"
	"slices"
)

// Recognised is a word of OCR, in the units of its picture. Words of one line have
// one number.
type Recognised struct {
	Word
	Line int
}

// FromWords arranges the words of a picture on a page of a size. The scale is the
// number of points of a unit of the picture.
func FromWords(width, height, scale float64, words []Recognised) Page {
	p := Page{Width: width, Height: height}
	lines := map[int][]Word{}
	var order []int
	for _, w := range words {
		b := w.Box
		w.Box = Box{b.X * scale, b.Y * scale, b.W * scale, b.H * scale}.Rounded()
		if lines[w.Line] == nil {
			order = append(order, w.Line)
		}
		lines[w.Line] = append(lines[w.Line], w.Word)
	}
	var pieces []piece
	for _, n := range order {
		pieces = append(pieces, wordCells(lines[n])...)
	}
	p.Rows = columns(rows(pieces), 0)
	return p
}

// wordCells divides a line of words into cells.
func wordCells(line []Word) []piece {
	slices.SortStableFunc(line, func(a, b Word) int { return cmp.Compare(a.Box.X, b.Box.X) })
	heights, bottoms := make([]float64, len(line)), make([]float64, len(line))
	for i, w := range line {
		heights[i], bottoms[i] = w.Box.H, w.Box.Y+w.Box.H
	}
	slices.Sort(heights)
	slices.Sort(bottoms)
	// A word is as high as its capitals, which have about 0.72 of the size.
	size, v := heights[len(heights)/2]*1.35, bottoms[len(bottoms)/2]
	var out []piece
	for i, w := range line {
		if i == 0 || w.Box.X-out[len(out)-1].u1 > 1.2*cellGap*size {
			out = append(out, piece{u0: w.Box.X, v: v, size: size})
		}
		c := &out[len(out)-1]
		c.cell.Words = append(c.cell.Words, w)
		c.u1 = w.Box.X + w.Box.W
	}
	return out
}
