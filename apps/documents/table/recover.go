package table

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// RestoreTo restores the table as it was at a time into a second table, and returns
// that table when it can be read.
func (s *Store) RestoreTo(ctx context.Context, at time.Time) (*Store, error) {
	old := *s
	old.Table = s.Table + "-" + at.UTC().Format("20060102T150405")
	_, err := s.DB.RestoreTableToPointInTime(ctx, &dynamodb.RestoreTableToPointInTimeInput{
		SourceTableName: &s.Table, TargetTableName: &old.Table, RestoreDateTime: &at,
	})
	var there *types.TableAlreadyExistsException
	if err != nil && !errors.As(err, &there) { // a previous attempt has restored it
		return nil, fmt.Errorf("restore table %s as it was at %s: %w", s.Table, at.Format(time.RFC3339), err)
	}
	for {
		out, err := s.DB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &old.Table})
		if err != nil {
			return nil, fmt.Errorf("wait for the restore of table %s: %w", old.Table, err)
		}
		if out.Table.TableStatus == types.TableStatusActive {
			return &old, nil
		}
		if err := pause(ctx, 7); err != nil {
			return nil, err
		}
	}
}

// Recovered is the result of Recover for a batch.
type Recovered struct {
	Batch     keys.BatchID `json:"batchId"`
	Documents int          `json:"documents"` // in the older table
	Differ    int          `json:"differ"`    // that differ
	Since     int          `json:"newSince"`  // that are newer, and are not changed
	Written   int          `json:"written"`   // that were restored
}

// Recover compares the documents of a batch with those of an older table and, if
// write is set, restores those that differ, each under the condition that it does
// not change meanwhile. The counts of the batch are updated.
func (s *Store) Recover(ctx context.Context, old *Store, id keys.BatchID, write bool) (Recovered, error) {
	r := Recovered{Batch: id}
	b, err := s.FindBatch(ctx, id)
	if err != nil {
		return r, fmt.Errorf("recover batch %s: %w", id, err)
	}
	in := b.Tenant.Documents(b.ID).Query(s.Table)
	in.ConsistentRead = aws.Bool(true)
	in.Limit = aws.Int32(100)
	for {
		out, err := s.DB.Query(ctx, in)
		if err != nil {
			return r, fmt.Errorf("read the current documents: %w", err)
		}
		for _, now := range out.Items {
			if err := s.recover1(ctx, old, b, now, write, &r); err != nil {
				return r, err
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			break
		}
	}
	if write && r.Written > 0 {
		if _, err := s.recountInto(ctx, b); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (s *Store) recover1(ctx context.Context, old *Store, b Batch, now map[string]types.AttributeValue, write bool, r *Recovered) error {
	out, err := s.DB.GetItem(ctx, &dynamodb.GetItemInput{TableName: &old.Table, Key: map[string]types.AttributeValue{"PK": now["PK"], "SK": now["SK"]}})
	if err != nil {
		return fmt.Errorf("read the older documents: %w", err)
	}
	if out.Item == nil {
		r.Since++
		return nil
	}
	r.Documents++
	// A document that was listed since stays in the list.
	if _, listed := out.Item["GSI1PK"]; !listed && now["GSI1PK"] != nil {
		out.Item["GSI1PK"], out.Item["GSI1SK"] = now["GSI1PK"], now["GSI1SK"]
	}
	if reflect.DeepEqual(out.Item, now) {
		return nil
	}
	r.Differ++
	if !write {
		return nil
	}
	var d Document
	if err := attributevalue.UnmarshalMap(now, &d); err != nil {
		return fmt.Errorf("decode a document: %w", err)
	}
	_, err = s.DB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                &s.Table,
		Item:                     out.Item,
		ConditionExpression:      aws.String("#status = :status AND updatedAt = :updated"),
		ExpressionAttributeNames: map[string]string{"#status": "status"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":status": now["status"], ":updated": now["updatedAt"],
		},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return fmt.Errorf("document %s of batch %s is being changed: stop the processors before you recover", d.ID, b.ID)
	}
	if err != nil {
		return fmt.Errorf("restore a document: %w", err)
	}
	r.Written++
	return nil
}

// recountInto sets a batch's counts and status from its documents.
func (s *Store) recountInto(ctx context.Context, b Batch) (Batch, error) {
	for range 8 {
		before, err := s.Batch(ctx, b.Tenant, b.Project, b.ID)
		if err != nil {
			return b, err
		}
		after := before
		if after.Counts, err = s.Recount(ctx, b); err != nil {
			return b, err
		}
		after.Status = after.Verdict()
		writes := []types.TransactWriteItem{s.become(before, after)}
		if after.Status == Processing {
			writes = append(writes, s.start(after, JobWork, s.Now()))
		}
		err = s.transact(ctx, append(writes, s.clearing(after)...)...)
		var no refused
		if errors.As(err, &no) {
			continue
		}
		return after, err
	}
	return b, ErrBusy
}
