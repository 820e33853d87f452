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

var wantFault = regexp.MustCompile(`(?m)^# fault: (.*)$`)

// Each model of the corpus has one fault, whose text is at its top; its fixed
// version has none. go test -rewrite updates the texts: read the difference
// before you commit it.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".model.yaml")
		if name, fixed := strings.CutSuffix(name, ".fixed"); fixed {
			t.Run(name+" fixed", func(t *testing.T) {
				if got := faultsOf(text); got != nil {
					t.Errorf("it still has faults: %s", strings.Join(got, "\n"))
				}
			})
			continue
		}
		count++
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(strings.TrimSuffix(file, ".model.yaml") + ".fixed.model.yaml"); err != nil {
				t.Error("it has no fixed version")
			}
			got := strings.Join(faultsOf(text), " | ")
			want := wantFault.FindSubmatch(text)
			if want == nil {
				t.Fatal("it does not state its fault")
			}
			if *rewrite {
				updated := strings.Replace(string(text), string(want[0]), "# fault: "+got, 1)
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
	if count < 40 {
		t.Errorf("the corpus has %d models, want at least 40", count)
	}
}

// faultsOf returns the faults of a model, each as line:column, code, message and
// advice.
func faultsOf(text []byte) (all []string) {
	var faults []*Fault
	m, err := Parse("x", text)
	var syntax *SyntaxError
	switch {
	case errors.As(err, &syntax):
		faults = syntax.Faults
	case err == nil:
		faults = m.Check(DefaultPrices()).Faults
	}
	for _, f := range faults {
		all = append(all, fmt.Sprintf("%d:%d %s: %s", f.Position.Line, f.Position.Column, f.Code, strings.ReplaceAll(f.Error(), "\n", " ")))
	}
	return all
}
