package tikv

import (
	"context"
	"errors"
	"fmt"

	tikverr "github.com/tikv/client-go/v2/error"

	"github.com/stator-db/stator/internal/store"
)

// failure wraps an error of the client with the operation, and with the error of package
// store that it means. An unknown error is ErrUnavailable.
func failure(doing string, err error) error {
	meaning := store.ErrUnavailable
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case tikverr.IsErrorUndetermined(err):
		meaning = store.ErrUnknownOutcome
	case isConflict(err):
		meaning = store.ErrConflict
	case errors.As(err, new(*tikverr.ErrTxnTooLarge)), errors.As(err, new(*tikverr.ErrEntryTooLarge)), errors.As(err, new(*tikverr.ErrKeyTooLarge)):
		meaning = store.ErrTooLarge
	case errors.Is(err, tikverr.ErrTiKVDiskFull):
		meaning = store.ErrFull
	}
	return fmt.Errorf("%s: %w: %w", doing, meaning, err)
}

// isConflict reports whether a transaction was not committed because of another one, or
// because its lease expired, so that it can be retried.
func isConflict(err error) bool {
	return tikverr.IsErrWriteConflict(err) || errors.As(err, new(*tikverr.ErrRetryable)) ||
		errors.As(err, new(*tikverr.ErrWriteConflictInLatch)) || errors.Is(err, errLapsed)
}
