package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A change replaces one part of a request: a member, or some words of a text.
type change struct {
	path     string // of the member: names and positions, each after a slash
	from, to int    // words of a text; 0 and 0 is the whole member
	with     any    // nil removes
}

// An edit is a set of changes that are made together.
type edit []change

// part matches a word of an expression or a statement with the space after it.
var part = regexp.MustCompile(`(?s)(?:'(?:[^']|'')*'|"[^"]*"|[#:]?[A-Za-z0-9_]+|.)\s*`)

// removed stands for an element of a list until all changes are made.
type removed struct{}

// apply returns a request with some edits. ok is false if two of them concern
// the same part.
func apply(body object, edits ...edit) (edited object, ok bool) {
	edited = cloneJSON(body).(object)
	texts := make(map[string][]change)
	for _, e := range edits {
		for _, c := range e {
			if c.to > c.from {
				texts[c.path] = append(texts[c.path], c)
			} else if !setAt(edited, c.path, c.with) {
				return nil, false
			}
		}
	}
	for _, path := range sortedKeys(texts) {
		text, isText := at(body, path).(string)
		if now, same := at(edited, path).(string); !isText || !same || now != text {
			return nil, false
		}
		if text, ok = replaceWords(text, texts[path]); !ok || !setAt(edited, path, text) {
			return nil, false
		}
	}
	return compact(edited).(object), true
}

// replaceWords replaces words of a text by position.
func replaceWords(text string, changes []change) (string, bool) {
	slices.SortFunc(changes, func(a, b change) int { return a.from - b.from })
	list := part.FindAllString(text, -1)
	var b strings.Builder
	next := 0
	for _, c := range changes {
		if c.from < next || c.to > len(list) {
			return "", false
		}
		b.WriteString(strings.Join(list[next:c.from], ""))
		if with, ok := c.with.(string); ok {
			b.WriteString(with)
		}
		next = c.to
	}
	b.WriteString(strings.Join(list[next:], ""))
	return b.String(), true
}

