package extract

import (
	"context"
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// pattern is a regular expression of a workflow. The time for a text is proportional to the
// sizes of both, but 300 bytes can describe many thousand instructions, and a text can have
// megabytes, so that a search must end with its context.
type pattern struct {
	*regexp.Regexp
	instructions int
}

// newPattern compiles a regular expression.
func newPattern(text string) (*pattern, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p := &pattern{re, 1}
	if parsed, err := syntax.Parse(text, syntax.Perl); err == nil {
		if program, err := syntax.Compile(parsed.Simplify()); err == nil {
			p.instructions = len(program.Inst)
		}
	}
	return p, nil
}

// atOnce is the product of instructions and bytes of text up to which a search is not
// interrupted: it takes less than a second.
const atOnce = 20_000_000

// find returns the indexes of the first match and of its groups, as FindStringSubmatchIndex
// does. If the context ends it returns nothing, and the caller must look at the context.
func (p *pattern) find(ctx context.Context, text string) []int {
	if len(text) <= atOnce/p.instructions {
		return p.FindStringSubmatchIndex(text)
	}
	if ctx.Err() != nil {
		return nil
	}
	// A search in a string cannot be interrupted, one in a reader ends with the reader.
	in := &runes{text: text, stop: ctx.Done(), every: max(1, atOnce/p.instructions)}
	found := p.FindReaderSubmatchIndex(in)
	if in.stopped {
		return nil
	}
	return found
}

// runes reads a text until it is stopped.
type runes struct {
	text    string
	stop    <-chan struct{}
	every   int // runes after which it looks whether it is stopped
	read    int
	stopped bool
}

func (r *runes) ReadRune() (rune, int, error) {
	if r.read++; r.read%r.every == 0 {
		select {
		case <-r.stop:
			r.stopped = true
		default:
		}
	}
	if r.stopped || r.text == "" {
		return 0, 0, io.EOF
	}
	c, n := utf8.DecodeRuneInString(r.text)
	r.text = r.text[n:]
	return c, n, nil
}
