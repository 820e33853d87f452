package extract

import (
	"context"
	"strings"
	"testing"
	"time"
)

const wideExtraction = `{"fields":[
{"name":"total","type":"amount","labels":["Total"]},
{"name":"address","type":"address","labels":["Total"]}]}`

// The time for a text is about proportional to its size, whatever it is made of.
func TestWideTexts(t *testing.T) {
	e := extraction(t, wideExtraction)
	labels := strings.Repeat("Total\t", 100_000)
	for name, text := range map[string]string{
		"one row":               strings.Repeat("Total\t", maxText/6),
		"over a row of cells":   labels + "\n" + strings.Repeat("x    \t", 100_000),
		"over a row of numbers": labels + "\n" + strings.Repeat("1.50 \t", 100_000),
		"one column":            strings.Repeat("Total\n", 100_000),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		began := time.Now()
		_, err := builtin().Extract(ctx, File{"a.txt", []byte(text)}, e)
		cancel()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %d bytes in %v", name, len(text), time.Since(began).Round(time.Millisecond))
	}
}

// The search for a field ends with its context, also if each value takes long.
func TestFindEnds(t *testing.T) {
	text := strings.Repeat("Total\t", maxText/12) + "\n" + strings.Repeat("xyz ", maxText/8)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	// Without the context it would take hours, and find nothing without an error.
	if _, err := builtin().Extract(ctx, File{"a.txt", []byte(text)}, extraction(t, wideExtraction)); !IsUnreadable(err) {
		t.Error(err)
	}
}
