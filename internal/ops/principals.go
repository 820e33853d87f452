package ops

import (
	"context"

	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/principals"
)

func (s *Service) putPrincipal(ctx context.Context, in *api.PutPrincipal) (*api.PutPrincipalReply, error) {
	store, err := s.accessStore()
	if err != nil {
		return nil, err
	}
	p := principals.Definition{ARN: *in.PrincipalArn, Policies: namedPolicies(in.Policies)}
	if in.Boundary != nil {
		p.Boundary = &namedPolicies([]api.PrincipalPolicy{*in.Boundary})[0]
	}
	if len(in.Tags) > 0 {
		p.Tags = in.Tags
	}
	for _, one := range in.Sessions {
		p.Sessions = append(p.Sessions, principals.SessionPolicies{Name: *one.Name, Policies: namedPolicies(one.Policies)})
	}
	revision, err := store.PutPrincipal(ctx, p, in.ExpectedRevisionId, s.administers(ctx))
	if err != nil {
		return nil, err
	}
	return &api.PutPrincipalReply{RevisionId: revision}, nil
}

func namedPolicies(in []api.PrincipalPolicy) (list []principals.NamedPolicy) {
	for _, p := range in {
		list = append(list, principals.NamedPolicy{Name: *p.Name, Document: *p.Document})
	}
	return list
}

func (s *Service) getPrincipal(_ context.Context, in *api.GetPrincipal) (*api.GetPrincipalReply, error) {
	store, err := s.accessStore()
	if err != nil {
		return nil, err
	}
	p, revision, err := store.Principal(*in.PrincipalArn)
	if err != nil {
		return nil, err
	}
	reply := &api.GetPrincipalReply{PrincipalArn: p.ARN, Policies: policiesReply(p.Policies), Tags: p.Tags, RevisionId: revision}
	if p.Boundary != nil {
		reply.Boundary = &policiesReply([]principals.NamedPolicy{*p.Boundary})[0]
	}
	for _, one := range p.Sessions {
		reply.Sessions = append(reply.Sessions, api.PrincipalSession{Name: &one.Name, Policies: policiesReply(one.Policies)})
	}
	return reply, nil
}

func policiesReply(list []principals.NamedPolicy) (out []api.PrincipalPolicy) {
	for _, p := range list {
		out = append(out, api.PrincipalPolicy{Name: &p.Name, Document: &p.Document})
	}
	return out
}

func (s *Service) listPrincipals(context.Context, *api.ListPrincipals) (*api.ListPrincipalsReply, error) {
	store, err := s.accessStore()
	if err != nil {
		return nil, err
	}
	list, err := store.Principals()
	if err != nil {
		return nil, err
	}
	reply := new(api.ListPrincipalsReply)
	for _, p := range list {
		reply.Principals = append(reply.Principals, api.PrincipalDescription{
			PrincipalArn: p.ARN, Policies: p.Policies, Boundary: p.Boundary, Tags: p.Tags, Sessions: p.Sessions, Source: p.Source, RevisionId: p.Revision,
		})
	}
	return reply, nil
}

func (s *Service) deletePrincipal(ctx context.Context, in *api.DeletePrincipal) (*api.DeletePrincipalReply, error) {
	store, err := s.accessStore()
	if err != nil {
		return nil, err
	}
	return new(api.DeletePrincipalReply), store.DeletePrincipal(ctx, *in.PrincipalArn, in.ExpectedRevisionId, s.administers(ctx))
}
