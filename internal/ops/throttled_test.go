package ops

import (
	"errors"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// The account's quota has an exception of its own; in a transaction it is one of the documented
// reasons. Package throttle decides when it is exceeded.
func TestAccountLimit(t *testing.T) {
	tt := newTableTest(t, 0)
	exceeded := &db.Throttled{Table: "Tab", Kind: throttle.Write, Limit: throttle.Account, OnDemand: true}
	var fault *apierror.Error
	if !errors.As(tt.s.worded(t.Context(), exceeded), &fault) || fault.Code != "RequestLimitExceeded" {
		t.Fatalf("%+v", fault)
	}
	detail, ok := fault.Detail.(*api.ThroughputExceeded)
	if !ok || len(detail.ThrottlingReasons) != 1 || detail.ThrottlingReasons[0].Reason != "TableWriteAccountLimitExceeded" {
		t.Errorf("%+v", fault.Detail)
	}
	if got := reason(throughputFaultOf(exceeded), false); got.Code != "ThrottlingError" {
		t.Errorf("the reason of a transaction is %+v", got)
	}
}
