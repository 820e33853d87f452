package history

import (
	"fmt"
	"testing"
)

// The memory of a key range is counted, and given back when the range is halved.
func TestKeyRangeBytes(t *testing.T) {
	r := &keyRange{changed: make(map[string]*changedItem)}
	for i := range 20 {
		key := fmt.Append(nil, "key", i)
		r.add(key, logPosition{stamp: 1, n: i})
		r.add(key, logPosition{stamp: 2, n: i})
	}
	counted := func() (sum int) {
		for key := range r.changed {
			sum += len(key) + itemOverhead
		}
		return sum
	}
	if len(r.changed) != 20 || r.bytes != counted() {
		t.Errorf("%d items are counted with %d bytes, want 20 with %d", len(r.changed), r.bytes, counted())
	}
	if c := r.changed["key7"]; c.first != (logPosition{1, 7}) || c.last != (logPosition{2, 7}) {
		t.Errorf("the changes of an item are at %v", c)
	}
	r.halve()
	r.halve()
	if len(r.changed) != 5 || r.bytes != counted() {
		t.Errorf("after halving twice %d items are counted with %d bytes, want 5 with %d", len(r.changed), r.bytes, counted())
	}
	for key := range r.changed {
		if key >= string(r.end) {
			t.Errorf("key %s is not below the end of the range, %s", key, r.end)
		}
	}
}
