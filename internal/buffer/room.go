package buffer

import (
	"context"
	"errors"
)

// Room is the memory that one request may use. Requests reserve only what they need
// beyond Small.
type Room interface {
	// Reserve reports false if the memory is not free. The request then ends with
	// ErrNoRoom, and is repeated when it is.
	Reserve(bytes int) bool
	// Force is Reserve for a request that cannot be repeated.
	Force(bytes int)
	// Return ends a reservation of memory that the reply does not need. Later
	// reservations of the request use that memory first.
	Return(bytes int)
	// Free ends a reservation of memory that the request does not need at all.
	Free(bytes int)
	// Commit makes Reserve like Force: the request has had an effect, and cannot be
	// repeated.
	Commit()
}

// ErrNoRoom is returned by a request for which Reserve has reported false. It has
// had no effect, and can be repeated.
var ErrNoRoom = errors.New("the memory for large requests is in use")

// RoomKey is the key of a Room in a context.
type RoomKey struct{}

// RoomOf returns the Room of a request, or nil, which has no bound.
func RoomOf(ctx context.Context) Room {
	r, _ := ctx.Value(RoomKey{}).(Room)
	return r
}

// Commit calls Commit of the Room of a request, if it has one.
func Commit(ctx context.Context) {
	if r := RoomOf(ctx); r != nil {
		r.Commit()
	}
}

// Tally reserves room for the values that a request reads, once they are not small in
// total. A nil *Tally reserves nothing.
type Tally struct {
	room     Room // nil has no bound
	expected int  // number of values
	limit    int  // of their bytes in total

	values   int // that were read
	bytes    int // of them
	reserved int
	ahead    int // values that were read at once
}

// TallyOf returns a tally of a request that reads up to this many values, whose size
// is limited in total.
func TallyOf(ctx context.Context, values, limit int) Tally {
	return Tally{room: RoomOf(ctx), expected: values, limit: limit}
}

// Ahead reserves room for values that are read at once, each of up to size bytes, and
// returns how many to read: n, or fewer if there is no room. One value is always read.
func (t *Tally) Ahead(n, size int) int {
	if t == nil || t.room == nil {
		return n
	}
	if t.ahead > 0 {
		n = min(n, 2*t.ahead)
	}
	for ; n > 1; n /= 2 {
		if t.room.Reserve(n * size) {
			t.reserved += n * size
			break
		}
	}
	t.ahead = n
	return n
}

// Add counts values that were read, and ends the reservation of Ahead. It reports false
// if there is no room for them.
func (t *Tally) Add(values, bytes int) bool {
	if t == nil || t.room == nil {
		return true
	}
	t.values += values
	t.bytes += bytes
	needed := t.bytes
	if needed <= Small {
		needed = 0
	}
	if needed < t.reserved {
		t.room.Free(t.reserved - needed)
		t.reserved = needed
	}
	return t.reserve(needed) || t.reserve(max(needed, t.estimate())) // so that the repeated request has room for all
}

// reserve reserves room for this many bytes in total.
func (t *Tally) reserve(bytes int) bool {
	if bytes > t.reserved {
		if !t.room.Reserve(bytes - t.reserved) {
			return false
		}
		t.reserved = bytes
	}
	return true
}

// estimate is about the memory of all values.
func (t *Tally) estimate() int {
	return min(t.limit, t.bytes*max(t.expected, t.values)/t.values)
}
