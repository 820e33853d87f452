package wire

import (
	"slices"
	"strings"
	"testing"
)

// White space of any kind and length may separate tokens.
func TestWhiteSpace(t *testing.T) {
	for n := range 40 {
		for _, space := range []string{strings.Repeat(" ", n), strings.Repeat(" \t\r\n", n), strings.Repeat(" ", n) + "\n" + strings.Repeat(" ", n)} {
			s := scanner{body: []byte("{" + space + `"a"` + space + ":" + space + "[1" + space + ",2]" + space + "}" + space)}
			if err := s.skip(); err != nil || !s.done() {
				t.Errorf("with %q: %v at byte %d of %d", space, err, s.at, len(s.body))
			}
			s = scanner{body: []byte(space + "\v")}
			if s.next() != '\v' || s.at != len(space) {
				t.Errorf("with %q: the next is at byte %d", space, s.at)
			}
		}
	}
}

// At any depth each bracket is closed by its own kind, and brackets take
// little memory.
func TestBrackets(t *testing.T) {
	const deep = 100_000
	kinds := func(n int) (open, shut []byte) {
		for i := range n {
			if i%3 == 0 || i%7 == 0 {
				open, shut = append(open, `{"a":`...), append(shut, '}')
			} else {
				open, shut = append(open, '['), append(shut, ']')
			}
		}
		slices.Reverse(shut)
		return open, shut
	}
	for n := 1; n <= deep; n = n*2 + 1 {
		open, shut := kinds(n)
		s := scanner{body: slices.Concat(open, []byte("1"), shut)}
		if err := s.skip(); err != nil || !s.done() {
			t.Errorf("%d deep: %v at byte %d of %d", n, err, s.at, len(s.body))
		}
		wrong := slices.Clone(shut)
		if at := n / 2; wrong[at] == '}' {
			wrong[at] = ']'
		} else {
			wrong[at] = '}'
		}
		s = scanner{body: slices.Concat(open, []byte("1"), wrong)}
		if err := s.skip(); err == nil {
			t.Errorf("%d deep: a wrong bracket closes", n)
		}
	}
	var b brackets
	for range deep {
		b.push('{')
	}
	if cap(b.bits) > deep/4 {
		t.Errorf("%d brackets take %d bytes", deep, cap(b.bits))
	}
}
