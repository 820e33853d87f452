package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// reports returns the jobs that report a batch to the webhook of its project and to
// people. They are written with the batch's status, so that no report is lost.
func (s *Store) reports(ctx context.Context, b Batch) ([]types.TransactWriteItem, error) {
	if b.Status == Processing {
		return nil, nil
	}
	p, err := s.Project(ctx, b.Tenant, b.Project)
	if errors.Is(err, ErrNotFound) { // it is being deleted
		return nil, nil
	}
	var jobs []types.TransactWriteItem
	if p.Webhook != "" {
		jobs = append(jobs, s.startReport(b, JobHook))
	}
	if len(p.Watchers) > 0 {
		jobs = append(jobs, s.startReport(b, JobMail))
	}
	return jobs, err
}

// startReport returns the write of a job that reports a batch. If the job exists, it
// is due again at once, with new attempts, and its owner cannot drop it.
func (s *Store) startReport(b Batch, kind string) types.TransactWriteItem {
	now := s.Now()
	w := s.start(b, kind, now)
	*w.Update.UpdateExpression = "SET tenantId = :tenant, projectId = :project, batchId = :batch, kind = :kind, dueAt = :due, " +
		"GSI3PK = :GSI3PK, GSI3SK = :GSI3SK, changedAt = :due, attempts = :none REMOVE #owner, mailed"
	w.Update.ExpressionAttributeNames = map[string]string{"#owner": "owner"}
	w.Update.ExpressionAttributeValues[":project"] = str(b.Project.String())
	w.Update.ExpressionAttributeValues[":none"] = num(0)
	return w
}

// Attempted records a failed attempt of a report that the caller has claimed.
func (s *Store) Attempted(ctx context.Context, j Job) error {
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.Table,
		Key:                       j.key().Attributes(),
		UpdateExpression:          aws.String("ADD attempts :one"),
		ConditionExpression:       aws.String("#owner = :owner"),
		ExpressionAttributeNames:  map[string]string{"#owner": "owner"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":owner": str(j.Owner), ":one": num(1)},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return nil
	}
	return err
}

// Mailed records that a user needs no further attempt of a report that the caller has
// claimed.
func (s *Store) Mailed(ctx context.Context, j Job, u keys.UserID) error {
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &s.Table,
		Key:                      j.key().Attributes(),
		UpdateExpression:         aws.String("ADD mailed :user"),
		ConditionExpression:      aws.String("#owner = :owner"),
		ExpressionAttributeNames: map[string]string{"#owner": "owner"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":owner": str(j.Owner), ":user": &types.AttributeValueMemberSS{Value: []string{u.String()}},
		},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return nil
	}
	return err
}

// SetReporting replaces how finished batches of a project are reported.
func (s *Store) SetReporting(ctx context.Context, t keys.Tenant, p keys.ProjectID, r Reporting) error {
	set, remove := "", ""
	v := map[string]types.AttributeValue{}
	names := map[string]string{}
	for name, value := range map[string]string{"webhook": r.Webhook, "webhookSecret": r.Secret, "problem": r.Problem} {
		names["#"+name] = name
		if value == "" {
			remove += ", #" + name
			continue
		}
		set += ", #" + name + " = :" + name
		v[":"+name] = str(value)
	}
	names["#watchers"] = "watchers"
	if len(r.Watchers) == 0 {
		remove += ", #watchers"
	} else {
		list := &types.AttributeValueMemberL{}
		for _, email := range r.Watchers {
			list.Value = append(list.Value, str(email))
		}
		set += ", #watchers = :watchers"
		v[":watchers"] = list
	}
	expression := ""
	if set != "" {
		expression = "SET " + set[2:]
	}
	if remove != "" {
		expression += " REMOVE " + remove[2:]
	}
	in := &dynamodb.UpdateItemInput{
		TableName:                &s.Table,
		Key:                      t.Project(p).Attributes(),
		UpdateExpression:         &expression,
		ConditionExpression:      aws.String("attribute_exists(PK)"),
		ExpressionAttributeNames: names,
	}
	if len(v) > 0 {
		in.ExpressionAttributeValues = v
	}
	_, err := s.DB.UpdateItem(ctx, in)
	if err = moved(err); errors.Is(err, ErrMoved) {
		return ErrNotFound
	}
	return err
}

// GaveUp records on a project that a report was given up.
func (s *Store) GaveUp(ctx context.Context, t keys.Tenant, p keys.ProjectID, why string) error {
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.Table,
		Key:                       t.Project(p).Attributes(),
		UpdateExpression:          aws.String("SET problem = :why"),
		ConditionExpression:       aws.String("attribute_exists(PK)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":why": str(fmt.Sprintf("%s: %.300s", s.Now().UTC().Format(time.DateTime), why))},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return nil
	}
	return err
}
