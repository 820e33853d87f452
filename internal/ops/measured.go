package ops

import (
	"context"
	"time"

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
	s.DB.CountRequest(used.table, c.operation, time.Since(c.Arrived), returned)
}

// measurePlain records how long a successful request took that is not to the items of
// a table.
func (s *Service) measurePlain(ctx context.Context) {
	if c := carriedBy(ctx); c != nil && !c.Arrived.IsZero() {
		s.DB.CountRequest("", c.operation, time.Since(c.Arrived), -1)
	}
}

// countThrottled counts a request that was rejected because of a limit of throughput.
func (s *Service) countThrottled(ctx context.Context, t *db.Throttled) {
	if c := carriedBy(ctx); c != nil {
		s.DB.Meter().Series(meter.ID{Name: meter.ThrottledRequests, Table: t.Table, Operation: c.operation}).Add(1)
	}
}
