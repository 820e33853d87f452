package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

func matchEntity(t *testing.T, template string) *Entity {
	t.Helper()
	m, err := Parse("x", []byte(`model: 1
tables: {tab: {key: {partition: PK}}}
entities:
  e: {keys: {PK: "`+template+`"}, attributes: {a: S, b: S, c: S, n: N, v: {values: [x, xx, "x#"]}}}
patterns: [{name: get, scan: e, rate: 1/s}]
`))
	if err != nil {
		t.Fatal(err)
	}
	return m.Entities[0]
}

// search finds all ways in which parts give a text, by trying.
func search(e *Entity, parts []templatePart, text string, known map[string]item.Value) (all []map[string]item.Value) {
	if len(parts) == 0 {
		if text == "" {
			all = append(all, known)
		}
		return all
	}
	p := parts[0]
	if v, ok := known[p.name]; ok || p.name == "" {
		constant := p.text
		if ok {
			constant = plain(v)
		}
		if rest, ok := strings.CutPrefix(text, constant); ok {
			return search(e, parts[1:], rest, known)
		}
		return nil
	}
	for end := 1; end <= len(text); end++ {
		if v, ok := e.byName[p.name].parse(text[:end]); ok {
			with := maps.Clone(known)
			with[p.name] = v
			all = append(all, search(e, parts[1:], text[end:], with)...)
		}
	}
	return all
}

// A key is read as a search reads it.
func TestMatchAsASearch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	counts := make(map[int]int)
	for _, template := range []string{"{a}", "A#{a}", "{a}#{b}", "{a}#{b}#{c}", "{a}{b}", "{a}#{n}", "{n}#{a}", "{n}{a}", "{v}#{a}", "{a}#{v}#{n}", "{a}#{b}#{a}", "{a}#{a}", "{a}{n}{a}#{b}", "{v}{v}", "{a}#{b}#{a}#{b}"} {
		e := matchEntity(t, template)
		f := e.byName["PK"]
		for range 2000 {
			var b strings.Builder
			for range r.IntN(9) {
				b.WriteByte("##x1A0"[r.IntN(6)])
			}
			known := make(map[string]item.Value)
			if r.IntN(3) == 0 {
				known["a"] = item.String([]string{"x", "#", "1", "x#"}[r.IntN(4)])
			}
			want := search(e, e.flatten(f.template, nil), b.String(), known)
			got, ways := e.match(f.template, b.String(), known)
			if ways != min(2, len(want)) {
				t.Fatalf("%q is read as %q in %d ways, want %d: %v", b.String(), template, ways, len(want), want)
			}
			counts[ways]++
			if ways == 1 {
				maps.Copy(got, known)
				if !maps.EqualFunc(got, want[0], func(a, b item.Value) bool { return item.Equal(a, b) }) {
					t.Fatalf("%q is read as %q with %v, want %v", b.String(), template, got, want[0])
				}
			}
		}
	}
	if counts[0] < 100 || counts[1] < 100 || counts[2] < 100 {
		t.Errorf("the numbers of keys by their ways are %v", counts)
	}
}

// A long key with many separators is read at once. A search would take as many
// steps as a power of its length.
func TestMatchLongKeys(t *testing.T) {
	for _, template := range []string{"{a}#{b}#{c}#{n}#END", "{a}#{b}#{v}#{c}#END", "{a}{b}{c}#END", "{a}#{b}#{a}#{b}#END"} {
		e := matchEntity(t, template)
		for _, text := range []string{"#", "1", "x#"} {
			key := item.Make(map[string]item.Value{"PK": item.String(strings.Repeat(text, 2048/len(text)))})
			if _, err := e.Values(key); err == nil {
				t.Errorf("%s repeated is read as %q", text, template)
			}
		}
	}
}

// A character of several bytes is not divided.
func TestMatchCharacters(t *testing.T) {
	values, err := matchEntity(t, "{a}{b}").Values(item.Make(map[string]item.Value{"PK": item.String("éé")}))
	if err != nil || plain(values["a"]) != "é" {
		t.Errorf("%v, %v", values, err)
	}
}

// An attribute that is neither a string nor a number has no text in a template.
func TestMatchOtherTypes(t *testing.T) {
	e := matchEntity(t, "{a}#{b}")
	for _, v := range []item.Value{item.Null(), item.Bool(true), item.Binary([]byte("x")), item.List(item.String("x"))} {
		it := item.Make(map[string]item.Value{"PK": item.String("x#y"), "a": v})
		if _, err := e.Values(it); err == nil {
			t.Errorf("an item whose a is %s is accepted", fmt.Sprint(v))
		}
	}
}
