package model

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A constant that is no text has its value in the request that is shown.
func TestRequestShowsExactConstants(t *testing.T) {
	text, err := os.ReadFile("testdata/faults/filter-bool.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse("x", text)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Check(DefaultPrices()).Patterns {
		if p.Name != "archived notes" {
			continue
		}
		body, err := json.Marshal(p.Request[0].Body)
		if err != nil || !strings.Contains(string(body), `":archived":{"BOOL":true}`) {
			t.Errorf("the request is %s, %v", body, err)
		}
	}
}
