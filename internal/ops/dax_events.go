package ops

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/db/daxcluster"
	"github.com/stator-db/stator/internal/protocol/api"
)

// defaultEventTime is how far back events are listed if a request does not say.
const defaultEventTime = 24 * time.Hour

// maxEventMinutes is the longest time of a request, which is as long as events are kept.
const maxEventMinutes = 14 * 24 * 60

// describeEvents lists events, the newest first.
func (s *Service) describeEvents(ctx context.Context, in *api.DescribeEvents) (*api.DescribeEventsReply, error) {
	from, to, err := eventTimes(in, s.DB.Now())
	if err != nil {
		return nil, err
	}
	if in.SourceName != nil && in.SourceType == nil {
		return nil, invalidCombination("SourceType is required with SourceName.")
	}
	r, err := daxcluster.Read(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	var list keyedList[api.DAXEvent]
	for i, e := range r.Events {
		if e.Time.Before(from) || e.Time.After(to) || in.SourceType != nil && *in.SourceType != e.Type || in.SourceName != nil && !strings.EqualFold(*in.SourceName, e.Source) {
			continue
		}
		newestFirst := fmt.Sprintf("%020d %05d", math.MaxInt64-e.Time.UnixNano(), len(r.Events)-i)
		list.add(newestFirst, api.DAXEvent{SourceName: e.Source, SourceType: e.Type, Message: e.Message, Date: api.TimeOf(e.Time)})
	}
	page, next, err := daxPage(list, &in.DAXPage)
	return &api.DescribeEventsReply{Events: page, NextToken: next}, err
}

// eventTimes returns the time that a request asks for.
func eventTimes(in *api.DescribeEvents, now time.Time) (from, to time.Time, err error) {
	length := defaultEventTime
	if in.Duration != nil {
		if *in.Duration < 1 || *in.Duration > maxEventMinutes {
			return from, to, invalidValue("Duration is %d, but must be from 1 to %d minutes.", *in.Duration, maxEventMinutes)
		}
		length = time.Duration(*in.Duration) * time.Minute
	}
	switch {
	case in.StartTime != nil && in.EndTime != nil && in.Duration != nil:
		return from, to, invalidCombination("Only two of StartTime, EndTime and Duration can be given.")
	case in.StartTime != nil && in.EndTime != nil:
		from, to = in.StartTime.Time, in.EndTime.Time
	case in.StartTime != nil && in.Duration != nil:
		from, to = in.StartTime.Time, in.StartTime.Add(length)
	case in.StartTime != nil:
		from, to = in.StartTime.Time, now
	case in.EndTime != nil:
		from, to = in.EndTime.Add(-length), in.EndTime.Time
	default:
		from, to = now.Add(-length), now
	}
	if to.Before(from) {
		return from, to, invalidCombination("StartTime is after EndTime.")
	}
	return from, to, nil
}
