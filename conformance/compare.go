package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// Answer is the response of a server.
type Answer struct {
	Status int
	Body   string
}

const (
	anything = "…"
	anyOrder = "any order"
)

// Compare returns an error that says where an answer differs from the wanted
// reply, or nil.
func Compare(want Reply, got Answer) error {
	if got.Status != want.Status {
		return fmt.Errorf("the status is %d, not %d", got.Status, want.Status)
	}
	if want.Exact != nil {
		if strings.TrimSpace(got.Body) != strings.TrimSpace(*want.Exact) {
			return errors.New("the body is another")
		}
		return nil
	}
	if want.Members == anything && want.Code == "" {
		return nil
	}
	code, message, members, err := got.parts()
	if err != nil {
		return err
	}
	switch {
	case code != want.Code:
		return fmt.Errorf("the code is %q, not %q", code, want.Code)
	case !matchesMessage(want.Message, message):
		return errors.New("the message is another")
	}
	wanted, err := decode(orEmpty(want.Members))
	if err != nil {
		return fmt.Errorf("the transcript's reply is not JSON: %w", err)
	}
	return compareValue("", wanted, members)
}

// parts splits an answer: an error's code and message, and the other members.
func (a Answer) parts() (code, message string, members map[string]any, err error) {
	v, err := decode(orEmpty(a.Body))
	members, ok := v.(map[string]any)
	if err != nil || !ok {
		return "", "", nil, errors.New("the body is not a JSON object")
	}
	if a.Status < 300 {
		return "", "", members, nil
	}
	kind, _ := members["__type"].(string)
	code = kind[strings.LastIndex(kind, "#")+1:]
	delete(members, "__type")
	for _, name := range []string{"message", "Message"} {
		if m, ok := members[name].(string); ok {
			message = m
			delete(members, name)
		}
	}
	return code, message, members, nil
}

func orEmpty(body string) string {
	if strings.TrimSpace(body) == "" {
		return "{}"
	}
	return body
}

func decode(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is text after the value")
	}
	return v, nil
}

// difference returns an error for a difference at a path within a reply.
func difference(at, format string, args ...any) error {
	if at == "" {
		at = "the reply"
	}
	return fmt.Errorf("%s %s", strings.TrimPrefix(at, "."), fmt.Sprintf(format, args...))
}

func compareValue(at string, want, got any) error {
	switch w := want.(type) {
	case string:
		if w == anything {
			return nil
		}
		if g, ok := got.(string); ok && matchesText(w, g) {
			return nil
		}
	case json.Number:
		if g, ok := got.(json.Number); ok && sameNumber(w, g) {
			return nil
		}
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return compareObject(at, w, g)
		}
	case []any:
		if g, ok := got.([]any); ok {
			return compareList(at, w, g)
		}
	default:
		if want == got {
			return nil
		}
	}
	return difference(at, "is %s, not %s", short(got), short(want))
}

// matchesMessage is matchesText for messages. The validation errors that one
// message joins are in no particular order.
func matchesMessage(want, got string) bool {
	start, faults, many := strings.Cut(want, " validation errors detected: ")
	start2, faults2, many2 := strings.Cut(got, " validation errors detected: ")
	if !many || !many2 || start != start2 || strings.Contains(want, anything) {
		return matchesText(want, got)
	}
	a, b := strings.Split(faults, "; "), strings.Split(faults2, "; ")
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// matchesText reports whether got matches want, in which … stands for any
// text.
func matchesText(want, got string) bool {
	parts := strings.Split(want, anything)
	last := len(parts) - 1
	if last == 0 {
		return want == got
	}
	got, ok := strings.CutPrefix(got, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1:last] {
		if _, got, ok = strings.Cut(got, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(got, parts[last])
}

func sameNumber(a, b json.Number) bool {
	x, ok1 := new(big.Rat).SetString(a.String())
	y, ok2 := new(big.Rat).SetString(b.String())
	return ok1 && ok2 && x.Cmp(y) == 0
}

func compareObject(at string, want, got map[string]any) error {
	_, more := want[anything]
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if name == anything {
			continue
		}
		g, ok := got[name]
		if !ok {
			return difference(at, "has no %s", name)
		}
		if isSet(name, want[name]) {
			if err := compareUnordered(at+"."+name, want[name].([]any), g); err != nil {
				return err
			}
			continue
		}
		if err := compareValue(at+"."+name, want[name], g); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok && !more {
			return difference(at, "has %s, which it should not", name)
		}
	}
	return nil
}

// isSet reports whether a member is a set of an attribute value.
func isSet(name string, v any) bool {
	_, list := v.([]any)
	return list && (name == "SS" || name == "NS" || name == "BS")
}

func compareList(at string, want, got []any) error {
	if len(want) > 0 && want[0] == anyOrder {
		return compareUnordered(at, want[1:], got)
	}
	if len(want) != len(got) {
		return difference(at, "has %d elements, not %d", len(got), len(want))
	}
	for i := range want {
		if err := compareValue(fmt.Sprintf("%s[%d]", at, i), want[i], got[i]); err != nil {
			return err
		}
	}
	return nil
}

// compareUnordered finds an element for each wanted one.
func compareUnordered(at string, want []any, got any) error {
	list, ok := got.([]any)
	if !ok {
		return difference(at, "is %s, not a list", short(got))
	}
	if len(want) != len(list) {
		return difference(at, "has %d elements, not %d", len(list), len(want))
	}
	left := slices.Clone(list)
	for _, w := range want {
		i := slices.IndexFunc(left, func(g any) bool { return compareValue(at, w, g) == nil })
		if i < 0 {
			return difference(at, "has no element %s", short(w))
		}
		left = slices.Delete(left, i, i+1)
	}
	return nil
}

// short formats a value as JSON, truncated if it is long.
func short(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return clip(strings.TrimSpace(b.String()), 200)
}

// clip truncates a text to at most n bytes, and marks the truncation.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:n], ""), len(s))
}
