package main

import (
	"encoding/json"
	"testing"
)

// All bodies are JSON, and two generators with the same seed compose the same.
func TestBodies(t *testing.T) {
	c := newDataset(2000, 0)
	for _, w := range workloads {
		j := job{Workload: w.name, Connections: 4, Seed: 9}
		a, b := newGenerator(c, j, 1), newGenerator(c, j, 1)
		for range 50 {
			w.compose(a)
			w.compose(b)
			if !json.Valid(a.body) {
				t.Fatalf("%s: the body is not JSON: %s", w.name, a.body)
			}
			if a.operation != b.operation || string(a.body) != string(b.body) {
				t.Fatalf("%s: the same seed composes %s and %s", w.name, a.body, b.body)
			}
		}
	}
}

// No two connections' transactions share an item, and none has one twice.
func TestTransactionsDoNotMeet(t *testing.T) {
	for _, connections := range []int{1, 3, 64} {
		c := newDataset(1000, 0)
		owner := map[int]int{}
		for n := range connections {
			g := newGenerator(c, job{Connections: connections, Seed: 1}, n)
			for range 200 {
				mine := map[int]bool{}
				for _, i := range g.own() {
					if i < 0 || i >= c.items || mine[i] {
						t.Fatalf("%d connections: item %d of %d, twice: %v", connections, i, c.items, mine[i])
					}
					mine[i] = true
					if other, taken := owner[i]; taken && other != n {
						t.Fatalf("%d connections: item %d belongs to %d and %d", connections, i, other, n)
					}
					owner[i] = n
				}
			}
		}
	}
}

func TestPages(t *testing.T) {
	for _, c := range []struct {
		name, page, key string
		items           int
	}{
		{"the last", `{"Items":[],"Count":0,"ScannedCount":12}`, "", 0},
		{"counts first", `{"ScannedCount":13,"Count":12,"LastEvaluatedKey":{"pk":{"S":"p"},"sk":{"S":"s"}}}`, `{"pk":{"S":"p"},"sk":{"S":"s"}}`, 12},
		{"with spaces", `{"LastEvaluatedKey": {"pk": {"S": "p"}}, "Count": 7, "Items": []}`, `{"pk": {"S": "p"}}`, 7},
		{"without a key", `{"Count":7,"LastEvaluatedKey":null}`, "", 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			if n, err := count([]byte(c.page)); err != nil || n != c.items {
				t.Errorf("%d items, %v", n, err)
			}
			if key := lastKey([]byte(c.page)); string(key) != c.key {
				t.Errorf("the last key is %s", key)
			}
		})
	}
}

func TestUnprocessed(t *testing.T) {
	for reply, whole := range map[string]bool{
		`{"UnprocessedItems":{}}`:                true,
		`{"UnprocessedItems" : { } }`:            true,
		`{}`:                                     true,
		`{"UnprocessedItems":{"t":[{"a":"b"}]}}`: false,
	} {
		if _, err := wroteBatch(nil, []byte(reply)); (err == nil) != whole {
			t.Errorf("%s: %v", reply, err)
		}
	}
}
