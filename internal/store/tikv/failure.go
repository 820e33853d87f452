package tikv

import (
	"context"
	"errors"
	"fmt"

	tikverr "github.com/tikv/client-go/v2/error"

	"github.com/stator-db/stator/internal/store"
)

// failure says what we were doing, and gives the client's error a meaning.
// Whatever we do not know is a cluster that cannot be used now.
func failure(doing string, err error) error {
	meaning := store.ErrUnavailable
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case tikverr.IsErrorUndetermined(err):
		meaning = store.ErrUnknownOutcome
	case lost(err):
		meaning = store.ErrConflict
	case errors.As(err, new(*tikverr.ErrTxnTooLarge)), errors.As(err, new(*tikverr.ErrEntryTooLarge)), errors.As(err, new(*tikverr.ErrKeyTooLarge)):
		meaning = store.ErrTooLarge
	case errors.Is(err, tikverr.ErrTiKVDiskFull):
		meaning = store.ErrFull
	}
	return fmt.Errorf("%s: %w: %w", doing, meaning, err)
}

// lost tells whether a transaction was not committed because of another, so
// that it may be tried again.
func lost(err error) bool {
	return tikverr.IsErrWriteConflict(err) || errors.As(err, new(*tikverr.ErrRetryable)) ||
		errors.As(err, new(*tikverr.ErrWriteConflictInLatch)) || errors.Is(err, errLapsed)
}
