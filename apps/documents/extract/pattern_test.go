package extract

import (
	"context"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// slow has many instructions, all of which match all of the text but its last rune.
const slow = `(?:(?:a|b|c|é){0,30}){0,30}(?:(?:a|b|c|é){0,30}){0,30}z`

// A search for a pattern ends with its context, wherever the pattern is used.
func TestPatternEnds(t *testing.T) {
	long := strings.Repeat("abcé", maxText/8)
	rows := "total\n" + strings.Repeat(long[:100_000]+"\n", 20)
	for name, c := range map[string]struct{ file, text, fields string }{
		"anywhere":      {"a.txt", long, `{"name":"x","pattern":"` + slow + `"}`},
		"after a label": {"a.txt", "Total: " + long, `{"name":"total","pattern":"` + slow + `"}`},
		"in a column":   {"a.csv", rows, `{"name":"total","pattern":"` + slow + `"}`},
		"of a value":    {"a.csv", rows, `{"name":"total","match":"(?:` + slow + `?)*"}`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			x := &Verified{First: builtin()}
			// Without the context it would take minutes, and find nothing without an error.
			if r, err := x.Extract(ctx, File{c.file, []byte(c.text)}, extraction(t, `{"fields":[`+c.fields+`]}`)); !IsUnreadable(err) {
				t.Errorf("%.200v, %v", r, err)
			}
		})
	}
}

// A search that can be interrupted finds the same as one that cannot.
func TestPatternFinds(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	for _, text := range []string{`(a+)b`, `\bc(é)?`, `^(?:a|b)*$`, `b{2}(.)`, `(?i)AÉ`, `x*`, `c$`} {
		p, err := newPattern(text)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			var in strings.Builder
			for range random.IntN(12) {
				in.WriteString([]string{"a", "b", "c", "é", " ", "\xff"}[random.IntN(6)])
			}
			p.instructions = atOnce // never at once
			got := p.find(t.Context(), in.String())
			if want := regexp.MustCompile(text).FindStringSubmatchIndex(in.String()); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %s in %q is found at %v, want %v", seed, text, in.String(), got, want)
			}
		}
	}
}
