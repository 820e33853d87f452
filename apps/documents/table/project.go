package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// Project contains workflows and batches.
type Project struct {
	Tenant     keys.Tenant    `dynamodbav:"tenantId" json:"tenantId"`
	ID         keys.ProjectID `dynamodbav:"projectId" json:"projectId"`
	Name       string         `dynamodbav:"name" json:"name"`
	BatchCount int            `dynamodbav:"batchCount" json:"batchCount"`
	Listed     bool           `dynamodbav:"listed,omitempty" json:"-"` // all its batches are in GSI1
	Created    string         `dynamodbav:"createdAt" json:"createdAt"`
	Reporting
}

// Reporting is how finished batches of a project are reported.
type Reporting struct {
	Webhook  string   `dynamodbav:"webhook,omitempty" json:"webhook,omitempty"` // URL
	Secret   string   `dynamodbav:"webhookSecret,omitempty" json:"-"`
	Watchers []string `dynamodbav:"watchers,omitempty" json:"watchers,omitempty"` // emails of members
	Problem  string   `dynamodbav:"problem,omitempty" json:"problem,omitempty"`   // the last report that was given up
}

// CreateProject creates a project, if the plan of the tenant allows it.
func (s *Store) CreateProject(ctx context.Context, t keys.Tenant, name string) (Project, error) {
	tenant, err := s.counted(ctx, t)
	if err != nil {
		return Project{}, err
	}
	plan, _ := PlanOf(tenant.Plan)
	p := Project{Tenant: t, ID: keys.NewID[keys.ProjectID](), Name: name, Listed: true}
	now := s.Now()
	p.Created = keys.Time(now)
	err = s.transact(ctx, s.fresh(whole(p, t.Project(p.ID), t.ProjectEntry(now))), s.step(t, projectCount, 1, plan.Projects))
	var no refused
	if errors.As(err, &no) {
		return Project{}, &LimitError{Plan: plan.Name, What: "projects", Limit: int64(plan.Projects), Used: int64(*tenant.Projects)}
	}
	return p, err
}

// Project reads a project.
func (s *Store) Project(ctx context.Context, t keys.Tenant, id keys.ProjectID) (Project, error) {
	return get[Project](ctx, s, t.Project(id), false)
}

// Projects lists the projects of a tenant, newest first.
func (s *Store) Projects(ctx context.Context, t keys.Tenant, cursor string) (Page[Project], error) {
	tenant, err := s.Tenant(ctx, t)
	if err != nil {
		return Page[Project]{}, err
	}
	if !tenant.Listed {
		if err := s.enlist(ctx, t.Projects(), t.ProjectEntry, t.Metadata()); err != nil {
			return Page[Project]{}, err
		}
	}
	return list[Project](ctx, s, t.NewestProjects(), cursor, 50, func(sk string) (keys.Key, error) {
		id, err := keys.IDOf[keys.ProjectID]("PROJECT#", sk)
		if err != nil {
			return keys.Key{}, err
		}
		return t.Project(id), nil
	})
}

// enlist adds the items of an earlier version, which had no such list, to a list of
// GSI1 by their creation, and marks their parent, so that this is done once.
func (s *Store) enlist(ctx context.Context, r keys.Range, entry func(time.Time) keys.Entry, parent keys.Key) error {
	in := r.Query(s.Table)
	in.FilterExpression = aws.String("attribute_not_exists(GSI1PK)")
	for {
		out, err := s.DB.Query(ctx, in)
		if err != nil {
			return fmt.Errorf("look for items without a place in their list: %w", err)
		}
		for _, item := range out.Items {
			if err := s.enlist1(ctx, item, entry); err != nil {
				return err
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			break
		}
	}
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.Table,
		Key:                       parent.Attributes(),
		UpdateExpression:          aws.String("SET listed = :yes"),
		ConditionExpression:       aws.String("attribute_exists(PK)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":yes": &types.AttributeValueMemberBOOL{Value: true}},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return ErrNotFound
	}
	return err
}

func (s *Store) enlist1(ctx context.Context, item map[string]types.AttributeValue, entry func(time.Time) keys.Entry) error {
	var made struct {
		Created string `dynamodbav:"createdAt"`
	}
	if err := read(item, &made); err != nil {
		return err
	}
	created, err := keys.ParseTime(made.Created)
	if err != nil {
		return err
	}
	_, err = s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.Table,
		Key:                       map[string]types.AttributeValue{"PK": item["PK"], "SK": item["SK"]},
		UpdateExpression:          aws.String("SET GSI1PK = :GSI1PK, GSI1SK = :GSI1SK"),
		ConditionExpression:       aws.String("attribute_exists(PK)"),
		ExpressionAttributeValues: entryValues(entry(created)),
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return nil // deleted meanwhile
	}
	return err
}

