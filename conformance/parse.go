package conformance

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Transcript is one file: steps that are run in order.
type Transcript struct {
	Name  string
	Steps []Step

	lines []string // the file, for Rewrite
}

// Step is one request and the reply to it.
type Step struct {
	Line      int // of the request, counted from 1
	Operation string
	Body      string
	Headers   [][2]string
	Want      Reply

	from, to int // the lines of the reply, counted from 0, excluding to
}

// Reply is a reply, wanted or received.
type Reply struct {
	Status  int
	Code    string // of an error; empty for success
	Message string
	Members string // JSON: the whole reply, or an error's other members
	Exact   *string
}

// Parse parses a transcript.
func Parse(name, text string) (*Transcript, error) {
	t := &Transcript{Name: name, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	fault := func(line int, format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s", name, line+1, fmt.Sprintf(format, args...))
	}
	for i := 0; i < len(t.lines); {
		first, line := i, t.lines[i]
		block := []string{line}
		for i++; i < len(t.lines) && strings.HasPrefix(t.lines[i], " "); i++ {
			block = append(block, t.lines[i])
		}
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "> "):
			s, err := parseRequest(block)
			if err != nil {
				return nil, fault(first, "%v", err)
			}
			s.Line = first + 1
			t.Steps = append(t.Steps, s)
		case strings.HasPrefix(line, "|") && len(t.Steps) > 0:
			s := &t.Steps[len(t.Steps)-1]
			name, value, _ := strings.Cut(line[1:], ":")
			s.Headers = append(s.Headers, [2]string{strings.TrimSpace(name), strings.TrimSpace(value)})
		case strings.HasPrefix(line, "<") && len(t.Steps) > 0 && t.Steps[len(t.Steps)-1].to == 0:
			s := &t.Steps[len(t.Steps)-1]
			want, err := parseReply(block)
			if err != nil {
				return nil, fault(first, "%v", err)
			}
			s.Want, s.from, s.to = want, first, i
		default:
			return nil, fault(first, "is neither a comment, a request, a header nor the reply to a request: %s", line)
		}
	}
	for _, s := range t.Steps {
		if s.to == 0 {
			return nil, fault(s.Line-1, "the request has no reply")
		}
	}
	return t, nil
}

func parseRequest(block []string) (Step, error) {
	text, err := expand(strings.Join(block, "\n")[2:])
	if err != nil {
		return Step{}, err
	}
	operation, body, _ := strings.Cut(text, " ")
	return Step{Operation: strings.TrimSpace(operation), Body: body}, nil
}

var errorLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:([1-5][0-9][0-9]) )?([A-Za-z]+)(?:: (.*))?$`) })

func parseReply(block []string) (Reply, error) {
	text, err := expand(strings.Join(block, "\n"))
	if err != nil {
		return Reply{}, err
	}
	if exact, ok := strings.CutPrefix(text, "<!"); ok {
		return parseExact(strings.TrimPrefix(exact, " ")), nil
	}
	text = strings.TrimSpace(text[1:])
	if text == "…" || strings.HasPrefix(text, "{") {
		return Reply{Status: 200, Members: text}, nil
	}
	first, members, _ := strings.Cut(text, "\n")
	m := errorLine().FindStringSubmatch(first)
	if m == nil {
		return Reply{}, fmt.Errorf("is neither JSON nor an error: %s", first)
	}
	r := Reply{Status: 400, Code: m[2], Message: m[3], Members: members}
	if m[1] != "" {
		r.Status, _ = strconv.Atoi(m[1])
	}
	return r, nil
}

func parseExact(text string) Reply {
	r := Reply{Status: 200}
	if status, rest, _ := strings.Cut(text, " "); len(status) == 3 {
		if n, err := strconv.Atoi(status); err == nil {
			r.Status, text = n, rest
		}
	}
	r.Exact = &text
	return r
}

var macro = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`«([^«»]*)»`) })

// expand replaces the macros of a text.
func expand(text string) (string, error) {
	var fault error
	for strings.Contains(text, "«") && fault == nil {
		found := false
		text = macro().ReplaceAllStringFunc(text, func(m string) string {
			found = true
			out, err := expandOne(strings.Trim(m, "«»"))
			if err != nil {
				fault = err
			}
			return out
		})
		if !found {
			return "", fmt.Errorf("a « has no »")
		}
	}
	return text, fault
}

var numbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)^([0-9]+)\.\.([0-9]+) (.*)$`) })

func expandOne(text string) (string, error) {
	if m := numbers().FindStringSubmatch(text); m != nil {
		from, _ := strconv.Atoi(m[1])
		to, _ := strconv.Atoi(m[2])
		var parts []string
		for n := from; n <= to; n++ {
			parts = append(parts, strings.ReplaceAll(m[3], "%d", strconv.Itoa(n)))
		}
		return strings.Join(parts, ", "), nil
	}
	at := strings.LastIndex(text, "*")
	if at >= 0 {
		if n, err := strconv.Atoi(text[at+1:]); err == nil {
			return strings.Repeat(text[:at], n), nil
		}
	}
	return "", fmt.Errorf("«%s» is not a macro", text)
}
