// Package store is an ordered map of bytes that survives a crash.
//
// It knows nothing of tables or items. Whoever implements Engine is checked
// by package storetest.
package store

import (
	"context"
	"iter"
	"time"
)

// Engine keeps pairs of key and value in the order of their keys' bytes.
// All methods may be called at once from many goroutines.
//
// Nothing that a caller was shown can be taken back by a crash: not a value
// from Get or a Snapshot, and not what an Update saw that then returned fn's
// error or wrote nothing. To show something includes to show its absence.
//
// A key has at least one byte, and its first byte is not Reserved; anything
// else is a programming error and panics.
type Engine interface {
	// Get reads the latest committed value of each key, nil where there is
	// none. The values must not be changed, and may be kept. They are read one
	// by one: an Update of several keys can be seen in part. A strong Get reflects every
	// Update that returned before it began.
	Get(ctx context.Context, c Consistency, keys ...[]byte) ([][]byte, error)

	// Snapshot is a view in which every Update is there whole or not at all.
	// It reflects every Update that returned before Snapshot was called. It
	// holds resources until it is closed, and is meant to live for minutes.
	Snapshot(ctx context.Context) (Snapshot, error)

	// ReadRange calls fn with the pairs of a range in their order, until fn returns
	// false. All pairs are of one moment, in which every Update is there whole or not
	// at all, and which reflects every Update that returned before ReadRange was
	// called. The pairs may not be durable yet: the caller shows none of them, nor
	// that one is absent, before ReadRange has returned nil. fn may use the engine.
	//
	// It is a Snapshot and its Scan in one, where that is cheaper.
	ReadRange(ctx context.Context, r Range, fn func(Pair) (more bool)) error

	// Update runs fn and commits all that it wrote, or nothing. It happens as
	// if no other Update of the declared keys took place at the same time. When
	// it returns without an error, what it wrote is durable and visible.
	//
	// fn may run more than once, so it must be pure: no state kept, nothing
	// sent, no waiting. An error that it returns is returned unchanged, and
	// nothing is committed. When it writes nothing, nothing is committed.
	//
	// fn may write keys that are not declared, but cannot read them. Two
	// Updates must not write the same undeclared key at once: it should
	// belong to a declared one, for example by containing it.
	Update(ctx context.Context, keys [][]byte, fn func(Tx) error) error

	// Horizon is a stamp such that no Update with a smaller one can still
	// commit. What was committed with a smaller one is durable and visible. It
	// never goes back, not even over a crash.
	Horizon(ctx context.Context) (Stamp, error)

	// DeleteRange deletes the keys of [start, end), which are bounds as in
	// Range. It is for dropped tables and for trimming: it is durable when it
	// returns, but readers and Updates at the same time may see a part of it,
	// and a crash before it returns may leave a part of it undone.
	DeleteRange(ctx context.Context, start, end []byte) error

	// Subscribe sets the handler of this process for the messages of Broadcast.
	// It is called once, before any Broadcast.
	Subscribe(handle func(ctx context.Context, message []byte) error)

	// Broadcast delivers a message to every process that has the same data open,
	// this one included, and returns when all of them have handled it. Messages
	// may be handled concurrently, and more than once. A process that does not
	// answer is skipped, but only when it is certain that none of its Updates can
	// still commit, and that it serves no reads before its handler was called
	// with nil, which means that any message may have been missed.
	Broadcast(ctx context.Context, message []byte) error

	// Leads tells whether this process does the work that only one of them
	// should. It may change at any time, and for a moment none may lead.
	Leads() bool

	// Limits tells what Update refuses with ErrTooLarge.
	Limits() Limits

	// Close waits for the calls in progress and releases what the engine
	// holds. Later calls, and those of snapshots still open, give ErrClosed;
	// Close itself may be called again.
	Close() error
}

// Tx is what a running Update can do. It is valid until fn returns, and it is
// for the goroutine that fn runs in.
type Tx interface {
	// Get reads a declared key as of this Update, with what fn itself has
	// written so far. For other keys it panics. The value must not be changed,
	// and may be kept unless fn set it.
	Get(key []byte) (value []byte, ok bool)

	// Set writes a key. An empty value panics, as not every engine can keep
	// one. The caller leaves key and value unchanged until Update returns.
	Set(key, value []byte)

	// Delete removes a key, whether or not it is there.
	Delete(key []byte)

	// Stamp is the stamp that the commit will have.
	Stamp() Stamp
}

// Snapshot is one consistent view. It may be used by many goroutines at once.
type Snapshot interface {
	// Get reads the value of each key, nil where there is none. The values
	// must not be changed, and may be kept.
	Get(ctx context.Context, keys ...[]byte) ([][]byte, error)

	// Scan goes through a range. An error ends the iteration and comes with
	// a zero Pair.
	Scan(ctx context.Context, r Range) iter.Seq2[Pair, error]

	// Close releases the view. It may be called again.
	Close() error
}

// Stamp orders commits: of two that share a declared key, the later has the
// larger stamp, over restarts and crashes too. No two commits have the same.
// Zero is no commit's stamp.
//
// A stamp is a time in milliseconds and a counter below it: a commit that
// begins at a time of the engine's clock has no smaller stamp than StampAt of
// it. It may have a larger one, when stamps run ahead of the clock. The clock
// of an engine on many machines is its own.
type Stamp uint64

// StampCounterBits is how many of a stamp's lower bits are the counter.
const StampCounterBits = 18

// StampAt is the smallest stamp that a commit which begins at t can have.
func StampAt(t time.Time) Stamp { return Stamp(max(0, t.UnixMilli()) << StampCounterBits) }

// Time is about when a commit began.
func (s Stamp) Time() time.Time { return time.UnixMilli(int64(s >> StampCounterBits)).UTC() }

// Consistency says how new the values of a Get must be.
type Consistency int

const (
	// Strong reflects every Update that returned before the Get began.
	Strong Consistency = iota
	// Recent may be a little older, where that is cheaper.
	Recent
)

// Range is the keys of [Start, End). An empty Start is the first key; an empty
// End is after the last.
type Range struct {
	Start, End []byte
	Reverse    bool // from the last key to the first
	KeysOnly   bool // leave the values out
}

// Pair is one step of a Scan or a ReadRange. Its bytes are valid until the next step:
// the caller copies what it keeps.
type Pair struct {
	Key, Value []byte
}

// Limits are the sizes that an engine takes.
type Limits struct {
	MaxKeyBytes    int // of one key
	MaxValueBytes  int // of one value
	MaxUpdateBytes int // of all keys and values that an Update writes, about
	MaxUpdateKeys  int // that an Update declares, and that it writes
}

// Reserved is the first byte of the keys that engines keep for themselves.
const Reserved = 0xff
