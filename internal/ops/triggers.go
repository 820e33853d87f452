package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/api"
)

// Triggers are the triggers of a server.
type Triggers interface {
	// Describe returns the triggers after one of a name, in the order of their names, and the name
	// of the last if there are more.
	Describe(ctx context.Context, after string, limit int) (page []api.TriggerDescription, next string, err error)
	// Table returns the table of a trigger.
	Table(trigger string) (table string, ok bool)
	// DeadLetters returns a page of the records that a trigger has given up.
	DeadLetters(ctx context.Context, trigger, token string, limit int) (page []api.DeadLetter, next string, err error)
	// Replay posts such records again.
	Replay(ctx context.Context, in *api.ReplayDeadLetters) (*api.ReplayDeadLettersReply, error)
}

// noTriggers are the triggers of a server without any.
type noTriggers struct{}

func (noTriggers) Describe(context.Context, string, int) ([]api.TriggerDescription, string, error) {
	return []api.TriggerDescription{}, "", nil
}

func (noTriggers) Table(string) (string, bool) { return "", false }

func (noTriggers) DeadLetters(_ context.Context, trigger, _ string, _ int) ([]api.DeadLetter, string, error) {
	return nil, "", apierror.NoTriggerNamed(trigger)
}

func (noTriggers) Replay(_ context.Context, in *api.ReplayDeadLetters) (*api.ReplayDeadLettersReply, error) {
	return nil, apierror.NoTriggerNamed(*in.TriggerName)
}

// maxListed is how many triggers, dead letters, expiring items or jobs a page has at most, and by
// default.
const maxListed = 100

func listLimit(limit *int32) int {
	if limit == nil {
		return maxListed
	}
	return int(*limit)
}

func (s *Service) listTriggers(ctx context.Context, in *api.ListTriggers) (*api.ListTriggersReply, error) {
	page, next, err := s.triggers().Describe(ctx, or(in.NextToken, ""), listLimit(in.Limit))
	if err != nil {
		return nil, err
	}
	return &api.ListTriggersReply{Triggers: page, NextToken: next}, nil
}

func (s *Service) listDeadLetters(ctx context.Context, in *api.ListDeadLetters) (*api.ListDeadLettersReply, error) {
	page, next, err := s.triggers().DeadLetters(ctx, *in.TriggerName, or(in.NextToken, ""), listLimit(in.Limit))
	if err != nil {
		return nil, err
	}
	return &api.ListDeadLettersReply{DeadLetters: page, NextToken: next}, nil
}

// replayChecks run in the order in which faults are reported.
var replayChecks = []func(*api.ReplayDeadLetters) error{
	func(in *api.ReplayDeadLetters) error {
		if all := in.All != nil && *in.All; all == (in.DeadLetterIds != nil) {
			return apierror.InvalidValues("Either DeadLetterIds or All must be specified")
		}
		return nil
	},
	func(in *api.ReplayDeadLetters) error {
		if in.NextToken != nil && in.DeadLetterIds != nil {
			return apierror.InvalidValues("NextToken can only be specified with All")
		}
		return nil
	},
}

func (s *Service) replayDeadLetters(ctx context.Context, in *api.ReplayDeadLetters) (*api.ReplayDeadLettersReply, error) {
	if err := firstFault(in, replayChecks); err != nil {
		return nil, err
	}
	return s.triggers().Replay(ctx, in)
}

// onTrigger returns the permissions for a trigger: the action on its table, and if the request
// shows items, a Scan of the table. All resources are needed for a trigger that does not exist.
func (s *Service) onTrigger(ctx context.Context, action string, trigger *string, shows bool) ([]permission, error) {
	table, ok := s.triggers().Table(or(trigger, ""))
	if !ok {
		return []permission{{action: "stator:" + action, resource: "*"}}, nil
	}
	if !shows {
		return s.onTable(ctx, "stator:"+action, table), nil
	}
	return s.withScan(ctx, action, table)
}

// withScan returns the permissions of an operation that shows items of a table, or their keys.
func (s *Service) withScan(ctx context.Context, action, table string) ([]permission, error) {
	found, _, err := s.itemPermissions(ctx, &api.Scan{TableName: table})
	return append(s.onTable(ctx, "stator:"+action, table), found...), err
}

// deadLetterBytes is the memory that a request to dead letters needs: a page may end with a large
// record, and the reply has its text once more.
const deadLetterBytes = 8 << 20

func listLettersBytes(*api.ListDeadLetters) int64 { return deadLetterBytes }

func replayBytes(*api.ReplayDeadLetters) int64 { return deadLetterBytes }
