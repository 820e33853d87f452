// Package store is an ordered map of bytes that survives a crash.
//
// It knows nothing of tables or items. Package storetest tests each implementation of
// Engine.
package store

import (
	"context"
	"iter"
	"time"

	"github.com/stator-db/stator/internal/metrics"
)

// Engine stores pairs of key and value in the order of the keys' bytes. All methods are
// safe for concurrent use.
//
// A crash loses nothing that a caller was shown: no value from Get, ReadRange or a Snapshot,
// and no value that an Update read which then returned fn's error or wrote nothing. The
// absence of a key counts as shown, too.
//
// A key has at least one byte, and its first byte is not Reserved; any other key is a
// programming error and panics.
type Engine interface {
	// Get reads the latest committed value of each key, nil for an absent key. The
	// values must not be changed, and may be kept. They are read one by one: an Update
	// of several keys can be seen in part. A strong Get reflects every Update that
	// returned before it began.
	Get(ctx context.Context, c Consistency, keys ...[]byte) ([][]byte, error)

	// Snapshot returns a view that contains each Update completely or not at all. It
	// reflects every Update that returned before Snapshot was called. It holds resources
	// until it is closed, and is meant to live for minutes.
	Snapshot(ctx context.Context) (Snapshot, error)

	// ReadRange calls fn with the pairs of a range in order, until fn returns false. All
	// pairs are of one moment, which contains each Update completely or not at all, and
	// reflects every Update that returned before ReadRange was called. The pairs may not
	// be durable yet: the caller shows none of them, nor that one is absent, before
	// ReadRange has returned nil. fn may use the engine.
	//
	// It is a Snapshot and its Scan in one, where that is cheaper.
	ReadRange(ctx context.Context, r Range, fn func(Pair) (more bool)) error

	// Update runs fn and commits all its writes, or none. Updates of the same declared
	// keys are serialised. When Update returns nil, the writes are durable and visible.
	//
	// fn may run more than once, so it must be pure: it keeps no state, sends nothing and
	// does not wait. Its error is returned unchanged, and nothing is committed. Nothing is
	// committed either if fn writes nothing.
	//
	// fn may write keys that are not declared, but cannot read them. Two Updates must not
	// write the same undeclared key concurrently: it should belong to a declared key, for
	// example by containing it.
	Update(ctx context.Context, keys [][]byte, fn func(Tx) error) error

	// Horizon returns a stamp such that no Update with a smaller stamp can still commit.
	// All commits with smaller stamps are durable and visible. The horizon never
	// decreases, not even after a crash.
	Horizon(ctx context.Context) (Stamp, error)

	// DeleteRange deletes the keys of [start, end), which are bounds as in Range. It is
	// for dropped tables and for trimming: it is durable when it returns, but concurrent
	// readers and Updates may see a part of it, and a crash before it returns may leave
	// it done in part.
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

	// Leads reports whether this process is the leader, which does the work that only one
	// process should do. It may change at any time, and for a while there may be no
	// leader.
	Leads() bool

	// Healthy returns an error if the engine has found that it can no longer store data.
	// It reads nothing. A full disk is no error: reads are served.
	Healthy(ctx context.Context) error

	// Limits returns the limits above which Update fails with ErrTooLarge.
	Limits() Limits

	// Close waits for the calls in progress and releases all resources. Later calls, and
	// those of snapshots that are still open, return ErrClosed; Close itself may be
	// called again.
	Close() error
}

// MetricsReporter is an Engine that has metrics.
type MetricsReporter interface {
	// Metrics returns the state of the engine. It reads no data.
	Metrics() []metrics.Metric
}

// WritableReporter is an Engine that may reject all writes for a while.
type WritableReporter interface {
	// Writable returns the error with which writes are rejected at present, such as
	// ErrFull; nil if they are not. It reads and writes nothing.
	Writable() error
}

// DamageReporter is an Engine that reports damaged data.
type DamageReporter interface {
	// Damage returns what was found since the engine was opened. It reads nothing.
	Damage() Damage
}

// BranchReporter is an Engine whose data may have begun as a copy of that of another engine.
type BranchReporter interface {
	// Branch returns an id that the data has since it became independent of what it was
	// copied from; empty if it has always been.
	Branch() (string, error)
}

// Damage counts what was found of damaged data.
type Damage struct {
	Files       int // in which damaged data was found
	Compactions int // that failed because of it
}

