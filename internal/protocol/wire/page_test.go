package wire

import (
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// A page that is encoded item by item equals the encoded reply.
func TestPage(t *testing.T) {
	one := item.Make(map[string]item.Value{"id": item.String("1")})
	large := item.Make(map[string]item.Value{"id": item.String("2"), "text": item.String(strings.Repeat("large\n", 50_000))})
	units := &api.ConsumedCapacity{TableName: strings.Repeat("t", 255), CapacityUnits: 0.5}
	var many []item.Item
	for range 2000 {
		many = append(many, one)
	}
	var m buffer.Scratch
	for name, reply := range map[string]api.PageReply{
		"no items":                  {Items: []item.Item{}},
		"only counted":              {Count: 3, ScannedCount: 4},
		"one item":                  {Count: 1, ScannedCount: 1, Items: []item.Item{one}},
		"units before the items":    {Count: 2, ScannedCount: 2, Items: []item.Item{one, large}, ConsumedCapacity: units},
		"units before no items":     {Items: []item.Item{}, ConsumedCapacity: units},
		"a key after them":          {Count: 1, ScannedCount: 9, Items: []item.Item{one}, LastEvaluatedKey: one},
		"a key like the member":     {Count: 1, Items: []item.Item{one}, LastEvaluatedKey: item.Make(map[string]item.Value{"Items": item.String(`"Items":[]`)})},
		"many items":                {Count: len(many), ScannedCount: len(many), Items: many},
		"megabytes":                 {Count: 9, Items: []item.Item{large, large, large, large, large, large, large, large, large}},
		"only counted, with a key":  {Count: 3, ScannedCount: 4, LastEvaluatedKey: one},
		"only counted, like a list": {LastEvaluatedKey: item.Make(map[string]item.Value{"k": item.String(`"Items":[`)})},
	} {
		t.Run(name, func(t *testing.T) {
			want := string(AppendReply(nil, &reply))
			p := NewPage(&m)
			for _, it := range reply.Items {
				p.Add(it)
			}
			if reply.Items != nil {
				reply.Items = []item.Item{}
			}
			if got := string(p.Reply(&reply)); got != want {
				t.Errorf("the page is\n%.500s\nwant\n%.500s", got, want)
			}
			m.End()
		})
	}
}
