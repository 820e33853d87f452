package effect

import (
	"encoding/json"
	"strings"
)

// onlySelects reports whether all statements in the body of a request of PartiQL read. A body with
// a member twice is not trusted: another reader could take the other one.
func onlySelects(body []byte) bool {
	var in struct {
		Statement          *string
		Statements         []struct{ Statement string }
		TransactStatements []struct{ Statement string }
	}
	if json.Unmarshal(body, &in) != nil || hasRepeats(body) {
		return false
	}
	var texts []string
	if in.Statement != nil {
		texts = append(texts, *in.Statement)
	}
	for _, s := range append(in.Statements, in.TransactStatements...) {
		texts = append(texts, s.Statement)
	}
	for _, text := range texts {
		if !isSelect(text) {
			return false
		}
	}
	return len(texts) > 0
}

// isSelect reports whether a statement begins with SELECT, or with the EXISTS of a transaction.
func isSelect(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	for _, word := range []string{"select", "exists"} {
		if len(text) > len(word) && strings.EqualFold(text[:len(word)], word) && strings.ContainsRune(" \t\r\n(*\"", rune(text[len(word)])) {
			return true
		}
	}
	return false
}

// hasRepeats reports whether the body names a statement more often than json.Unmarshal has read:
// with a member twice, or with names that differ in case.
func hasRepeats(body []byte) bool {
	d := json.NewDecoder(strings.NewReader(string(body)))
	return repeats(d) != nil
}

type repeatedMember string

func (r repeatedMember) Error() string { return "member " + string(r) + " is repeated" }

// repeats reads one value, and returns an error if an object in it has a member twice.
func repeats(d *json.Decoder) error {
	start, err := d.Token()
	if err != nil {
		return err
	}
	open, nested := start.(json.Delim)
	if !nested {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			key, _ := name.(string)
			// Names of attributes may differ in case only; those of members do not.
			if folded := strings.ToLower(key); strings.HasSuffix(folded, "statement") || strings.HasSuffix(folded, "statements") {
				key = folded
			}
			if seen[key] {
				return repeatedMember(key)
			}
			seen[key] = true
		}
		if err := repeats(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}