// at returns the member of a request at a path, or nil.
func at(v any, path string) any {
	for _, name := range strings.Split(path, "/")[1:] {
		switch parent := v.(type) {
		case object:
			v = parent[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(parent) {
				return nil
			}
			v = parent[i]
		default:
			return nil
		}
	}
	return v
}

// setAt sets or removes the member at a path. It reports whether there is a
// place for it.
func setAt(body object, path string, with any) bool {
	i := strings.LastIndex(path, "/")
	switch parent := at(body, path[:i]).(type) {
	case object:
		if with == nil {
			delete(parent, path[i+1:])
		} else {
			parent[path[i+1:]] = cloneJSON(with)
		}
		return true
	case []any:
		n, err := strconv.Atoi(path[i+1:])
		if err != nil || n >= len(parent) {
			return false
		}
		if parent[n] = cloneJSON(with); with == nil {
			parent[n] = removed{}
		}
		return true
	}
	return false
}

// compact removes the elements of lists that edits have removed.
func compact(v any) any {
	switch v := v.(type) {
	case object:
		for k, x := range v {
			v[k] = compact(x)
		}
	case []any:
		list := []any{}
		for _, x := range v {
			if _, gone := x.(removed); !gone {
				list = append(list, compact(x))
			}
		}
		return list
	}
	return v
}

// edits lists the edits of a request that may remove a fault: one that takes back
// its mutation, and then those that remove or replace a part of it.
func edits(body, base object) (all []edit) {
	if base != nil {
		all = append(all, difference("", body, base))
	}
	return append(all, memberEdits("", body, body)...)
}

// memberEdits lists the edits of a member and of all below it.
func memberEdits(path string, v any, body object) (all []edit) {
	switch v := v.(type) {
	case object:
		for _, k := range sortedKeys(v) {
			if strings.Contains(k, "/") {
				continue
			}
			all = append(all, edit{{path: path + "/" + k}})
			all = append(all, memberEdits(path+"/"+k, v[k], body)...)
		}
		if len(v) <= 1 && path != "" {
			for _, other := range []object{str("a"), num("1"), bin("a")} {
				all = append(all, edit{{path: path, with: other}})
			}
		}
	case []any:
		for i := range v {
			below := path + "/" + strconv.Itoa(i)
			all = append(all, edit{{path: below}})
			all = append(all, memberEdits(below, v[i], body)...)
		}
	case string:
		if strings.HasSuffix(path, "Expression") || strings.HasSuffix(path, "/Statement") {
			all = append(all, textEdits(path, v)...)
		}
		if parent, ok := strings.CutSuffix(path, "/Statement"); ok {
			all = append(all, moreParameters(parent+"/Parameters", body)...)
		}
	}
	return all
}

const maxWords = 8 // that one edit removes

// textEdits lists the edits of an expression or a statement: some words less, a
// function or a pair of parentheses less, or another word.
func textEdits(path, text string) (all []edit) {
	list := part.FindAllString(text, -1)
	for n := 1; n <= maxWords; n++ {
		for i := 0; i+n <= len(list); i++ {
			all = append(all, withoutParameters(path, list, change{path: path, from: i, to: i + n}))
		}
	}
	for i := range list {
		if end := closing(list, i); end > i {
			all = append(all, edit{{path: path, from: i, to: i + 1}, {path: path, from: end, to: end + 1}})
			if i > 0 {
				all = append(all, edit{{path: path, from: i - 1, to: i + 1}, {path: path, from: end, to: end + 1}})
			}
		}
	}
	for i, word := range list {
		if strings.EqualFold(strings.TrimSpace(word), "WHERE") {
			for _, more := range []string{"pk = 'a' AND ", "pk = 1 AND ", "sk = 'a' AND ", "sk = 1 AND "} {
				all = append(all, edit{{path: path, from: i, to: i + 1, with: "WHERE " + more}})
			}
		}
	}
	for i := range list {
		for _, word := range []string{"a ", "1 ", "'a' ", "= ", "pk ", "sk ", "[1] ", "AND "} {
			all = append(all, withoutParameters(path, list, change{path: path, from: i, to: i + 1, with: word}))
		}
	}
	return all
}

// moreParameters lists the edits that add a parameter to those of a statement.
func moreParameters(path string, body object) (all []edit) {
	given, _ := at(body, path).([]any)
	for _, value := range []object{str("a"), num("1"), {"SS": []any{"a"}}} {
		all = append(all, edit{{path: path, with: append(slices.Clone(given), value)}})
	}
	return all
}

// withoutParameters returns a change of a statement together with the removal of
// the parameters of the words that it removes.
func withoutParameters(path string, list []string, c change) edit {
	all := edit{c}
	parent, ok := strings.CutSuffix(path, "/Statement")
	if !ok {
		return all
	}
	parameter := 0
	for i, word := range list[:c.to] {
		if strings.TrimSpace(word) != "?" {
			continue
		}
		if i >= c.from {
			all = append(all, change{path: parent + "/Parameters/" + strconv.Itoa(parameter)})
		}
		parameter++
	}
	return all
}

// closing returns the position of the parenthesis that closes one, or -1.
func closing(list []string, open int) int {
	depth := 0
	for i := open; i < len(list); i++ {
		switch strings.TrimSpace(list[i]) {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth == 0 {
			if i == open {
				return -1
			}
			return i
		}
	}
	return -1
}

// difference returns the edit that makes one value of another. It changes as
// little as it can.
func difference(path string, v, want any) edit {
	switch v := v.(type) {
	case object:
		if want, ok := want.(object); ok {
			return objectDifference(path, v, want)
		}
	case []any:
		if want, ok := want.([]any); ok && len(v) == len(want) {
			var all edit
			for i := range v {
				all = append(all, difference(path+"/"+strconv.Itoa(i), v[i], want[i])...)
			}
			return all
		}
	case string:
		if want, ok := want.(string); ok && v != want {
			return textDifference(path, v, want)
		}
	}
	if canonical(v) == canonical(want) {
		return nil
	}
	return edit{{path: path, with: want}}
}

func objectDifference(path string, v, want object) (all edit) {
	for _, k := range sortedKeys(merged(v, want)) {
		x, ok := want[k]
		switch {
		case !ok:
			all = append(all, change{path: path + "/" + k})
		default:
			all = append(all, difference(path+"/"+k, v[k], x)...)
		}
	}
	return all
}

// textDifference replaces the words between the beginning and the end that two
// texts have in common.
func textDifference(path, text, want string) edit {
	a, b := part.FindAllString(text, -1), part.FindAllString(want, -1)
	from, end := 0, 0
	for from < min(len(a), len(b)) && a[from] == b[from] {
		from++
	}
	for end < min(len(a), len(b))-from && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	if len(a)-end == from { // words are missing: the word before them is replaced
		if from == 0 {
			return edit{{path: path, with: want}}
		}
		from--
	}
	return edit{{path: path, from: from, to: len(a) - end, with: strings.Join(b[from:len(b)-end], "")}}
}
