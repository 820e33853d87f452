package table

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// Plan limits what a tenant can use. A limit of 0 is none.
type Plan struct {
	Name      string
	Documents int   // added in a month
	FileBytes int64 // of one file; none means the limit of the extractors
	Projects  int
	Users     int
	Trials    int // of workflows in a minute, at each server; never without a limit
}

// Plans are all plans, the smallest first.
var Plans = []Plan{
	{Name: "free", Documents: 200, FileBytes: 4 << 20, Projects: 3, Users: 5, Trials: 30},
	{Name: "team", Documents: 10_000, Projects: 50, Users: 50, Trials: 120},
	{Name: "enterprise", Trials: 120},
}

// PlanOf returns the plan with a name.
func PlanOf(name string) (Plan, bool) {
	for _, p := range Plans {
		if p.Name == name {
			return p, true
		}
	}
	return Plans[0], false
}

// Uploads is how many files can be uploaded in a month: more than the plan allows
// documents, since some are never used.
func (p Plan) Uploads() int { return 2 * p.Documents }

// Invitations is how many people can be invited in a month.
func (p Plan) Invitations() int { return 4 * p.Users }

// LimitError is returned for a change that the plan of the tenant does not allow.
type LimitError struct {
	Plan  string
	What  string // such as "documents a month"
	Limit int64
	Used  int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the plan %s allows %d %s, and %d are used: an operator can change the plan", e.Plan, e.Limit, e.What, e.Used)
}

// Usage is what a tenant uses of its plan. A maximum of 0 is none.
type Usage struct {
	Plan         string `json:"plan"`
	Month        string `json:"month"`
	Documents    int    `json:"documents"` // added in the month
	MaxDocuments int    `json:"maxDocuments"`
	Projects     int    `json:"projects"`
	MaxProjects  int    `json:"maxProjects"`
	Users        int    `json:"users"`
	MaxUsers     int    `json:"maxUsers"`
	MaxFileBytes int64  `json:"maxFileBytes"`
}

// month returns the name of the current month.
func (s *Store) month() string { return s.Now().UTC().Format("2006-01") }

// usageItem counts the documents that a tenant has added in a month. It remains as
// long as the tenant, for its invoices.
type usageItem struct {
	Tenant    keys.Tenant `dynamodbav:"tenantId"`
	Month     string      `dynamodbav:"month"`
	Documents int         `dynamodbav:"documents"`
}

// Usage returns what a tenant uses now.
func (s *Store) Usage(ctx context.Context, t keys.Tenant) (Usage, error) {
	tenant, err := s.counted(ctx, t)
	if err != nil {
		return Usage{}, err
	}
	month := s.month()
	used, err := get[usageItem](ctx, s, t.Usage(month), false)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Usage{}, err
	}
	p, _ := PlanOf(tenant.Plan)
	return Usage{
		Plan: p.Name, Month: month, Documents: used.Documents, MaxDocuments: p.Documents,
		Projects: *tenant.Projects, MaxProjects: p.Projects, Users: *tenant.Users, MaxUsers: p.Users, MaxFileBytes: p.FileBytes,
	}, nil
}

// SetPlan changes the plan of a tenant. What exceeds a smaller plan remains.
func (s *Store) SetPlan(ctx context.Context, t keys.Tenant, plan string) error {
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.Table,
		Key:                       t.Metadata().Attributes(),
		UpdateExpression:          aws.String("SET #plan = :plan"),
		ConditionExpression:       aws.String("attribute_exists(PK)"),
		ExpressionAttributeNames:  map[string]string{"#plan": "plan"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":plan": str(plan)},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return ErrNotFound
	}
	return err
}

// plan reads the plan of a tenant.
func (s *Store) plan(ctx context.Context, t keys.Tenant) (Plan, error) {
	tenant, err := s.Tenant(ctx, t)
	p, _ := PlanOf(tenant.Plan)
	return p, err
}

// use returns the write that counts n more documents of a tenant in this month, on
// the condition that the plan allows them. A document that is tried again counts again.
func (s *Store) use(p Plan, t keys.Tenant, n int) types.TransactWriteItem {
	return types.TransactWriteItem{Update: s.tally(t, "documents", n, p.Documents)}
}

