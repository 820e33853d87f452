//go:build !race

package dax

import (
	"slices"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// What a page costs does not grow with its items, as long as these have the same attributes
// and no number of more than 64 bits. (The race detector makes pools drop objects, so the test is not run
// with it.)
func TestReplyAllocations(t *testing.T) {
	c := newTestCatalog()
	it := itemOf(t, `{"id":{"S":"a"},"at":{"N":"1.5"},"s":{"S":"x"},"n":{"N":"-12.5"},"l":{"L":[{"N":"1"}]},"m":{"M":{"k":{"BOOL":true}}},"ss":{"SS":["a","b"]}}`)
	request := Request{In: &api.Query{TableName: "Orders"}}
	dst := make([]byte, 0, 1<<20)
	allocations := func(items int) float64 {
		reply := &api.PageReply{Items: slices.Repeat([]item.Item{it}, items)}
		return testing.AllocsPerRun(10, func() {
			if _, err := request.AppendReply(dst, c, reply); err != nil {
				t.Fatal(err)
			}
		})
	}
	if one, many := allocations(1), allocations(100); many > one {
		t.Errorf("a page of one item allocates %v times, one of a hundred %v times", one, many)
	}
}
