package ops

import (
	"context"
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// worded returns an error in the customer's words, if it is a limit of throughput that
// was exceeded.
func (s *Service) worded(ctx context.Context, err error) error {
	t, ok := errors.AsType[*db.Throttled](err)
	if !ok {
		return pastFault(err)
	}
	s.countThrottled(ctx, t)
	resource := s.tableARN(ctx, t.Table)
	if t.Index != "" {
		resource += "/index/" + t.Index
	}
	fault, reasons := throughputFault(t), []api.ThrottlingReason{{Reason: t.Reason(), Resource: resource}}
	fault.Detail = &api.ThroughputExceeded{ThrottlingReasons: reasons}
	if fault.Code == "ThrottlingException" { // it spells the member in another way
		fault.Detail = &api.Throttling{ThrottlingReasons: reasons}
	}
	return fault
}

// isThrottled reports whether a limit of throughput was exceeded.
func isThrottled(err error) bool {
	_, ok := errors.AsType[*db.Throttled](err)
	return ok
}

// throughputFaultOf returns the fault of an action that exceeds a limit, without what
// only the whole request reports, and other errors as they are.
func throughputFaultOf(err error) error {
	if t, ok := errors.AsType[*db.Throttled](err); ok {
		return throughputFault(t)
	}
	return err
}

// throughputFault returns the fault of a request that exceeds a limit.
func throughputFault(t *db.Throttled) *apierror.Error {
	switch {
	case t.Limit == throttle.OnDemandMax:
		return apierror.OnDemandMaxExceeded()
	case t.Limit == throttle.Account:
		return apierror.AccountExceeded()
	case t.OnDemand && t.Index != "" && t.Kind == throttle.Write:
		return apierror.OnDemandIndexExceeded()
	case t.OnDemand:
		return apierror.OnDemandExceeded()
	case t.Index != "":
		return apierror.ProvisionedIndexExceeded()
	}
	return apierror.ProvisionedExceeded()
}
