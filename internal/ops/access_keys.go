package ops

import (
	"context"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/access"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/principals"
)

func (s *Service) createAccessKey(ctx context.Context, in *api.CreateAccessKey) (*api.CreateAccessKeyReply, error) {
	store, err := s.accessStore()
	if err != nil {
		return nil, err
	}
	k, err := store.CreateKey(ctx, or(in.Principal, ""), or(in.Comment, ""), s.administers(ctx))
	if err != nil {
		return nil, err
	}
	return &api.CreateAccessKeyReply{AccessKey: k.AccessKey, Secret: k.Secret.Reveal(), Principal: k.Principal, Created: timeText(k.Created), Comment: k.Comment}, nil
}

func (s *Service) listAccessKeys(context.Context, *api.ListAccessKeys) (*api.ListAccessKeysReply, error) {
	store, err := s.accessStore()
	if err != nil {
		return nil, err
	}
	list, err := store.Keys()
	if err != nil {
		return nil, err
	}
	reply := new(api.ListAccessKeysReply)
	for _, k := range list {
		reply.AccessKeys = append(reply.AccessKeys, api.AccessKeyDescription{
			AccessKey: k.AccessKey, Principal: k.Principal, Created: timeText(k.Created), Expires: timeText(k.Expires), Comment: k.Comment, Source: k.Source,
		})
	}
	return reply, nil
}

func (s *Service) deleteAccessKey(ctx context.Context, in *api.DeleteAccessKey) (*api.DeleteAccessKeyReply, error) {
	store, err := s.accessStore()
	if err != nil {
		return nil, err
	}
	return new(api.DeleteAccessKeyReply), store.DeleteKey(ctx, *in.AccessKey, s.administers(ctx))
}

// timeText returns a time as requests of our own have it; empty for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// accessStore returns the access keys and principals.
func (s *Service) accessStore() (*access.Store, error) {
	if s.Fork() != "" {
		return nil, apierror.Validation("A fork has the access keys and principals of its server: send the request to the server itself")
	}
	if s.access == nil {
		return nil, apierror.Validation("This server has neither access keys nor policies in the database: start it with --keys database, and --policies database")
	}
	return s.access, nil
}

// administerActions are what an administrator may do: with them he can give himself all others.
var administerActions = []string{"stator:CreateAccessKey", "stator:PutPrincipal"}

// administers returns what reports whether an identity is an administrator, in requests that come as
// the caller's does.
func (s *Service) administers(ctx context.Context) access.Administers {
	var as Caller
	if c := carriedBy(ctx); c != nil {
		as = Caller{Region: c.Region, SourceIP: c.SourceIP, UserAgent: c.UserAgent, Secure: c.Secure}
	}
	return func(identity *principals.Identity) bool {
		if as.Identity = identity; identity == nil { // there are no policies
			return true
		}
		for _, action := range administerActions {
			if Permitted(&as, s.account, action, s.DB.Now()) != nil {
				return false
			}
		}
		return true
	}
}
