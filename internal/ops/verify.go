package ops

import (
	"context"

	"github.com/stator-db/stator/internal/db/verify"
)

// Verify checks all stored data of a database that is in use, at a number of keys
// a second.
func (s *Service) Verify(ctx context.Context, rate int, progress func(table string, keys int64)) ([]verify.Report, error) {
	return s.DB.VerifyOnline(ctx, rate, progress)
}
