package trace

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A span keeps short copies of texts, which may be parts of requests of any size.
func TestTextsAreShort(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	many := make([]string, 100)
	for i := range many {
		many[i] = "x" + long
	}
	var s Span
	s.SetText("a", long)
	s.SetTexts("b", many)
	kept := s.attributes[1].value.([]string)
	if len(kept) != MaxValues || cap(kept) != MaxValues {
		t.Errorf("%d values are kept, of %d", len(kept), cap(kept))
	}
	for _, text := range append(kept, s.attributes[0].value.(string)) {
		if len(text) > maxText || len(text) < maxText-1 || !utf8.ValidString(text) {
			t.Errorf("a text of %d bytes is kept, valid: %t", len(text), utf8.ValidString(text))
		}
	}
}

// A tracestate that is too long is left out.
func TestLongTracestate(t *testing.T) {
	parent := []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	tracer := new(Tracer)
	for n, want := range map[int]int{maxState: maxState, maxState + 1: 0} {
		if s := tracer.Start(time.Time{}, parent, []byte(strings.Repeat("a", n))); len(s.state) != want {
			t.Errorf("of %d bytes %d are kept, want %d", n, len(s.state), want)
		}
	}
}
