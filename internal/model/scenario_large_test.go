package model

import (
	"math/big"
	"strings"
	"testing"
)

// A query of many items is not simulated with all of them if a page shows only a few.
func TestScenarioOfAPageIsSmall(t *testing.T) {
	for _, c := range []struct {
		name, pattern string
		most, kept    int // items that are stored, and of these found in the page at most
	}{
		{"without a filter", "given: [chat], matches: 200000, page: 100", 101, 100},
		{"with a filter", "given: [chat], where: {kind: a}, matches: 50000, reads: 200000, page: 100", 800, 100},
		{"with a filter that keeps almost nothing", "given: [chat], where: {kind: a}, matches: 1, reads: 200000, page: 100", 800, 1},
		{"all pages", "given: [chat], where: {kind: a}, matches: 50, reads: 2000", 2000, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse("test", []byte(`model: 1
tables: {tab: {key: {partition: PK, sort: SK}}}
entities:
  msg: {keys: {PK: "CHAT#{chat}", SK: "M#{id}"}, attributes: {chat: {format: uuid}, id: {format: ulid}, kind: {values: [a, b]}}, count: 1000000}
patterns: [{name: all, query: msg, `+c.pattern+`, rate: 1/s}]
`))
			if err != nil {
				t.Fatal(err)
			}
			s, err := m.Scenario(m.Plan(m.Patterns[0]), Generator{}, 3)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Before) != c.most || s.Calls[0].Want.Count > c.kept {
				t.Errorf("%d items are stored, %d found", len(s.Before), s.Calls[0].Want.Count)
			}
			kept := 0
			for _, stored := range s.Before {
				if v, _ := stored.Item.Get("kind"); string(v.Bytes()) == "a" {
					kept++
				}
			}
			if c.name == "with a filter" && kept != 200 {
				t.Errorf("the filter keeps %d of %d items", kept, c.most)
			}
		})
	}
}

// The identifiers of the short way are those of the long one.
func TestAlignedIdentifiers(t *testing.T) {
	for shown := 1; shown <= ulid.length; shown++ {
		for _, ordinal := range []int{0, 1, 31, 32, 12345, 1 << 30} {
			text, ok := ulid.aligned(shown, ordinal)
			if ok != (shown >= 10) {
				t.Errorf("with %d digits the short way is used: %v", shown, ok)
			}
			if !ok {
				continue
			}
			id := new(big.Int).Lsh(big.NewInt(int64(epoch.Sub(ulid.since)/ulid.tick)+int64(ordinal)), ulid.random)
			want, base, digit := make([]byte, ulid.length), big.NewInt(32), new(big.Int)
			for i := len(want) - 1; i >= 0; i-- {
				id.DivMod(id, base, digit)
				want[i] = ulid.alphabet[digit.Int64()]
			}
			if text != string(want[:shown]) || strings.Trim(text, ulid.alphabet) != "" {
				t.Errorf("%d digits of %d are %s, want %s", shown, ordinal, text, want[:shown])
			}
		}
	}
	if _, ok := ksuid.aligned(ksuid.length, 1); ok {
		t.Error("the digits of a KSUID are not aligned with its time")
	}
}
