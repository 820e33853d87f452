package ops

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/meter"
)

// measure records how long a successful request to a table took, and what it returned.
func (s *Service) measure(c *Caller, used *usage) {
	if c.Arrived.IsZero() {
		return
	}
	returned := -1
	switch c.operation {
	case "Query", "Scan", "ExecuteStatement":
		returned = used.returned
	}
	s.DB.CountRequest(&c.bill, used.table, c.operation, time.Since(c.Arrived), returned)
}

// measurePlain records how long a successful request took that is not to the items of
// a table.
func (s *Service) measurePlain(ctx context.Context) {
	if c := carriedBy(ctx); c != nil && !c.Arrived.IsZero() {
		s.DB.CountRequest(&c.bill, "", c.operation, time.Since(c.Arrived), -1)
	}
}

// countThrottled counts a request that was rejected because of a limit of throughput.
func (s *Service) countThrottled(ctx context.Context, t *db.Throttled) {
	if c := carriedBy(ctx); c != nil {
		s.DB.Meter().Series(meter.ID{Name: meter.ThrottledRequests, Table: t.Table, Operation: c.operation}).Add(1)
	}
}

// IsThrottled reports whether a request was rejected because of a limit of throughput of
// a table, wholly or in part.
func IsThrottled(fault *apierror.Error) bool {
	return apierror.IsThrottling(fault) && fault.Detail != nil || isThrottled(fault.Cause)
}

// countCancelled counts a transaction that was cancelled because of a limit of
// throughput.
func (s *Service) countCancelled(ctx context.Context, err error) {
	if fault, ok := errors.AsType[*apierror.Error](err); ok {
		if t, ok := errors.AsType[*db.Throttled](fault.Cause); ok {
			s.countThrottled(ctx, t)
		}
	}
}

// CountSystemError counts a request that could not be executed, once for each of its
// tables, as on CloudWatch.
func (s *Service) CountSystemError(operation string, r Request) {
	tables := slices.DeleteFunc(s.Tables(r, maxStatements), func(name string) bool { return !s.exists(name) })
	if len(tables) == 0 {
		tables = []string{""}
	}
	for _, table := range tables {
		s.DB.Meter().Series(meter.ID{Name: meter.SystemErrors, Table: table, Operation: operation}).Add(1)
	}
}
