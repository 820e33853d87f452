package store

import "errors"

// What can go wrong in an engine. Errors wrap one of these, or that of the
// context.
var (
	// ErrConflict tells that an Update lost against others too often and was
	// not committed. It can be tried again.
	ErrConflict = errors.New("conflict with another update")

	// ErrUnknownOutcome tells that an Update may or may not have committed.
	ErrUnknownOutcome = errors.New("outcome of the update is unknown")

	// ErrTooLarge tells that an Update exceeds the Limits.
	ErrTooLarge = errors.New("update is too large")

	// ErrUnavailable tells that the engine cannot be reached now. It can be
	// tried again.
	ErrUnavailable = errors.New("storage is unavailable")

	// ErrFull tells that an Update was refused because the disk is almost
	// full. Reads go on. It can be tried again once there is space.
	ErrFull = errors.New("disk is full")

	// ErrCorrupt tells that stored bytes are damaged. Other keys may be well.
	ErrCorrupt = errors.New("stored data is corrupt")

	// ErrClosed tells that the engine, or the snapshot, was closed before.
	ErrClosed = errors.New("storage is closed")
)
