package ops

import (
	"context"
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/language/policy"
)

// Explained is a permission that a request needs, with the decision about it.
type Explained struct {
	Action      string
	Resource    string
	Table       string // that the resource belongs to; "" if none
	Message     string // of the AccessDeniedException; "" if the permission is given
	Explanation *policy.Explanation

	// Fault is why the values of the request that a condition asks for cannot be
	// computed: the request is rejected here. There is no explanation then.
	Fault error
}

// Explain returns what a request needs, with the decisions about the caller's identity. It
// derives them as authorize does, but does not stop at the first permission that the caller
// does not have. The error is that of a request which is rejected or refused before any
// decision.
func (s *Service) Explain(ctx context.Context, r Request) ([]Explained, error) {
	c := carriedBy(ctx)
	if c == nil || c.Identity == nil {
		return nil, errors.New("a request without an identity needs no permission")
	}
	needed, err := s.permissions(ctx, r)
	if err != nil {
		return nil, r.envelop(err)
	}
	if len(needed) == 0 {
		return nil, apierror.AccessDenied("Access is denied")
	}
	found := make([]Explained, 0, len(needed))
	for i := range needed {
		found = append(found, s.explainPermission(ctx, c, r, &needed[i]))
	}
	return found, nil
}

func (s *Service) explainPermission(ctx context.Context, c *Caller, r Request, p *permission) Explained {
	e := Explained{Action: p.action, Resource: p.resource, Table: p.table}
	if p.rejected != nil {
		e.Fault = r.envelop(p.rejected)
		return e
	}
	q := s.question(ctx, c, p)
	verdict := q.evaluate()
	if q.values.fault != nil {
		e.Fault = r.envelop(q.values.fault)
		return e
	}
	if !verdict.Allowed() {
		e.Message = policy.Refusal(&q.request, verdict)
	}
	e.Explanation = q.explain()
	return e
}