// Tx reads and writes within an Update. It is valid until fn returns, in the goroutine that
// fn runs in.
type Tx interface {
	// Get reads a declared key, including the writes of fn so far. It panics for other
	// keys. The value must not be changed, and may be kept unless fn set it.
	Get(key []byte) (value []byte, ok bool)

	// Set writes a key. An empty value panics, as not every engine can store one. The
	// caller must not change key and value until Update returns.
	Set(key, value []byte)

	// Delete removes a key, whether or not it exists.
	Delete(key []byte)

	// Stamp returns the stamp that the commit will have.
	Stamp() Stamp
}

// Snapshot is a consistent view. It is safe for concurrent use.
type Snapshot interface {
	// Get reads the value of each key, nil for an absent key. The values must not be
	// changed, and may be kept.
	Get(ctx context.Context, keys ...[]byte) ([][]byte, error)

	// Scan iterates over a range. An error ends the iteration, with a zero Pair.
	Scan(ctx context.Context, r Range) iter.Seq2[Pair, error]

	// Close releases the view. It may be called again.
	Close() error
}

// Stamp orders commits: of two that share a declared key, the later has the larger stamp,
// across restarts and crashes too. Stamps are unique. No commit has the stamp zero.
//
// A stamp is a time in milliseconds and a counter in its lower bits: the stamp of a commit is
// at least StampAt of the time at which it begins, by the engine's clock. It may be larger,
// as stamps run ahead of the clock when the counter overflows or the clock steps back. An
// engine on many machines has a clock of its own.
type Stamp uint64

// StampCounterBits is how many of a stamp's lower bits are the counter.
const StampCounterBits = 18

// StampAt returns the smallest stamp that a commit which begins at t can have.
func StampAt(t time.Time) Stamp { return Stamp(max(0, t.UnixMilli()) << StampCounterBits) }

// Time returns about when the commit began.
func (s Stamp) Time() time.Time { return time.UnixMilli(int64(s >> StampCounterBits)).UTC() }

// Consistency is how new the values of a Get must be.
type Consistency int

const (
	// Strong reflects every Update that returned before the Get began.
	Strong Consistency = iota
	// Recent may return slightly older values, where that is cheaper.
	Recent
)

// Range is the keys of [Start, End). An empty Start is before the first key, an empty End
// after the last.
type Range struct {
	Start, End []byte
	Reverse    bool // from the last key to the first
	KeysOnly   bool // omit the values
}

// Pair is one step of a Scan or a ReadRange. Its bytes are valid until the next step:
// the caller copies what it keeps.
type Pair struct {
	Key, Value []byte
}

// Limits are the largest sizes that an engine accepts.
type Limits struct {
	MaxKeyBytes    int // of one key
	MaxValueBytes  int // of one value
	MaxUpdateBytes int // of all keys and values that an Update writes, approximately
	MaxUpdateKeys  int // that an Update declares, and that it writes
}

// Checker is an Engine that can check its own records and files.
type Checker interface {
	// Check reads everything that the engine has stored, and returns an error if a
	// part of it is damaged.
	Check(ctx context.Context) error
}

// SharedClock is an Engine on many machines, whose stamps come from a clock of its own.
type SharedClock interface {
	// SharedTime returns the time of that clock.
	SharedTime() time.Time
}

// Fleet is an Engine that several processes share. A process attends a group to get the
// messages that others Announce to it.
type Fleet interface {
	// Attend adds this process to a group, and returns when Attended reports that to every
	// other process, and will to those that start later. A process whose handler is called
	// with nil has to attend again. Messages arrive within milliseconds if prompt, and within
	// a heartbeat otherwise.
	Attend(ctx context.Context, group string, prompt bool) error

	// Attended reports whether another process attends a group. If not, then a process that
	// does so later sees all Updates that have returned before the call.
	Attended(group string) bool

	// Announce is a Broadcast that waits for the processes that attend a group only.
	Announce(ctx context.Context, group string, message []byte) error

	// Post is a Broadcast that does not wait for any process.
	Post(ctx context.Context, message []byte) error

	// Leased reports whether this process may show what it has read: while it does, no
	// Broadcast and no Announce has skipped it.
	Leased() bool

	// OnLoss sets a function that is called when a process was found dead: what it has
	// committed before, it may not have announced. It is called once, before any Attend.
	OnLoss(lost func())
}

// Reserved is the first byte of the keys that engines use themselves.
const Reserved = 0xff