// CountUpload counts an upload of a tenant in this month, if the plan allows it.
func (s *Store) CountUpload(ctx context.Context, p Plan, t keys.Tenant) error {
	u := s.tally(t, "uploads", 1, p.Uploads())
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression, ConditionExpression: u.ConditionExpression,
		ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return &LimitError{Plan: p.Name, What: "uploads a month", Limit: int64(p.Uploads()), Used: int64(p.Uploads())}
	}
	return err
}

// tally returns the write that adds n to a counter of a tenant and this month, on the
// condition that the sum is within a limit. The request without a limit is the same.
func (s *Store) tally(t keys.Tenant, counter string, n, limit int) *types.Update {
	room, condition := math.MaxInt32, fmt.Sprintf("attribute_not_exists(%[1]s) OR %[1]s <= :room", counter)
	if limit > 0 {
		room = limit - n
	}
	if room < 0 {
		condition = counter + " <= :room"
	}
	return &types.Update{
		TableName:                &s.Table,
		Key:                      t.Usage(s.month()).Attributes(),
		UpdateExpression:         aws.String("SET tenantId = :tenant, #month = :month ADD " + counter + " :n"),
		ConditionExpression:      &condition,
		ExpressionAttributeNames: map[string]string{"#month": "month"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":tenant": str(t.String()), ":month": str(s.month()), ":n": num(n), ":room": num(room),
		},
	}
}

// tooMany returns the error of documents that a plan does not allow.
func (s *Store) tooMany(ctx context.Context, p Plan, t keys.Tenant) error {
	used, err := get[usageItem](ctx, s, t.Usage(s.month()), true)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return &LimitError{Plan: p.Name, What: "documents a month", Limit: int64(p.Documents), Used: int64(used.Documents)}
}

// allows returns an error if a plan does not allow n more documents now.
func (s *Store) allows(ctx context.Context, p Plan, t keys.Tenant, n int) error {
	if p.Documents == 0 {
		return nil
	}
	used, err := get[usageItem](ctx, s, t.Usage(s.month()), true)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if used.Documents+n > p.Documents {
		return &LimitError{Plan: p.Name, What: "documents a month", Limit: int64(p.Documents), Used: int64(used.Documents)}
	}
	return nil
}

// counted reads a tenant with the numbers of its projects and users. A tenant of an
// earlier version has none, so they are counted once.
func (s *Store) counted(ctx context.Context, t keys.Tenant) (Tenant, error) {
	tenant, err := get[Tenant](ctx, s, t.Metadata(), true)
	if err != nil || tenant.Projects != nil && tenant.Users != nil {
		return tenant, err
	}
	projects, err := s.count(ctx, t.Projects())
	if err != nil {
		return tenant, err
	}
	users, err := s.count(ctx, t.Members())
	if err != nil {
		return tenant, err
	}
	_, err = s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.Table,
		Key:                       t.Metadata().Attributes(),
		UpdateExpression:          aws.String("SET projectCount = if_not_exists(projectCount, :projects), userCount = if_not_exists(userCount, :users)"),
		ConditionExpression:       aws.String("attribute_exists(PK)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":projects": num(projects), ":users": num(users)},
	})
	if err != nil {
		return tenant, fmt.Errorf("count the projects and users of a tenant: %w", err)
	}
	return get[Tenant](ctx, s, t.Metadata(), true)
}

func (s *Store) count(ctx context.Context, r keys.Range) (int, error) {
	in := r.Query(s.Table)
	in.Select = types.SelectCount
	n := 0
	for {
		out, err := s.DB.Query(ctx, in)
		if err != nil {
			return n, fmt.Errorf("count items: %w", err)
		}
		n += int(out.Count)
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return n, nil
		}
	}
}

// The counters of a tenant's item.
const (
	projectCount = "projectCount"
	userCount    = "userCount"
)

// step returns the write that adds n to a counter of a tenant, on the condition that
// it was below a limit, if there is one.
func (s *Store) step(t keys.Tenant, counter string, n, limit int) types.TransactWriteItem {
	u := &types.Update{
		TableName:                 &s.Table,
		Key:                       t.Metadata().Attributes(),
		UpdateExpression:          aws.String("ADD " + counter + " :n"),
		ConditionExpression:       aws.String("attribute_exists(PK)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":n": num(n)},
	}
	if n > 0 && limit > 0 {
		u.ConditionExpression = aws.String("attribute_exists(PK) AND " + counter + " < :limit")
		u.ExpressionAttributeValues[":limit"] = num(limit)
	}
	return types.TransactWriteItem{Update: u}
}
