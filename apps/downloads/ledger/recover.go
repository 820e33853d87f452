package ledger

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Restored is both tables as they were at a time.
type Restored struct {
	DB                      *dynamodb.Client
	JobsTable, BatchesTable string
}

// RestoreTo restores both tables as they were at a time into second tables, and returns
// them when they can be read.
func RestoreTo(ctx context.Context, db *dynamodb.Client, at time.Time) (*Restored, error) {
	suffix := at.UTC().Format("-20060102T150405")
	r := &Restored{DB: db, JobsTable: JobsTable + suffix, BatchesTable: BatchesTable + suffix}
	for from, to := range map[string]string{JobsTable: r.JobsTable, BatchesTable: r.BatchesTable} {
		_, err := db.RestoreTableToPointInTime(ctx, &dynamodb.RestoreTableToPointInTimeInput{SourceTableName: aws.String(from), TargetTableName: aws.String(to), RestoreDateTime: &at})
		var there *types.TableAlreadyExistsException
		var off *types.PointInTimeRecoveryUnavailableException
		switch {
		case err == nil, errors.As(err, &there): // a previous attempt has restored it
		case errors.As(err, &off):
			return nil, fmt.Errorf("table %s has no point-in-time recovery: only those of --environment prod have it", from)
		default:
			return nil, fmt.Errorf("restore table %s as it was at %s: %w", from, at.Format(time.RFC3339), err)
		}
	}
	for _, table := range []string{r.JobsTable, r.BatchesTable} {
		if err := r.wait(ctx, table); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// wait waits until a table can be read, with all its indexes.
func (r *Restored) wait(ctx context.Context, table string) error {
	for {
		answer, err := r.DB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)})
		if err != nil {
			return fmt.Errorf("wait for the restore of table %s: %w", table, err)
		}
		ready := answer.Table.TableStatus == types.TableStatusActive
		for _, x := range answer.Table.GlobalSecondaryIndexes {
			ready = ready && x.IndexStatus == types.IndexStatusActive
		}
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// Recovered is the result of Recover for a day.
type Recovered struct {
	Date    string `json:"date"`
	Batches int    `json:"batches"` // of the day, at the time
	Files   int    `json:"files"`   // of its batches, at the time
	Differ  int    `json:"differ"`  // records that differ now
	Gone    int    `json:"gone"`    // records that do not exist any more
	Written int    `json:"written"`
}

// Recover compares the batches of a day and their files with what they were and, if write
// is set, restores the records that differ or are gone. Records that are newer are not
// changed.
func (r *Restored) Recover(ctx context.Context, date string, write bool) (Recovered, error) {
	out := Recovered{Date: date}
	batches, err := r.query(ctx, r.BatchesTable, PollingDateIndex, "PollingDate", date)
	if err != nil {
		return out, err
	}
	for _, b := range batches {
		out.Batches++
		id, ok := b["BatchID"].(*types.AttributeValueMemberS)
		if !ok {
			return out, fmt.Errorf("recover the batches of %s: one has no BatchID", date)
		}
		files, err := r.query(ctx, r.JobsTable, BatchIndex, "BatchID", id.Value)
		if err != nil {
			return out, err
		}
		for _, f := range files {
			out.Files++
			if err := r.put(ctx, JobsTable, "FileID", f, write, &out); err != nil {
				return out, err
			}
		}
		if err := r.put(ctx, BatchesTable, "BatchID", b, write, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (r *Restored) query(ctx context.Context, table, index, attribute, value string) (items []map[string]types.AttributeValue, err error) {
	pages := dynamodb.NewQueryPaginator(r.DB, &dynamodb.QueryInput{
		TableName: aws.String(table), IndexName: aws.String(index),
		KeyConditionExpression: aws.String("#a = :a"), ExpressionAttributeNames: map[string]string{"#a": attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":a": &types.AttributeValueMemberS{Value: value}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", table, err)
		}
		items = append(items, page.Items...)
	}
	return items, nil
}

// put writes a record as it was, if it differs and does not change meanwhile.
func (r *Restored) put(ctx context.Context, table, id string, was map[string]types.AttributeValue, write bool, out *Recovered) error {
	answer, err := r.DB.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(table), Key: map[string]types.AttributeValue{id: was[id]}, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return fmt.Errorf("read table %s: %w", table, err)
	}
	in := &dynamodb.PutItemInput{TableName: aws.String(table), Item: was}
	switch {
	case answer.Item == nil:
		out.Gone++
		in.ConditionExpression = aws.String("attribute_not_exists(" + id + ")")
	case reflect.DeepEqual(answer.Item, was):
		return nil
	default:
		out.Differ++
		in.ConditionExpression = aws.String("#s = :s")
		in.ExpressionAttributeNames = map[string]string{"#s": "Status"}
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":s": answer.Item["Status"]}
	}
	if !write {
		return nil
	}
	_, err = r.DB.PutItem(ctx, in)
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return errors.New("a record is being changed: stop the services before you recover")
	}
	if err != nil {
		return fmt.Errorf("restore a record of table %s: %w", table, err)
	}
	out.Written++
	return nil
}
