package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// String describes the failure for people: its line, the request, the wanted
// reply and the answer.
func (f Failure) String() string {
	return fmt.Sprintf("%d: %s\n  > %s %s\n  want %s\n  got  %s", f.Step.Line, f.Why,
		f.Step.Operation, clip(indent(f.Step.Body), 1000),
		clip(indent(f.Step.Want.String()), 2000), clip(indent(ReplyOf(f.Got).String()), 2000))
}

func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n       ") }

// ReplyOf converts an answer to a reply of a transcript.
func ReplyOf(a Answer) Reply {
	code, message, members, err := a.parts()
	if err != nil {
		return Reply{Status: a.Status, Exact: &a.Body}
	}
	r := Reply{Status: a.Status, Code: code, Message: message}
	if len(members) > 0 || a.Status < 300 {
		r.Members = formatJSON(members)
	}
	return r
}

// String formats the reply as in a transcript, without the < mark.
func (r Reply) String() string {
	switch {
	case r.Exact != nil && r.Status == 200:
		return *r.Exact
	case r.Exact != nil:
		return strconv.Itoa(r.Status) + " " + *r.Exact
	case r.Code == "":
		return r.Members
	}
	text := r.Code
	if r.Status != 400 {
		text = strconv.Itoa(r.Status) + " " + text
	}
	if r.Message != "" {
		text += ": " + r.Message
	}
	if r.Members != "" {
		text += "\n  " + r.Members
	}
	return text
}

// Rewrite returns the transcript's text with the replies of these failures
// replaced by the answers.
func (t *Transcript) Rewrite(failures []Failure) string {
	var out []string
	at := 0
	for _, f := range failures {
		mark := "< "
		reply := ReplyOf(f.Got)
		if reply.Exact != nil {
			mark = "<! "
		}
		out = append(out, t.lines[at:f.Step.from]...)
		out = append(out, strings.Split(shorten(mark+reply.String()), "\n")...)
		at = f.Step.to
	}
	return strings.Join(append(out, t.lines[at:]...), "\n") + "\n"
}

var letters = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[a-zA-Z0-9]{100,}`) })

// shorten writes long runs of one letter as macros.
func shorten(text string) string {
	return letters().ReplaceAllStringFunc(text, func(s string) string {
		if strings.Trim(s, s[:1]) == "" {
			return fmt.Sprintf("«%s*%d»", s[:1], len(s))
		}
		return s
	})
}

const width = 110

// formatJSON formats a value on one line if it fits, and otherwise its parts
// on separate lines.
func formatJSON(v any) string { return format(v, "  ") }

func format(v any, margin string) string {
	line := oneLine(v)
	if len(margin)+len(line) <= width {
		return line
	}
	var parts []string
	open, end := "[", "]"
	switch x := v.(type) {
	case map[string]any:
		open, end = "{", "}"
		for _, name := range slices.Sorted(maps.Keys(x)) {
			parts = append(parts, quote(name)+": "+format(x[name], margin+"  "))
		}
	case []any:
		for _, e := range x {
			parts = append(parts, format(e, margin+"  "))
		}
	default:
		return line
	}
	return open + "\n" + margin + "  " + strings.Join(parts, ",\n"+margin+"  ") + end
}

func oneLine(v any) string {
	var parts []string
	switch x := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			parts = append(parts, quote(name)+": "+oneLine(x[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, e := range x {
			parts = append(parts, oneLine(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case json.Number:
		return x.String()
	case string:
		return quote(x)
	}
	return fmt.Sprint(v)
}

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSpace(b.String())
}
