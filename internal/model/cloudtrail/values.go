package cloudtrail

import (
	"regexp"
	"strings"
	"sync"

	"github.com/stator-db/stator/internal/data/item"
)

var valuePlaceholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`:[A-Za-z0-9_]+`) })

// maxTries is how often an expression is bound with other values.
const maxTries = 64

// tryValues calls bind with values for the placeholders of an expression, until their
// types fit. A log does not have the values, and only their types matter.
func tryValues(text string, bind func(values map[string]item.Value) error) (err error) {
	var refs []string
	values := make(map[string]item.Value)
	for _, ref := range valuePlaceholder().FindAllString(text, -1) {
		if _, ok := values[ref]; !ok {
			refs = append(refs, ref)
		}
		values[ref] = likelyValue(text, ref)
	}
	if err = bind(values); err == nil {
		return nil
	}
	first := err
	candidates := []item.Value{textValue, numberValue(), item.Set(item.SS, textValue), item.List(textValue), item.String("S")}
	tries := 0
	for _, ref := range refs {
		likely := values[ref]
		for _, v := range candidates {
			if tries++; tries > maxTries {
				return first
			}
			values[ref] = v
			if bind(values) == nil {
				return nil
			}
		}
		values[ref] = likely
	}
	for _, v := range candidates {
		for _, ref := range refs {
			values[ref] = v
		}
		if bind(values) == nil {
			return nil
		}
	}
	return first
}

var textValue = item.String("a")

func numberValue() item.Value {
	n, err := item.ParseNumber("1")
	if err != nil {
		panic("1 is not a number: " + err.Error())
	}
	return item.Num(n)
}

// likelyValue returns a value of the type that a placeholder most likely has, by the
// text before it.
func likelyValue(text, ref string) item.Value {
	at := 0
	for _, m := range valuePlaceholder().FindAllStringIndex(text, -1) {
		if text[m[0]:m[1]] == ref {
			at = m[0]
			break
		}
	}
	upper := strings.ToUpper(text[:at])
	section, last := "", -1
	for _, word := range []string{"SET ", "REMOVE ", "ADD ", "DELETE "} {
		if i := strings.LastIndex(upper, word); i > last {
			section, last = word, i
		}
	}
	near := strings.TrimRight(upper, " (")
	switch {
	case section == "ADD ", strings.HasSuffix(near, "+"), strings.HasSuffix(near, "-"):
		return numberValue()
	case section == "DELETE ":
		return item.Set(item.SS, textValue)
	case strings.LastIndex(upper, "LIST_APPEND") > strings.LastIndex(upper, ")"):
		return item.List(textValue)
	case strings.LastIndex(upper, "ATTRIBUTE_TYPE") > strings.LastIndex(upper, ")"):
		return item.String("S")
	}
	return textValue
}
