//go:build !race

package wire

import (
	"testing"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// A request allocates its struct, one arena for its items and values, its
// maps and its optional members. A reply allocates nothing.
func TestAllocations(t *testing.T) {
	var put api.PutItem
	if err := Decode(benchedPut, &put); err != nil {
		t.Fatal(err)
	}
	page := &api.PageReply{Count: 2, ScannedCount: 2, Items: []item.Item{put.Item.Item, put.Item.Item}, LastEvaluatedKey: put.Item.Item}
	get := &api.GetItemReply{Item: put.Item.Item}
	out := make([]byte, 0, 64<<10)
	var m buffer.Scratch
	for _, c := range []struct {
		name string
		most float64
		do   func() error
	}{
		{"read a PutItem", 3, func() error { return Decode(benchedPut, new(api.PutItem)) }},
		{"read a GetItem", 3, func() error { return Decode(benchedGet, new(api.GetItem)) }},
		{"read a Query", 9, func() error { return Decode(benchedQuery, new(api.Query)) }},
		{"write a GetItemReply", 0, func() error { AppendReply(out, get); return nil }},
		{"write a PageReply", 0, func() error { AppendReply(out, page); return nil }},
		{"write a Page", 0, func() error {
			p := NewPage(&m)
			p.Add(put.Item.Item)
			p.Reply(page)
			m.End()
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := testing.AllocsPerRun(100, func() {
				if err := c.do(); err != nil {
					t.Fatal(err)
				}
			})
			if got > c.most {
				t.Errorf("it allocates %v times, at most %v is allowed", got, c.most)
			}
			t.Logf("%v of %v", got, c.most)
		})
	}
}
