package store

import (
	"errors"
	"fmt"
)

// The errors of an engine. Returned errors wrap one of these, or that of the context.
var (
	// ErrConflict is returned when an Update conflicted with others too often and was
	// not committed. It can be retried.
	ErrConflict = errors.New("conflict with another update")

	// ErrUnknownOutcome is returned when an Update may or may not have committed.
	ErrUnknownOutcome = errors.New("outcome of the update is unknown")

	// ErrTooLarge is returned when an Update exceeds the Limits.
	ErrTooLarge = errors.New("update is too large")

	// ErrUnavailable is returned when the engine cannot be reached now. The call can be
	// retried.
	ErrUnavailable = errors.New("storage is unavailable")

	// ErrFull is returned when an Update was rejected because the disk is almost full.
	// Reads are served, and Updates that free space, see Freeing. It can be retried once
	// there is space.
	ErrFull = errors.New("disk is full")

	// ErrNoSpaceToDelete is the ErrFull of a disk without the space that Updates need that free
	// space: they are rejected too.
	ErrNoSpaceToDelete = fmt.Errorf("%w, also for deletes", ErrFull)

	// ErrBehind is returned when an Update was rejected because the engine is behind with
	// flushes or compactions. It can be retried after a pause.
	ErrBehind = errors.New("storage is behind with its background work")

	// ErrRemoved is returned when an Update was rejected because the data was removed or
	// replaced while it is open.
	ErrRemoved = errors.New("the data folder was removed or replaced")

	// ErrCorrupt is returned when stored bytes are damaged. Other keys may be intact.
	ErrCorrupt = errors.New("stored data is corrupt")

	// ErrClosed is returned when the engine or the snapshot was closed.
	ErrClosed = errors.New("storage is closed")
)
