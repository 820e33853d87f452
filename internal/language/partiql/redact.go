package partiql

import "strings"

// redacted stands for a literal value, as in the logs of AWS CloudTrail.
const redacted = "***(Redacted)"

// Redact returns a statement without its literal values and comments, for logs. Of a text
// that has no tokens nothing is left.
func Redact(text string) string {
	var out strings.Builder
	for at := 0; ; {
		size, ok := blank(text[at:])
		if !ok {
			return redacted
		}
		if size > 0 && at > 0 && at+size < len(text) {
			out.WriteByte(' ')
		}
		if at += size; at == len(text) {
			return out.String()
		}
		t, size := next(text[at:])
		if size == 0 {
			return redacted
		}
		switch t.kind {
		case tokenString, tokenNumber, tokenBool, tokenIon:
			out.WriteString(redacted)
		default:
			out.WriteString(text[at : at+size])
		}
		at += size
	}
}
