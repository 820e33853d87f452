package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestPhrases(t *testing.T) {
	byName := make(map[string]phrase)
	for _, p := range phrases {
		byName[p.name] = p
	}
	for _, c := range []struct {
		phrase, text string
		want         int
	}{
		{"told", "its first fault is told", 1},
		{"told", "two faults that cannot be told apart", 0},
		{"who", "Who reads takes no lock.", 1},
		{"who", "It waits, and who reads takes no lock.", 1},
		{"who", "It is for whoever asks.", 1},
		{"who", "the lock of\nwho reads", 1},
		{"who", "a client who reads", 0},
		{"who", "It reports who signed the request.", 0},
		{"who", "the whole", 0},
		{"anew", "It is read anew, and Anew.", 2},
		{"beside", "the file beside it, besides", 1},
		{"unless set", "10 unless\nset, 20 unless given, nil unless it is set", 2},
		{"so many", "so many, so much, so often, so far", 3},
		{"behind", "the one behind it", 1},
	} {
		if got := len(byName[c.phrase].find(c.text)); got != c.want {
			t.Errorf("%q is used %d times in %q, want %d", c.phrase, got, c.text, c.want)
		}
	}
}

// Comments count, code and directives do not; tests are counted separately.
func TestRead(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go": "//go:build linux\n\n// Package a was told\n// twice: told.\npackage a\n\n" +
			"var told = \"told\" // anew\n\n//go:generate told\nvar x int\n",
		"a/a_test.go":       "package a\n\n/* told */\n",
		"a/testdata/bad.go": "not Go",
		"a/readme.md":       "told",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		got   *count
		lines int
		uses  map[string]int
	}{
		{"code", r.Code["a"], 3, map[string]int{"told": 2, "anew": 1}},
		{"tests", r.Tests["a"], 1, map[string]int{"told": 1}},
	} {
		if c.got == nil || c.got.Lines != c.lines || !maps.Equal(c.got.Uses, c.uses) {
			t.Errorf("%s: counted %+v, want %d lines and %v", c.name, c.got, c.lines, c.uses)
		}
	}
	if want := "a/a.go"; len(r.uses) != 4 || r.uses[0].file != want || r.uses[0].line != 3 {
		t.Errorf("uses are %+v, want four of which the first stands in %s:3", r.uses, want)
	}
}
