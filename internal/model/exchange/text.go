package exchange

import "bytes"

// WriteTable writes the entry of a table in a model.
func WriteTable(w *bytes.Buffer, t *Table) {
	text := new(modelWriter)
	text.table(t)
	w.Write(text.Bytes())
}

// Quote returns text as YAML, unquoted if that is safe.
func Quote(text string) string { return quote(text) }

// InQuotes returns text as YAML in double quotes.
func InQuotes(text string) string { return inQuotes(text) }

// List returns names as a list in YAML.
func List(names []string) string { return flowList(names) }

// Comment returns text as one line, for a comment.
func Comment(text string) string { return comment(text) }
