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

// Each model of the corpus has one fault, which is told in the words that stand
// at its top; mended, it has none. go test -rewrite writes the words anew: read
// the difference before you keep it.
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
		if name, mended := strings.CutSuffix(name, ".mended"); mended {
			t.Run(name+" mended", func(t *testing.T) {
				if got := faultsOf(text); got != nil {
					t.Errorf("still at fault: %s", strings.Join(got, "\n"))
				}
			})
			continue
		}
		count++
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(strings.TrimSuffix(file, ".model.yaml") + ".mended.model.yaml"); err != nil {
				t.Error("it has no mended twin")
			}
			got := strings.Join(faultsOf(text), " | ")
			want := wantFault.FindSubmatch(text)
			if want == nil {
				t.Fatal("it does not say what to expect")
			}
			if *rewrite {
				anew := strings.Replace(string(text), string(want[0]), "# fault: "+got, 1)
				if err := os.WriteFile(file, []byte(anew), 0o644); err != nil {
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
		t.Errorf("the corpus has %d models, and must have 40", count)
	}
}

// faultsOf are the faults of a model, each as line:column, code, message and
// what to try.
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
