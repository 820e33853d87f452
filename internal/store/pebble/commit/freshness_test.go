package commit

import (
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store"
)

// The freshness of a follower is the time of the newest observation whose Updates it has.
func TestFreshness(t *testing.T) {
	begin := time.Unix(1000, 0)
	f := FreshSince(begin)
	for i, c := range []struct {
		newest, has store.Stamp
		known       int // seconds after begin
	}{
		1:  {10, 8, 0},  // 8 and 9 are missing
		2:  {14, 9, 0},  // 9 is missing still
		3:  {20, 10, 1}, // all of the first observation
		4:  {30, 15, 1}, // the second was not kept: 20 is the goal
		5:  {40, 25, 3}, // all of the third
		6:  {50, 50, 6}, // all
		7:  {60, 55, 6}, // some
		8:  {60, 60, 8}, // all of this one
		9:  {70, 60, 8}, // some
		10: {90, 75, 9}, // all of the last
	} {
		if i == 0 {
			continue
		}
		f.Observe(begin.Add(time.Duration(i)*time.Second), c.newest, c.has)
		if got := int(f.Known().Sub(begin).Seconds()); got != c.known {
			t.Errorf("observation %d: it has everything of second %d, want %d", i, got, c.known)
		}
	}
}
