package model

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each model of the corpus has one fault, whose text is at its top; its fixed
// version has none. go test -rewrite updates the texts: read the difference
// before you commit it.
func TestFaults(t *testing.T) {
	if count := testCorpus(t, "testdata/faults", "fault", faultsOf); count < 40 {
		t.Errorf("the corpus has %d models, want at least 40", count)
	}
}

// The same holds for notes; none of these models has a fault.
func TestNotes(t *testing.T) {
	testCorpus(t, "testdata/notes", "note", notesOf)
}

// testCorpus tests the models of a folder, and returns how many there are.
func testCorpus(t *testing.T, dir, kind string, find func([]byte) []string) (count int) {
	files, err := filepath.Glob(dir + "/*.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(`(?m)^# ` + kind + `: (.*)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".model.yaml")
		if name, fixed := strings.CutSuffix(name, ".fixed"); fixed {
			t.Run(name+" fixed", func(t *testing.T) {
				if got := find(text); got != nil {
					t.Errorf("it still has a %s: %s", kind, strings.Join(got, "\n"))
				}
			})
			continue
		}
		count++
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(strings.TrimSuffix(file, ".model.yaml") + ".fixed.model.yaml"); err != nil {
				t.Error("it has no fixed version")
			}
			got := strings.Join(find(text), " | ")
			want := wanted.FindSubmatch(text)
			if want == nil {
				t.Fatalf("it does not state its %s", kind)
			}
			if *rewrite {
				updated := strings.Replace(string(text), string(want[0]), "# "+kind+": "+got, 1)
				if err := os.WriteFile(file, []byte(updated), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want[1]) {
				t.Errorf("got\n  %s\nwant\n  %s", got, want[1])
			}
		})
	}
	return count
}

// faultsOf returns the faults of a model, each as line:column, code, message and
// advice.
func faultsOf(text []byte) []string {
	faults, _ := findings(text)
	return faults
}

// notesOf returns the faults of a model, followed by its notes.
func notesOf(text []byte) []string {
	faults, notes := findings(text)
	return append(faults, notes...)
}

func findings(text []byte) (faults, notes []string) {
	m, err := Parse("x", text)
	var syntax *SyntaxError
	if errors.As(err, &syntax) {
		for _, f := range syntax.Faults {
			faults = append(faults, describe(f))
		}
		return faults, nil
	}
	r := m.Check(DefaultPrices())
	for _, f := range r.Faults {
		faults = append(faults, describe(f))
	}
	for _, n := range r.Notes {
		notes = append(notes, describe((*Fault)(n)))
	}
	return faults, notes
}

func describe(f *Fault) string {
	return fmt.Sprintf("%d:%d %s: %s", f.Position.Line, f.Position.Column, f.Code, strings.ReplaceAll(f.Error(), "\n", " "))
}
