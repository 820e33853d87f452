package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// A transaction is limited to 100 writes and 4 MB; these are below the limits.
const (
	maxWrites = 100
	maxBytes  = 3 << 20
)

// Settle writes the outcomes of documents in processing, with the counts of their
// batch. It skips outcomes of documents that have changed meanwhile, and returns
// the outcomes that were written.
func (s *Store) Settle(ctx context.Context, b Batch, outcomes []Outcome) ([]Outcome, error) {
	var settled []Outcome
	for len(outcomes) > 0 {
		n, size := 0, 0
		for n < len(outcomes) && n < maxWrites-1 && (n == 0 || size+outcomes[n].size() <= maxBytes) {
			size += outcomes[n].size()
			n++
		}
		group := outcomes[:n:n]
		outcomes = outcomes[n:]
		for len(group) > 0 {
			err := s.settleGroup(ctx, b, group)
			var late refused
			if errors.As(err, &late) {
				if late[len(late)-1] == len(group) {
					return settled, fmt.Errorf("settle documents of batch %s: %w", b.ID, ErrNotFound)
				}
				for _, i := range slices.Backward(late) {
					group = slices.Delete(group, i, i+1)
				}
				continue
			}
			if err != nil {
				return settled, fmt.Errorf("settle documents of batch %s: %w", b.ID, err)
			}
			settled = append(settled, group...)
			break
		}
	}
	return settled, nil
}

func (s *Store) settleGroup(ctx context.Context, b Batch, group []Outcome) error {
	var c Counts
	writes := make([]types.TransactWriteItem, 0, len(group)+1)
	for _, o := range group {
		writes = append(writes, s.settle(o))
		*c.Of(o.Status)++
	}
	// A batch with documents in processing is itself in processing, so its
	// status does not change.
	writes = append(writes, types.TransactWriteItem{Update: &types.Update{
		TableName:           &s.Table,
		Key:                 b.key().Attributes(),
		UpdateExpression:    aws.String("ADD processing :p, succeeded :s, failed :f, review :r"),
		ConditionExpression: aws.String("attribute_exists(PK)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":p": num(c.Processing - len(group)), ":s": num(c.Succeeded), ":f": num(c.Failed), ":r": num(c.Review),
		},
	}})
	return s.transact(ctx, writes...)
}

// Defer records that a document is to be retried later.
func (s *Store) Defer(ctx context.Context, d Document, reason string, at time.Time) error {
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &s.Table,
		Key:                      d.Tenant.Document(d.Batch, d.ID).Attributes(),
		UpdateExpression:         aws.String("SET attempts = :attempts, retryAt = :at, reason = :reason"),
		ConditionExpression:      aws.String("#status = :was"),
		ExpressionAttributeNames: map[string]string{"#status": "status"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":was": str(string(Processing)), ":attempts": num(d.Attempts + 1), ":at": str(keys.Time(at)), ":reason": str(reason),
		},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return nil // another process was faster
	}
	return err
}

// Finish sets a batch's final status if none of its documents is in processing, and
// ends its run. It reports whether it did.
func (s *Store) Finish(ctx context.Context, seen Batch) (Batch, bool, error) {
	for range 8 {
		before, err := s.Batch(ctx, seen.Tenant, seen.Project, seen.ID)
		if err != nil {
			return before, false, err
		}
		after := before
		after.Status = before.Verdict()
		if after.Status == Processing {
			return before, false, nil
		}
		reports, err := s.reports(ctx, after)
		if err != nil {
			return before, false, err
		}
		writes := []types.TransactWriteItem{s.become(before, after), s.end(before, JobWork)}
		err = s.transact(ctx, slices.Concat(writes, s.clearing(after), reports)...)
		var no refused
		if errors.As(err, &no) {
			continue
		}
		return after, err == nil, err
	}
	return seen, false, ErrBusy
}

// Move changes the status of a document for a review or a retry, and the batch's
// counts with it. A retry counts as another document of the plan. It returns ErrMoved if the document has changed meanwhile.
func (s *Store) Move(ctx context.Context, seen Batch, o Outcome) error {
	var plan Plan
	if o.Status == Processing {
		var err error
		if plan, err = s.plan(ctx, seen.Tenant); err != nil {
			return err
		}
	}
	for range 8 {
		before, err := s.Batch(ctx, seen.Tenant, seen.Project, seen.ID)
		if err != nil {
			return err
		}
		after := before
		*after.Of(o.Document.Status)--
		*after.Of(o.Status)++
		after.Status = after.Verdict()
		writes := []types.TransactWriteItem{s.settle(o), s.become(before, after)}
		if o.Status == Processing {
			writes = append(writes, s.start(after, JobWork, s.Now()), s.use(plan, before.Tenant, 1))
		} else if before.Status != after.Status {
			reports, err := s.reports(ctx, after)
			if err != nil {
				return err
			}
			writes = append(writes, reports...)
		}
		err = s.transact(ctx, append(writes, s.clearing(after)...)...)
		var no refused
		if !errors.As(err, &no) {
			return err
		}
		if no[0] == 0 {
			return ErrMoved
		}
		if o.Status == Processing && slices.Contains(no, 3) {
			return s.tooMany(ctx, plan, before.Tenant)
		}
	}
	return ErrBusy
}

// clearing returns the job that removes a failed batch from GSI2 after the
// retention time.
func (s *Store) clearing(b Batch) []types.TransactWriteItem {
	if b.Failed == 0 {
		return nil
	}
	return []types.TransactWriteItem{s.start(b, JobHide, s.Now().Add(s.Retention))}
}

// Clear removes items that failed before the retention time from GSI2. It returns
// when there will be more to remove, or the zero time.
func (s *Store) Clear(ctx context.Context, b Batch) (time.Time, error) {
	cutoff := s.Now().Add(-s.Retention)
	cursor := ""
	for {
		page, err := s.DocumentsIn(ctx, b, Failed, cursor, 100)
		if err != nil {
			return time.Time{}, err
		}
		for _, d := range page.Items {
			updated, err := keys.ParseTime(d.Updated)
			if err != nil {
				return time.Time{}, err
			}
			if updated.After(cutoff) { // and so are all later ones
				return updated.Add(s.Retention), nil
			}
			if err := s.hide(ctx, b.Tenant.Document(b.ID, d.ID), d.Updated); err != nil {
				return time.Time{}, err
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	updated, err := keys.ParseTime(b.Updated)
	if err != nil || b.Status != Failed {
		return time.Time{}, err
	}
	if updated.After(cutoff) {
		return updated.Add(s.Retention), nil
	}
	return time.Time{}, s.hide(ctx, b.key(), b.Updated)
}

// hide removes a failed item that has not changed since from GSI2.
func (s *Store) hide(ctx context.Context, key keys.Key, updated string) error {
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &s.Table,
		Key:                      key.Attributes(),
		UpdateExpression:         aws.String("REMOVE GSI2PK, GSI2SK"),
		ConditionExpression:      aws.String("#status = :failed AND updatedAt = :updated"),
		ExpressionAttributeNames: map[string]string{"#status": "status"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":failed": str(string(Failed)), ":updated": str(updated),
		},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return nil
	}
	return err
}
