package pdf

import (
	"context"
	"errors"
	"fmt"
)

// Limits bound the work of reading a file. The zero value of a member means its
// default.
type Limits struct {
	Pages   int // pages of a file
	Decoded int // bytes of all streams, decoded
	Tokens  int // tokens of objects and of page content
	Glyphs  int // shown characters
}

// DefaultLimits are the limits that apply where none are given.
var DefaultLimits = Limits{Pages: 500, Decoded: 96 << 20, Tokens: 20_000_000, Glyphs: 1_000_000}

// limits counts what was spent.
type limits struct {
	Limits
	ctx context.Context
}

// stop is the panic by which reading ends at a limit, from any depth.
type stop struct{ err error }

func newLimits(ctx context.Context, l Limits) *limits {
	for _, m := range []struct {
		v *int
		d int
	}{{&l.Pages, DefaultLimits.Pages}, {&l.Decoded, DefaultLimits.Decoded}, {&l.Tokens, DefaultLimits.Tokens}, {&l.Glyphs, DefaultLimits.Glyphs}} {
		if *m.v == 0 {
			*m.v = m.d
		}
	}
	return &limits{l, ctx}
}

func (l *limits) fail(format string, args ...any) {
	panic(stop{fmt.Errorf(format, args...)})
}

func (l *limits) spendToken() {
	if l.Tokens--; l.Tokens < 0 {
		l.fail("it has more objects and operators than are read")
	}
	if l.Tokens&0xfff == 0 && l.ctx.Err() != nil {
		panic(stop{l.ctx.Err()})
	}
}

func (l *limits) spendGlyph() {
	if l.Glyphs--; l.Glyphs < 0 {
		l.fail("it shows more characters than are read")
	}
}

func (l *limits) spendDecoded(n int) {
	if l.Decoded -= n; l.Decoded < 0 {
		l.fail("its content expands to more MB than are read")
	}
	if l.ctx.Err() != nil {
		panic(stop{l.ctx.Err()})
	}
}

// caught turns the panic of a limit into an error. Other panics continue.
func caught(err *error) {
	switch p := recover().(type) {
	case nil:
	case stop:
		*err = p.err
	default:
		panic(p)
	}
}

var errDamaged = errors.New("it is damaged: no page was found")
