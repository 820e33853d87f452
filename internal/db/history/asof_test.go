package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
)

// The counted bytes of a key range cover the memory of its images, also when
// items have become smaller.
func TestMemoryOfShrunkItems(t *testing.T) {
	r := &keyRange{changed: make(map[string]*ItemChange), withAfter: true}
	large, small := make(item.Item, 300_000), make(item.Item, 10)
	for i := range 20 {
		key := fmt.Append(nil, i)
		r.add(key, change.Record{At: time.Unix(1, 0), After: large})
		r.add(key, change.Record{At: time.Unix(2, 0), Before: large, After: small})
	}
	held := 0
	for _, c := range r.changed {
		held += cap(c.Before) + cap(c.After)
	}
	if held > r.bytes || held > 20*1000 {
		t.Errorf("the images take %d bytes, and %d are counted", held, r.bytes)
	}
	r.halve()
	r.halve()
	left := 0
	for key, c := range r.changed {
		left += len(key) + len(c.Before) + cap(c.After) + changeOverhead
	}
	if left != r.bytes {
		t.Errorf("after halving %d bytes are counted, want %d", r.bytes, left)
	}
}
