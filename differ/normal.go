package main

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// normalise returns an answer without what servers may choose: the order of
// sets, of items that have no order, and of joined validation errors; names of
// resources, times, and states that pass.
func normalise(st step, a answer) answer {
	n := answer{Status: a.Status, Code: a.Code, Text: normalText(a.Text)}
	for _, member := range []string{"Table", "TableDescription"} {
		if t, ok := a.Body[member].(object); ok {
			dropVolatile(t)
		}
	}
	body, _ := normalValue(a.Body).(object)
	for _, member := range []string{"ConsumedCapacity", "Tags", "TableNames"} {
		sortList(body[member])
	}
	if items, ok := body["Items"].([]any); ok {
		sortItems(items, st.Order)
	}
	sortList(body["Records"])
	if responses, ok := body["Responses"].(object); ok { // of BatchGetItem
		for _, items := range responses {
			sortList(items)
		}
	}
	if metrics, ok := body["ItemCollectionMetrics"].(object); ok {
		for _, list := range metrics {
			sortList(list)
		}
	}
	dropEmpty(body)
	n.Body = body
	return n
}

// dropEmpty removes members that servers either omit or leave empty.
func dropEmpty(body object) {
	for _, member := range []string{"UnprocessedItems", "UnprocessedKeys", "ItemCollectionMetrics", "ConsumedCapacity", "Tags"} {
		switch v := body[member].(type) {
		case object:
			if len(v) == 0 {
				delete(body, member)
			}
		case []any:
			if len(v) == 0 {
				delete(body, member)
			}
		case nil:
			delete(body, member)
		}
	}
}

// volatile members are chosen by a server, or change with time.
var volatile = map[string]bool{
	"TableArn": true, "TableId": true, "CreationDateTime": true, "IndexArn": true, "LatestStreamArn": true, "LatestStreamLabel": true,
	"LastIncreaseDateTime": true, "LastDecreaseDateTime": true, "LastUpdateToPayPerRequestDateTime": true,
	"TableStatus": true, "IndexStatus": true, "ItemCount": true, "TableSizeBytes": true, "IndexSizeBytes": true, "Backfilling": true,
}

// dropVolatile removes the volatile members of a table's description.
func dropVolatile(v any) {
	switch v := v.(type) {
	case object:
		for k, x := range v {
			if volatile[k] {
				delete(v, k)
				continue
			}
			dropVolatile(x)
		}
	case []any:
		for _, x := range v {
			dropVolatile(x)
		}
	}
}

// normalValue sorts sets, and writes numbers in one notation.
func normalValue(v any) any {
	switch v := v.(type) {
	case object:
		out := make(object, len(v))
		for k, x := range v {
			out[k] = normalMember(k, x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = normalValue(x)
		}
		return out
	}
	return v
}

func normalMember(name string, v any) any {
	v = normalValue(v)
	switch name {
	case "SS", "NS", "BS", "AttributeDefinitions", "GlobalSecondaryIndexes", "LocalSecondaryIndexes", "NonKeyAttributes":
		sortList(v)
	case "N":
		if s, ok := v.(string); ok {
			return normalNumber(s)
		}
	}
	return v
}

// normalNumber writes a number without exponent, so that notations of one
// number are equal.
func normalNumber(s string) string {
	if len(s) > 200 || !strings.ContainsAny(s, "eE") {
		return s
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return s
	}
	text := r.FloatString(140)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func sortList(v any) {
	if list, ok := v.([]any); ok {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(canonical(a), canonical(b)) })
	}
}

// sortItems sorts items whose order is not defined.
func sortItems(items []any, order string) {
	switch order {
	case "":
		return
	case "any":
		sortList(items)
		return
	}
	for i := 0; i < len(items); {
		j := i + 1
		for j < len(items) && canonical(member(items[i], order)) == canonical(member(items[j], order)) {
			j++
		}
		sortList(items[i:j])
		i = j
	}
}

func member(v any, name string) any {
	o, _ := v.(object)
	return o[name]
}

var joined = regexp.MustCompile(`(?s)^(\d+ validation errors detected: )Value (.*)$`)

// normalText sorts the faults of a message that joins several.
func normalText(text string) string {
	m := joined.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	parts := strings.Split(m[2], "; Value ")
	sort.Strings(parts)
	return m[1] + "Value " + strings.Join(parts, "; Value ")
}

// diff lists where two normalised answers differ, each place in the form
// "Member.Member: 1 or 2".
func diff(a, b answer) []string {
	if a.Status != b.Status || a.Code != b.Code || a.Text != b.Text {
		return []string{"outcome"}
	}
	var places []string
	diffValues("", a.Body, b.Body, &places)
	slices.Sort(places)
	return slices.Compact(places)
}

// opaque members are compared as a whole: what is in them is the customer's.
var opaque = map[string]bool{"Item": true, "Items": true, "Attributes": true, "Key": true, "LastEvaluatedKey": true, "Records": true}

func diffValues(path string, a, b any, places *[]string) {
	x, ok1 := a.(object)
	y, ok2 := b.(object)
	if ok1 && ok2 {
		for _, k := range sortedKeys(merged(x, y)) {
			diffMember(path, k, x, y, places)
		}
		return
	}
	l, ok1 := a.([]any)
	m, ok2 := b.([]any)
	if ok1 && ok2 && len(l) == len(m) {
		for i := range l {
			diffValues(path+"[]", l[i], m[i], places)
		}
		return
	}
	if canonical(a) != canonical(b) {
		*places = append(*places, path)
	}
}

func diffMember(path, k string, x, y object, places *[]string) {
	name := k
	if strings.HasSuffix(path, "Indexes") || path == "Responses" || path == "ItemCollectionMetrics" || path == "UnprocessedKeys" {
		name = "*"
	}
	where := strings.TrimPrefix(path+"."+name, ".")
	a, ok1 := x[k]
	b, ok2 := y[k]
	switch {
	case ok1 && !ok2:
		*places = append(*places, where+" only in the first")
	case !ok1 && ok2:
		*places = append(*places, where+" only in the second")
	case opaque[k] || (path == "Responses" && name == "*"):
		if canonical(a) != canonical(b) {
			*places = append(*places, where)
		}
	default:
		diffValues(where, a, b, places)
	}
}

func merged(x, y object) object {
	all := make(object, len(x)+len(y))
	for k := range x {
		all[k] = nil
	}
	for k := range y {
		all[k] = nil
	}
	return all
}

var (
	quoted  = regexp.MustCompile(`"[^"]*"|\B'[^']*'|\[[^\]]*\]|\{[^}]*\}`)
	numbers = regexp.MustCompile(`\d+`)
	named   = regexp.MustCompile(`([:#][A-Za-z0-9_]+|key: \S+|name: \S+|attribute: \S+|index: \S+)`)
)

// template returns a message without the names and values of its request.
func template(outcome string) string {
	head, rest, found := strings.Cut(outcome, ": ")
	if !found {
		return outcome
	}
	rest = quoted.ReplaceAllString(rest, "_")
	rest = named.ReplaceAllStringFunc(rest, func(s string) string {
		if before, _, ok := strings.Cut(s, ": "); ok {
			return before + ": _"
		}
		return s[:1] + "_"
	})
	rest = numbers.ReplaceAllString(rest, "0")
	if len(rest) > 160 {
		rest = rest[:160]
	}
	return fmt.Sprintf("%s: %s", head, rest)
}
