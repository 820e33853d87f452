package ops

import (
	"bytes"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// scanChecks run in the order in which DynamoDB reports faults, which
// conformance/scan/order.txt verifies. After them the expressions are bound,
// then the table is looked up.
var scanChecks = []func(*api.Scan) error{
	func(in *api.Scan) error {
		return checkPaged(&in.Paged, parameter{"ScanFilter", in.ScanFilter != nil}, parameter{}, parameter{})
	},
	func(in *api.Scan) error { return checkConditions(in.ScanFilter) },
	func(in *api.Scan) error { return checkStartKey(&in.Paged) },
	checkSegments,
}

func (s *Service) scan(in *api.Scan) (*reading, error) {
	if err := firstFault(in, scanChecks); err != nil {
		return nil, err
	}
	r := &reading{operation: "Scan", legacy: in.ScanFilter != nil, in: &in.Paged, bind: bindings(in.ExpressionAttributeNames, in.ExpressionAttributeValues)}
	if err := s.bindFilter(r, in.ScanFilter); err != nil {
		return nil, err
	}
	if err := s.bindProjection(r); err != nil {
		return nil, err
	}
	if err := checkSelect(r.in); err != nil {
		return nil, err
	}
	if err := r.bind.Unused(); err != nil {
		return nil, err
	}
	r.plan = db.Range{Table: in.TableName, Fit: r.fitScan}
	if in.Limit != nil {
		r.plan.Limit = int(*in.Limit)
	}
	if in.TotalSegments != nil {
		r.plan.Segment, r.plan.Segments = int(*in.Segment), int(*in.TotalSegments)
	}
	return r, nil
}

// fitScan checks a scan against its table and completes its plan.
func (r *reading) fitScan(t *schema.Table, plan *db.Range) error {
	if err := r.open(t, plan); err != nil {
		return err
	}
	other := "The provided starting key is invalid: The provided key element does not match the schema"
	if r.index != nil {
		other = "The provided starting key is invalid"
	}
	if err := r.fitStartKey(plan, other); err != nil {
		return err
	}
	if err := r.checkStartKeyInSegment(plan); err != nil {
		return err
	}
	return r.fitIndex(plan)
}

// checkStartKeyInSegment checks that ExclusiveStartKey is within the segment.
func (r *reading) checkStartKeyInSegment(plan *db.Range) error {
	if plan.After == nil || plan.Segments < 2 {
		return nil
	}
	at, index := keyspace.Item(nil, r.table, plan.After), uint16(0)
	if r.index != nil {
		at, index = keyspace.Entry(nil, r.table, r.index, plan.After), r.index.ID
	}
	start, end := keyspace.Segment(r.table.ID, index, plan.Segment, plan.Segments)
	if bytes.Compare(at, start) < 0 || bytes.Compare(at, end) >= 0 {
		return apierror.Validation("The provided starting key is invalid: Invalid ExclusiveStartKey. "+
			"Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d", plan.Segments, plan.Segment)
	}
	return nil
}

func checkSegments(in *api.Scan) error {
	switch {
	case in.Segment != nil && in.TotalSegments == nil:
		return apierror.Validation("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case in.Segment == nil && in.TotalSegments != nil:
		return apierror.Validation("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case in.Segment != nil && *in.Segment >= *in.TotalSegments:
		return apierror.Validation("The Segment parameter is zero-based and must be less than parameter TotalSegments: "+
			"Segment: %d is not less than TotalSegments: %d", *in.Segment, *in.TotalSegments)
	}
	return nil
}
