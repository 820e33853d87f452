package main

import (
	"io"
	"slices"
	"testing"
)

func TestSettings(t *testing.T) {
	s, err := parseSettings([]string{
		"--target", "stator,theirs=http://127.0.0.1:9000", "--target", "before=stator:./old", "--pid", "theirs=7",
		"--workload", "get,put", "--connections", "2,8", "--items", "2000",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.specs) != 3 || s.specs[1].addr != "127.0.0.1:9000" || s.specs[1].pid != 7 || s.specs[2].binary != "./old" || s.specs[2].kind.name != "stator" {
		t.Errorf("targets are %+v", s.specs)
	}
	if len(s.workloads) != 2 || s.workloads[0].name != "get" || !slices.Equal(s.connections, []int{2, 8}) || !s.measured {
		t.Errorf("workloads %v over %v", s.workloads, s.connections)
	}
	if s, err := parseSettings([]string{"--cold"}, io.Discard); err != nil || s.measured || s.chosen || len(s.specs) != len(kinds)-5 { // without keys, TLS, throttling and the cache of DAX
		t.Errorf("with --cold alone: %+v, %v", s, err)
	}
}

func TestInvalidSettings(t *testing.T) {
	for _, args := range [][]string{
		{"put"},
		{"--target", "nobody"},
		{"--target", "a=https://127.0.0.1"},
		{"--target", "stator,stator"},
		{"--target", "dynalite:./binary"},
		{"--pid", "stator=1"},
		{"--workload", "sleep"},
		{"--connections", "0"},
		{"--connections", "20000"},
		{"--items", "2001"},
		{"--items", "100"},
		{"--grow", "2000,1000"},
		{"--slice", "0s"},
		{"--rounds", "0"},
	} {
		if s, err := parseSettings(args, io.Discard); err == nil {
			t.Errorf("%q gives %+v", args, s)
		}
	}
}
