package inject

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTimeline writes injected faults as a table, in the order of time.
func WriteTimeline(w io.Writer, faults []Injected) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AT\tFAULT\tOPERATION\tTABLE\tKEY\tNTH\tDETAIL")
	for i := range faults {
		f := &faults[i]
		table := strings.Join(f.Tables, ",")
		if f.Index != "" {
			table += "/" + f.Index
		}
		fmt.Fprintf(t, "%.3fs\t%s\t%s\t%s\t%s\t%d\t%s\n", f.At.Seconds(), f.Fault, f.Operation, dash(table), dash(shortened(f.Key)), f.Occurrence, f.Detail)
	}
	return t.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// maxShownKey is how much of a key a table shows.
const maxShownKey = 60

func shortened(key string) string {
	printable := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, key)
	if runes := []rune(printable); len(runes) > maxShownKey {
		return string(runes[:maxShownKey]) + "…"
	}
	return printable
}
