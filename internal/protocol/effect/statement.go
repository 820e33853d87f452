package effect

import (
	"bytes"
	"encoding/json"
	"strings"
)

// onlySelects reports whether all statements in the body of a request of PartiQL read. Members have
// exact names, as for DynamoDB: encoding/json would take one that differs in case for a field of a
// struct. A body with such a member, or with a member twice, is not trusted, as another reader could
// take the other one.
func onlySelects(body []byte) bool {
	if isRepeated(body) {
		return false
	}
	texts, ok := statementsIn(body)
	for _, text := range texts {
		if !isSelect(text) {
			return false
		}
	}
	return ok && len(texts) > 0
}

// statementsIn returns the statements of an object and of the objects in its lists. It is not ok if
// they are not as they should be.
func statementsIn(object []byte) (texts []string, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil, false
	}
	for name, value := range members {
		switch name {
		case "Statement":
			var text *string
			if json.Unmarshal(value, &text) != nil || text == nil {
				return nil, false
			}
			texts = append(texts, *text)
		case "Statements", "TransactStatements":
			var list []json.RawMessage
			if json.Unmarshal(value, &list) != nil {
				return nil, false
			}
			for _, one := range list {
				found, ok := statementsIn(one)
				if !ok || len(found) != 1 {
					return nil, false
				}
				texts = append(texts, found...)
			}
		default:
			if strings.EqualFold(name, "Statement") || strings.EqualFold(name, "Statements") || strings.EqualFold(name, "TransactStatements") {
				return nil, false
			}
		}
	}
	return texts, true
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

// isRepeated reports whether an object in a body has a member twice, of which json.Unmarshal reads
// the last, or the body cannot be read. Valid rejects what is nested so deeply that repeats, whose
// tokens have no such limit, would overflow the stack, which ends the process.
func isRepeated(body []byte) bool {
	return !json.Valid(body) || repeats(json.NewDecoder(bytes.NewReader(body))) != nil
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
