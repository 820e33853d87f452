package main

import "testing"

// The places of all mutants exist, so that a change of the source does not lose one.
func TestPlaces(t *testing.T) {
	all, err := readMutants("../../mutants.yaml")
	if err != nil {
		t.Fatal(err)
	}
	applications := make(map[string]int)
	for _, m := range all {
		for i := range m.File {
			if m.File[i] == '/' {
				applications[m.File[:i]]++
				break
			}
		}
	}
	for _, a := range []string{"taskqueue", "downloads", "goals", "documents"} {
		if applications[a] == 0 {
			t.Errorf("%s has no rule", a)
		}
	}
}
