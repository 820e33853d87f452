package ops

import (
	"context"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/protocol/api"
)

const (
	maxPolicyBytes = 20480            // with white space
	policyInterval = 15 * time.Second // between two changes of a policy
	// noPolicy is the revision that a caller expects of a resource without a policy.
	noPolicy = "NO_POLICY"
)

// putResourcePolicy attaches a policy to a table or a stream. An equivalent document
// changes nothing.
func (s *Service) putResourcePolicy(ctx context.Context, in *api.PutResourcePolicy) (*api.ResourcePolicyReply, error) {
	of, err := s.policyTarget(ctx, *in.ResourceArn)
	if err != nil {
		return nil, err
	}
	document, err := parsePolicy(*in.Policy, *in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if !in.ConfirmRemoveSelfResourceAccess {
		if err := s.keepsAccess(ctx, document, *in.ResourceArn); err != nil {
			return nil, err
		}
	}
	canonical := string(document.Canonical())
	set, err := s.changePolicy(ctx, of, in.ExpectedRevisionId, func(now schema.ResourcePolicy) (string, bool) {
		return canonical, now.Document != canonical
	})
	if err != nil {
		return nil, err
	}
	return &api.ResourcePolicyReply{RevisionId: set.Revision()}, nil
}

// deleteResourcePolicy removes a policy, if there is one.
func (s *Service) deleteResourcePolicy(ctx context.Context, in *api.DeleteResourcePolicy) (*api.ResourcePolicyReply, error) {
	of, err := s.policyTarget(ctx, *in.ResourceArn)
	if err != nil {
		return nil, err
	}
	deleted := false
	set, err := s.changePolicy(ctx, of, in.ExpectedRevisionId, func(now schema.ResourcePolicy) (string, bool) {
		deleted = now.Document != ""
		return "", deleted
	})
	if err != nil || !deleted {
		return &api.ResourcePolicyReply{}, err
	}
	return &api.ResourcePolicyReply{RevisionId: set.Revision()}, nil
}

func (s *Service) getResourcePolicy(ctx context.Context, in *api.GetResourcePolicy) (*api.GetResourcePolicyReply, error) {
	of, err := s.policyTarget(ctx, *in.ResourceArn)
	if err != nil {
		return nil, err
	}
	found, err := of.find(s)
	if err != nil {
		return nil, err
	}
	stored := found.Policies[of.label]
	if stored.Document == "" {
		return nil, apierror.PolicyNotFound("%s", of.arn)
	}
	return &api.GetResourcePolicyReply{Policy: stored.Document, RevisionId: stored.Revision()}, nil
}

// policyTarget is a table or a stream that may have a policy.
type policyTarget struct {
	arn, table string
	label      string // of a stream
}

// policyTarget reads the ARN of a table or a stream.
func (s *Service) policyTarget(ctx context.Context, arn string) (of policyTarget, err error) {
	parts, err := splitARN(arn)
	if err != nil {
		return of, err
	}
	service, region, account, resource := parts[2], parts[3], parts[4], parts[5]
	name, isTable := strings.CutPrefix(resource, "table/")
	table, rest, nested := strings.Cut(name, "/")
	label, isStream := strings.CutPrefix(rest, "stream/")
	switch {
	case service != "dynamodb" || strings.Contains(resource, "/backup/"):
		return of, apierror.InvalidValues("Provided Arn is not a DynamoDB resource arn: %s", arn)
	case !isTable || nested && !isStream:
		return of, apierror.InvalidValues("Invalid resource arn provided, only table or stream is accepted. Provided resource arn: %s", arn)
	case account != s.account:
		return of, apierror.Validation("This action is only supported by accounts that match the resource owner’s account.")
	case region != callerOf(ctx).Region || !tableNameText().MatchString(name):
		return of, apierror.Validation("Invalid resource Arn: %s", arn)
	}
	return policyTarget{arn, table, label}, nil
}

// find returns the table of the target. A stream of a deleted table is not of the table that has its name.
func (of policyTarget) find(s *Service) (*schema.Table, error) {
	t, err := s.tableWithTags(of.table, of.arn)
	if err != nil {
		return nil, err
	}
	if of.label != "" {
		if found, ok := s.DB.Stream(of.table, of.label); !ok || found.Table.ID != t.ID {
			return nil, apierror.NotFound("Requested resource not found: ResourceArn: %s not found", of.arn)
		}
	}
	return t, nil
}

// parsePolicy reads the policy of a table or a stream.
func parsePolicy(text, arn string) (*policy.Document, error) {
	if len(text) > maxPolicyBytes {
		return nil, apierror.InvalidValues("Maximum policy size of %d bytes exceeded", maxPolicyBytes)
	}
	document, err := policy.Parse(policy.Resource, []byte(text))
	if err == nil {
		err = document.CheckTarget(arn)
	}
	if err != nil {
		return nil, apierror.InvalidValues("%s", policy.ServiceText(err))
	}
	return document, nil
}

// policyOfNewTable returns the policy that a table is created with.
func (s *Service) policyOfNewTable(ctx context.Context, in *api.CreateTable) (string, error) {
	arn := s.tableARN(ctx, in.TableName)
	document, err := parsePolicy(*in.ResourcePolicy, arn)
	if err != nil {
		return "", err
	}
	if err := s.keepsAccess(ctx, document, arn); err != nil {
		return "", err
	}
	return string(document.Canonical()), nil
}

// keepsAccess checks that the caller may still change the policy when it has this
// document. The root user always may.
func (s *Service) keepsAccess(ctx context.Context, document *policy.Document, arn string) error {
	c := carriedBy(ctx)
	if c == nil || c.Identity == nil || c.Identity.Principal.Kind == policy.Root {
		return nil
	}
	p := permissionOnARN("dynamodb:PutResourcePolicy", &arn)
	q := s.question(ctx, c, &p)
	q.policies.Resource = document
	if q.evaluate().Allowed() {
		return nil
	}
	return apierror.AccessDenied("The new resource policy will not allow you to update the resource policy in the future.")
}

// changePolicy changes a policy, and returns it as it is then. change returns the new
// document, and whether it differs.
func (s *Service) changePolicy(ctx context.Context, of policyTarget, expected *string, change func(schema.ResourcePolicy) (string, bool)) (set schema.ResourcePolicy, err error) {
	t, err := of.find(s)
	if err != nil {
		return set, err
	}
	if t.State == schema.Deleting {
		return set, apierror.InUse("Attempt to change a resource which is still in use: Table is being deleted: %s", t.Name)
	}
	now := s.DB.Now()
	err = s.DB.SetPolicies(ctx, of.table, func(all map[string]schema.ResourcePolicy) (map[string]schema.ResourcePolicy, error) {
		stored := all[of.label]
		if err := of.expects(expected, stored); err != nil {
			return nil, err
		}
		document, changes := change(stored)
		if !changes {
			set = stored
			return all, nil
		}
		if err := of.mayChange(stored, now); err != nil {
			return nil, err
		}
		set = schema.ResourcePolicy{Document: document, Changed: now}
		if all == nil {
			all = make(map[string]schema.ResourcePolicy)
		}
		all[of.label] = set
		return all, nil
	})
	return set, err
}

// expects compares a policy with the revision that the caller expects.
func (of policyTarget) expects(revision *string, stored schema.ResourcePolicy) error {
	switch {
	case revision == nil:
	case stored.Document == "" && *revision != noPolicy:
		return apierror.PolicyNotFound("Requested update for policy with revision id %s, but %s %s has no associated policy.", *revision, of.kind(), of.name())
	case stored.Document != "" && *revision != stored.Revision():
		return apierror.PolicyNotFound("Requested update for policy with revision id %s, but the policy associated to target %s %s has revision id %s.",
			*revision, of.kind(), of.name(), stored.Revision())
	}
	return nil
}

func (of policyTarget) kind() string {
	if of.label != "" {
		return "stream"
	}
	return "table"
}

func (of policyTarget) name() string {
	if of.label != "" {
		return of.table + "/stream/" + of.label
	}
	return of.table
}

// mayChange checks that the last change of a policy was long enough ago.
func (of policyTarget) mayChange(stored schema.ResourcePolicy, now time.Time) error {
	switch passed := now.Sub(stored.Changed); {
	case stored.Changed.IsZero() || passed < 0 || passed >= policyInterval:
		return nil
	case passed < schema.PolicyPending:
		return apierror.InUse("Attempt to change a resource which is still in use: Table is pending previous resource-based policy update: %s", of.table)
	}
	return apierror.PolicyThrottled("Resource-based policy for %s %s modified within the previous %d milliseconds. Please try again after %s.",
		of.kind(), of.name(), policyInterval.Milliseconds(), stored.Changed.Add(policyInterval).UTC().Format("2006-01-02T15:04:05.000Z"))
}

// explainDenial returns why a request was refused, if it is one of the last.
func (s *Service) explainDenial(_ context.Context, in *api.ExplainDenial) (*api.ExplainDenialReply, error) {
	d, ok := s.denials.find(*in.RequestId)
	if !ok {
		return nil, apierror.NotFound("No denied request with the id %s is known: the last %d are kept until the server ends", *in.RequestId, maxDenials)
	}
	reply := &api.ExplainDenialReply{
		RequestId: d.RequestID, Time: d.Time.UTC().Format(time.RFC3339), Operation: d.Operation,
		Principal: d.Principal, Action: d.Action, Resource: d.Resource, Message: d.Message, Reason: d.Explanation.Reason,
	}
	for _, t := range d.Explanation.Statements {
		st := api.ExplainedStatement{Policy: t.Policy, Document: t.Document, File: t.File, Statement: t.Statement, Line: t.Line, Sid: t.Sid, Effect: t.Effect,
			Decided: t.Decided, Nearest: t.Nearest, Matches: t.Matches, Principal: t.Principal, Action: t.Action, Resource: t.Resource, Notes: t.Notes}
		for _, c := range t.Conditions {
			st.Conditions = append(st.Conditions, api.ExplainedCondition{Operator: c.Operator, Key: c.Key, Values: c.Values, Resolved: c.Resolved, Present: c.Present, Request: c.Request, Holds: c.Holds, Note: c.Note})
		}
		reply.Statements = append(reply.Statements, st)
	}
	return reply, nil
}
