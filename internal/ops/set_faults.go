package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/inject"
	"github.com/stator-db/stator/internal/protocol/api"
)

// errNoFaults returns the error of a request about faults to a database into which none are injected.
func (s *Service) errNoFaults() error {
	if s.Fork() != "" {
		return apierror.Validation("Faults are not injected into forks: send the request to the server itself")
	}
	return apierror.Validation("This server does not inject faults. Start it with --allow-faults or --faults")
}

func (s *Service) setFaults(_ context.Context, in *api.SetFaults) (*api.SetFaultsReply, error) {
	if s.faults == nil {
		return nil, s.errNoFaults()
	}
	p := new(inject.Plan)
	if *in.Plan != "" {
		var err error
		if p, err = inject.Parse("Plan", []byte(*in.Plan)); err != nil {
			return nil, apierror.Validation("%s", err.Error())
		}
	}
	if in.Seed != nil {
		p.Seed = uint64(*in.Seed)
	}
	s.faults.Set(*p)
	return &api.SetFaultsReply{Rules: len(p.Rules), Seed: int64(p.Seed)}, nil
}

func (s *Service) getFaults(context.Context, *api.GetFaults) (*api.GetFaultsReply, error) {
	if s.faults == nil {
		return nil, s.errNoFaults()
	}
	p := s.faults.Plan()
	_, injected := s.faults.Log(0, 0)
	return &api.GetFaultsReply{Plan: string(p.Format()), Rules: len(p.Rules), Seed: int64(p.Seed), Injected: injected}, nil
}

// maxFaultsListed is how many faults a reply has at most.
const maxFaultsListed = 1000

func (s *Service) listInjectedFaults(_ context.Context, in *api.ListInjectedFaults) (*api.ListInjectedFaultsReply, error) {
	if s.faults == nil {
		return nil, s.errNoFaults()
	}
	after, limit := 0, maxFaultsListed
	if in.After != nil {
		after = int(*in.After)
	}
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	found, total := s.faults.Log(after, limit)
	reply := &api.ListInjectedFaultsReply{Faults: make([]api.InjectedFault, len(found)), Injected: total, Kept: inject.Kept}
	for i := range found {
		f := &found[i]
		reply.Faults[i] = api.InjectedFault{
			Number: f.Number, AtMilliseconds: float64(f.At.Microseconds()) / 1000, Fault: string(f.Fault), Rule: f.Rule, Operation: f.Operation, Tables: f.Tables, IndexName: f.Index,
			Key: f.Key, Request: f.Request, Occurrence: f.Occurrence, Detail: f.Detail,
		}
	}
	return reply, nil
}
