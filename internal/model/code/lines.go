package code

import (
	"fmt"
	"strings"
)

// lineWriter writes lines and indents them: a line that ends with an opening
// bracket is followed by a deeper one, and one that begins with a closing
// bracket is less deep.
type lineWriter struct {
	strings.Builder
	unit  string // of the indentation
	depth int
}

// f writes lines.
func (w *lineWriter) f(format string, args ...any) {
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		line = strings.TrimLeft(line, "\t")
		if line == "" {
			w.WriteByte('\n')
			continue
		}
		if strings.ContainsAny(line[:1], "}])") {
			w.depth--
		}
		w.WriteString(strings.Repeat(w.unit, max(0, w.depth)) + line + "\n")
		if strings.ContainsAny(line[len(line)-1:], "{[(") {
			w.depth++
		}
	}
}
