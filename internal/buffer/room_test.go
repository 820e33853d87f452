package buffer

import (
	"context"
	"slices"
	"testing"
)

// limitedRoom has a limit, and records the last reservation that failed.
type limitedRoom struct{ limit, used, failed int }

func (r *limitedRoom) Reserve(bytes int) bool {
	if r.used+bytes > r.limit {
		r.failed = r.used + bytes
		return false
	}
	r.used += bytes
	return true
}

func (r *limitedRoom) Force(bytes int)  { r.used += bytes }
func (r *limitedRoom) Return(bytes int) { r.used -= bytes }
func (r *limitedRoom) Free(bytes int)   { r.used -= bytes }
func (r *limitedRoom) Commit()          { r.limit = 1 << 40 }

// A tally reserves room for values before they are read at once, and keeps that of
// large ones. Small values need no room, and are read one by one if there is none.
func TestTally(t *testing.T) {
	const size = 10 * Small
	for _, c := range []struct {
		name         string
		limit, bytes int   // of the room, and of each value
		reads        []int // of up to 20 values
		used         int
		ok           bool
	}{
		{"small values", 30 * size, 10, []int{20}, 0, true},
		{"small values, little room", 6 * size, 10, []int{5, 5, 5, 5}, 0, true},
		{"small values, no room", 0, 10, slices.Repeat([]int{1}, 20), 0, true},
		{"large values", 30 * size, size, []int{20}, 20 * size, true},
		{"large values, little room", 6 * size, size, []int{5, 1, 1}, 6 * size, false},
		{"large values, no room", 0, size, []int{1}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			room := &limitedRoom{limit: c.limit}
			tally := TallyOf(context.WithValue(t.Context(), RoomKey{}, Room(room)), 20, 15*size)
			ok := true
			var reads []int
			for left := 20; left > 0 && ok; left -= reads[len(reads)-1] {
				n := tally.Ahead(left, size)
				if n > 1 && room.used < n*size {
					t.Errorf("%d values are read with room for %d bytes", n, room.used)
				}
				reads, ok = append(reads, n), tally.Add(n, n*c.bytes)
			}
			if ok != c.ok || room.used != c.used || !slices.Equal(reads, c.reads) {
				t.Errorf("reads of %v values reserve %d (%v), want %v, %d (%v)", reads, room.used, ok, c.reads, c.used, c.ok)
			}
			if !ok && room.failed != 15*size {
				t.Errorf("the repeated request gets room for %d bytes", room.failed)
			}
		})
	}
}
