package ops

import (
	"context"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) describeExpiry(ctx context.Context, in *api.DescribeExpiry) (*api.DescribeExpiryReply, error) {
	e, err := s.DB.Expiries(ctx, in.TableName, listLimit(in.Limit))
	if err != nil {
		return nil, err
	}
	reply := &api.DescribeExpiryReply{
		TableName: e.Table, AttributeName: e.Attribute, TimeToLiveStatus: "ENABLED",
		Due: e.Due, DueIsMore: e.DueIsMore, DueItems: expiringReply(e.Expired), NextItems: expiringReply(e.Next),
		SweepsHere: e.Leads, SweepInterval: e.Interval.Seconds(), LastSweepAt: api.TimeOf(e.LastSweep.At), SweepError: e.LastSweep.Error,
	}
	switch {
	case e.Attribute == "":
		reply.TimeToLiveStatus = "DISABLED"
	case e.Filling:
		reply.TimeToLiveStatus = "ENABLING"
	}
	if e.Milliseconds != 0 {
		reply.FarValue = &e.Milliseconds
	}
	return reply, nil
}

func expiringReply(items []db.Expiring) []api.ExpiringItem {
	reply := make([]api.ExpiringItem, len(items))
	for i, e := range items {
		reply[i] = api.ExpiringItem{Key: e.Key, ExpiresAt: api.TimeOf(e.At)}
	}
	return reply
}
