package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
	Created    string         `dynamodbav:"createdAt" json:"createdAt"`
}

// CreateProject creates a project, if the plan of the tenant allows it.
func (s *Store) CreateProject(ctx context.Context, t keys.Tenant, name string) (Project, error) {
	tenant, err := s.counted(ctx, t)
	if err != nil {
		return Project{}, err
	}
	plan, _ := PlanOf(tenant.Plan)
	p := Project{Tenant: t, ID: keys.NewID[keys.ProjectID](), Name: name, Created: s.now()}
	err = s.transact(ctx, s.fresh(whole(p, t.Project(p.ID))), s.step(t, projectCount, 1, plan.Projects))
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

// Projects lists the projects of a tenant.
func (s *Store) Projects(ctx context.Context, t keys.Tenant, cursor string) (Page[Project], error) {
	return list[Project](ctx, s, t.Projects(), cursor, 50, nil)
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

// CreateWorkflow creates a workflow in an existing project.
func (s *Store) CreateWorkflow(ctx context.Context, w Workflow) (Workflow, error) {
	w.ID = keys.NewID[keys.WorkflowID]()
	now := s.Now()
	w.Updated = keys.Time(now)
	err := s.transact(ctx,
		types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName:           &s.Table,
			Key:                 w.Tenant.Project(w.Project).Attributes(),
			ConditionExpression: aws.String("attribute_exists(PK)"),
		}},
		s.fresh(whole(w, w.Tenant.Workflow(w.Project, w.ID), w.Tenant.WorkflowEntry(w.Project, now))),
	)
	var no refused
	if errors.As(err, &no) {
		return Workflow{}, ErrNotFound
	}
	return w, err
}

// ChangeWorkflow replaces the content of a workflow. Existing batches keep their
// thresholds.
func (s *Store) ChangeWorkflow(ctx context.Context, w Workflow) (Workflow, error) {
	now := s.Now()
	w.Updated = keys.Time(now)
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &s.Table,
		Key:                      w.Tenant.Workflow(w.Project, w.ID).Attributes(),
		UpdateExpression:         aws.String("SET #name = :name, extraction = :extraction, confidenceThreshold = :confidence, reviewThreshold = :review, updatedAt = :updated, GSI1PK = :GSI1PK, GSI1SK = :GSI1SK"),
		ConditionExpression:      aws.String("attribute_exists(PK)"),
		ExpressionAttributeNames: map[string]string{"#name": "name"},
		ExpressionAttributeValues: values(map[string]types.AttributeValue{
			":name":       str(w.Name),
			":extraction": str(w.Extraction),
			":confidence": &types.AttributeValueMemberN{Value: fmt.Sprint(w.ConfidenceThreshold)},
			":review":     &types.AttributeValueMemberN{Value: fmt.Sprint(w.ReviewThreshold)},
			":updated":    str(w.Updated),
		}, entryValues(w.Tenant.WorkflowEntry(w.Project, now))),
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return Workflow{}, ErrNotFound
	}
	return w, err
}

// Workflow reads a workflow.
func (s *Store) Workflow(ctx context.Context, t keys.Tenant, p keys.ProjectID, id keys.WorkflowID) (Workflow, error) {
	return get[Workflow](ctx, s, t.Workflow(p, id), false)
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
