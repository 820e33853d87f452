package layout

import (
	"cmp"
	"math"
	"slices"
	"unicode"
)

// rowOf is a row in the frame of its text.
type rowOf []piece

// rows joins cells at the same height.
func rows(cells []piece) []rowOf {
	slices.SortStableFunc(cells, func(a, b piece) int { return cmp.Compare(a.v, b.v) })
	var all []rowOf
	for _, c := range cells {
		placed := false
		for i := len(all) - 1; i >= 0 && i >= len(all)-4; i-- {
			if all[i].takes(c) {
				all[i] = append(all[i], c)
				placed = true
				break
			}
		}
		if !placed {
			all = append(all, rowOf{c})
		}
	}
	for i := range all {
		slices.SortStableFunc(all[i], func(a, b piece) int { return cmp.Compare(a.u0, b.u0) })
		all[i] = all[i].joined()
	}
	return all
}

// takes reports whether a cell is at the height of the row, and next to its cells.
func (r rowOf) takes(c piece) bool {
	near := false
	for _, o := range r {
		if c.u0 < o.u1-0.1*c.size && o.u0 < c.u1-0.1*c.size {
			return false
		}
		step, size := math.Abs(o.v-c.v), min(o.size, c.size)
		middle := math.Abs((o.v - 0.35*o.size) - (c.v - 0.35*c.size))
		near = near || step <= rowStep*size || size >= 0.4*max(o.size, c.size) && middle <= 0.3*max(o.size, c.size)
	}
	return near
}

// joined joins cells that follow one another closely, such as a number and the
// smaller, raised one after it.
func (r rowOf) joined() rowOf {
	out := r[:1]
	for _, c := range r[1:] {
		last := &out[len(out)-1]
		gap := (c.u0 - last.u1) / max(1e-3, min(c.size, last.size))
		switch {
		case math.Abs(c.v-last.v) < 1e-3 || gap > 0.8*cellGap:
			out = append(out, c)
			continue
		case gap < wordGap && len(c.cell.Words) > 0 && len(last.cell.Words) > 0:
			w := &last.cell.Words[len(last.cell.Words)-1]
			w.Text += c.cell.Words[0].Text
			w.Box = w.Box.Union(c.cell.Words[0].Box)
			last.cell.Words = append(last.cell.Words, c.cell.Words[1:]...)
		default:
			last.cell.Words = append(last.cell.Words, c.cell.Words...)
		}
		last.u1, last.size = max(last.u1, c.u1), max(last.size, c.size)
	}
	return out
}

// The limits and signs of columns of text.
const (
	maxColumnRows = 400 // rows of a page that are searched for columns
	minColumnRows = 3   // lines of a column
	minColumnText = 18  // characters of its lines, on average
)

// columns orders rows. Where text is set in columns, each is read down before the
// next one; a table is read row by row.
func columns(all []rowOf, turn int) []Row {
	var out []Row
	for i := 0; i < len(all); {
		if i < maxColumnRows {
			if spans, end := band(all, i); end > i {
				for _, s := range spans {
					for _, r := range all[i:end] {
						if part := r.within(s); len(part) > 0 {
							out = append(out, part.row(turn))
						}
					}
				}
				i = end
				continue
			}
		}
		out = append(out, all[i].row(turn))
		i++
	}
	return out
}

func (r rowOf) row(turn int) Row {
	out := Row{Turn: turn}
	for _, c := range r {
		out.Cells = append(out.Cells, c.cell)
	}
	return out
}

// span is the extent of a column.
type span struct{ u0, u1 float64 }

func (r rowOf) within(s span) rowOf {
	var part rowOf
	for _, c := range r {
		if m := (c.u0 + c.u1) / 2; m >= s.u0 && m <= s.u1 {
			part = append(part, c)
		}
	}
	return part
}

// band returns the columns of the rows from a row on, and the row after them. It
// returns no rows if they are not columns of text.
func band(all []rowOf, from int) ([]span, int) {
	var cover, before []span
	end := from
	for ; end < len(all) && end-from < maxColumnRows; end++ {
		if end > from && gapAbove(all, end) > 6 {
			break
		}
		next := slices.Clone(cover)
		for _, c := range all[end] {
			next = covered(next, span{c.u0, c.u1}, c.size)
		}
		if len(before) > 1 && len(next) < 2 {
			break
		}
		cover = next
		if len(cover) > 1 {
			before = cover
		}
	}
	if len(before) < 2 || len(cover) < 2 {
		return nil, from
	}
	for _, s := range cover {
		if !prose(all[from:end], s) {
			return nil, from
		}
	}
	return cover, end
}

// gapAbove returns the distance of a row from the one above it, in units of its
// size.
func gapAbove(all []rowOf, i int) float64 {
	return (all[i][0].v - all[i-1][0].v) / max(1e-3, all[i][0].size)
}

// covered adds a span to spans that a gap divides.
func covered(spans []span, s span, size float64) []span {
	out := spans[:0]
	for _, o := range spans {
		if s.u0 < o.u1+riverGap*size && o.u0 < s.u1+riverGap*size {
			s = span{min(s.u0, o.u0), max(s.u1, o.u1)}
			continue
		}
		out = append(out, o)
	}
	out = append(out, s)
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.u0, b.u0) })
	return out
}

// prose reports whether a column has lines of text.
func prose(all []rowOf, s span) bool {
	lines, runes, letters := 0, 0, 0
	for _, r := range all {
		part := r.within(s)
		if len(part) > 1 {
			return false
		}
		for _, c := range part {
			lines++
			for _, w := range c.cell.Words {
				for _, r := range w.Text {
					runes++
					if unicode.IsLetter(r) {
						letters++
					}
				}
			}
		}
	}
	return lines >= minColumnRows && runes >= minColumnText*lines && letters*10 >= runes*7
}
