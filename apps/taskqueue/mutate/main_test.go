package main

import (
	"go/format"
	"testing"
)

// Every change applies to one place of its file, and gives Go code.
func TestMutantsApply(t *testing.T) {
	for _, m := range mutants {
		_, text, err := m.changed("..")
		if err != nil {
			t.Errorf("%s: %v", m.file, err)
			continue
		}
		if _, err := format.Source(text); err != nil {
			t.Errorf("%s with %q: %v", m.file, m.to, err)
		}
	}
}