// Workflow describes what to extract, and the thresholds: below the confidence
// threshold a document fails, below the review threshold it needs review.
type Workflow struct {
	Tenant              keys.Tenant     `dynamodbav:"tenantId" json:"tenantId"`
	Project             keys.ProjectID  `dynamodbav:"projectId" json:"projectId"`
	ID                  keys.WorkflowID `dynamodbav:"workflowId" json:"workflowId"`
	Name                string          `dynamodbav:"name" json:"name"`
	Extraction          string          `dynamodbav:"extraction" json:"-"` // JSON
	ConfidenceThreshold float64         `dynamodbav:"confidenceThreshold" json:"confidenceThreshold"`
	ReviewThreshold     float64         `dynamodbav:"reviewThreshold" json:"reviewThreshold"`
	Updated             string          `dynamodbav:"updatedAt" json:"updatedAt"`
}

// MarshalJSON includes the extraction as JSON.
func (w Workflow) MarshalJSON() ([]byte, error) {
	type plain Workflow
	return json.Marshal(struct {
		plain
		Extraction json.RawMessage `json:"extraction"`
	}{plain(w), json.RawMessage(w.Extraction)})
}

// inbox returns the id of the batch of a folder in the workflow's inbox.
func (w Workflow) inbox(folder string) keys.BatchID {
	return keys.InboxBatchID(w.Tenant, w.Project, w.ID, folder)
}

// CreateWorkflow creates a workflow in an existing project.
func (s *Store) CreateWorkflow(ctx context.Context, w Workflow) (Workflow, error) {
	w.ID = keys.NewID[keys.WorkflowID]()
	now := s.Now()
	w.Updated = keys.Time(now)
	err := s.transact(ctx,
		s.exists(w.Tenant.Project(w.Project)),
		s.fresh(whole(w, w.Tenant.Workflow(w.Project, w.ID), w.Tenant.WorkflowEntry(w.Project, now))),
	)
	var no refused
	if errors.As(err, &no) {
		return Workflow{}, ErrNotFound
	}
	return w, err
}

// ChangeWorkflow replaces the content of a workflow. Existing batches keep their
// thresholds. If was is not empty, it is the time of the change that the caller has
// read: the error is ErrMoved if there was a later one.
func (s *Store) ChangeWorkflow(ctx context.Context, w Workflow, was string) (Workflow, error) {
	now := s.Now()
	// Each change has a time of its own.
	if read, err := keys.ParseTime(was); err == nil && !now.Truncate(time.Millisecond).After(read) {
		now = read.Add(time.Millisecond)
	}
	w.Updated = keys.Time(now)
	update := func(in *dynamodb.UpdateItemInput) error {
		if was != "" {
			in.ConditionExpression = aws.String("updatedAt = :was")
			in.ExpressionAttributeValues[":was"] = str(was)
		}
		_, err := s.DB.UpdateItem(ctx, in)
		return err
	}
	err := update(&dynamodb.UpdateItemInput{
		TableName:                &s.Table,
		Key:                      w.Tenant.Workflow(w.Project, w.ID).Attributes(),
		UpdateExpression:         aws.String("SET #name = :name, extraction = :extraction, confidenceThreshold = :confidence, reviewThreshold = :review, updatedAt = :updated, GSI1SK = :GSI1SK"),
		ConditionExpression:      aws.String("attribute_exists(PK)"),
		ExpressionAttributeNames: map[string]string{"#name": "name"},
		ExpressionAttributeValues: values(map[string]types.AttributeValue{
			":name":       str(w.Name),
			":extraction": str(w.Extraction),
			":confidence": &types.AttributeValueMemberN{Value: fmt.Sprint(w.ConfidenceThreshold)},
			":review":     &types.AttributeValueMemberN{Value: fmt.Sprint(w.ReviewThreshold)},
			":updated":    str(w.Updated),
		}, sortValue(w.Tenant.WorkflowEntry(w.Project, now))),
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		if _, gone := s.Workflow(ctx, w.Tenant, w.Project, w.ID); was != "" && gone == nil {
			return Workflow{}, err
		}
		return Workflow{}, ErrNotFound
	}
	return w, err
}

// Workflow reads a workflow as it is now: a document that is tried again after a change of its workflow
// must not be read by the earlier one.
func (s *Store) Workflow(ctx context.Context, t keys.Tenant, p keys.ProjectID, id keys.WorkflowID) (Workflow, error) {
	return get[Workflow](ctx, s, t.Workflow(p, id), true)
}

// Workflows lists the workflows of a project, newest change first.
func (s *Store) Workflows(ctx context.Context, t keys.Tenant, p keys.ProjectID, cursor string) (Page[Workflow], error) {
	return list[Workflow](ctx, s, t.Workflows(p), cursor, 50, func(sk string) (keys.Key, error) {
		id, err := keys.IDOf[keys.WorkflowID]("WORKFLOW#", sk)
		if err != nil {
			return keys.Key{}, err
		}
		return t.Workflow(p, id), nil
	})
}
