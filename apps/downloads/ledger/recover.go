package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Restored is both tables as they were at a time.
type Restored struct {
	DB                      *dynamodb.Client
	JobsTable, BatchesTable string
	At                      time.Time
}

// RestoreTo restores both tables as they were at a time into second tables, and returns
// them when they can be read.
func RestoreTo(ctx context.Context, db *dynamodb.Client, at time.Time) (*Restored, error) {
	suffix := at.UTC().Format("-20060102T150405")
	r := &Restored{DB: db, JobsTable: JobsTable + suffix, BatchesTable: BatchesTable + suffix, At: at}
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
	Date    string   `json:"date"`
	Batches int      `json:"batches"` // of the day, at the time
	Files   int      `json:"files"`   // of its batches, at the time
	Differ  int      `json:"differ"`  // records that differ now
	Gone    int      `json:"gone"`    // records that do not exist any more
	Newer   []string `json:"newer"`   // the ids of records that differ because they were changed after the time
	Written int      `json:"written"`
}

// Recovery says what Recover writes.
type Recovery struct {
	Write     bool
	Overwrite []string // the ids of newer records that are restored too
}

// Recover compares the batches of a day and their files with what they were and, if that is
// asked for, restores the records that are gone, and those that differ although the pipeline
// has not changed them since. Newer records are restored only if they are named.
func (r *Restored) Recover(ctx context.Context, date string, how Recovery) (Recovered, error) {
	out := Recovered{Date: date, Newer: []string{}}
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
			if err := r.put(ctx, JobsTable, "FileID", f, how, &out); err != nil {
				return out, err
			}
		}
		if err := r.put(ctx, BatchesTable, "BatchID", b, how, &out); err != nil {
			return out, err
		}
	}
	slices.Sort(out.Newer)
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

// put writes a record as it was, if it is gone or differs, is not newer, and does not change
// meanwhile.
func (r *Restored) put(ctx context.Context, table, id string, was map[string]types.AttributeValue, how Recovery, out *Recovered) error {
	answer, err := r.DB.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(table), Key: map[string]types.AttributeValue{id: was[id]}, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return fmt.Errorf("read table %s: %w", table, err)
	}
	in := &dynamodb.PutItemInput{TableName: aws.String(table), Item: was}
	write := how.Write
	switch {
	case answer.Item == nil:
		out.Gone++
		in.ConditionExpression = aws.String("attribute_not_exists(" + id + ")")
	case equal(answer.Item, was):
		return nil
	default:
		out.Differ++
		if newer(answer.Item, r.At) {
			key := text(was[id])
			out.Newer = append(out.Newer, key)
			write = write && slices.Contains(how.Overwrite, key)
		}
		unchanged(in, answer.Item)
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

// changes are the attributes of jobs and batches of which each change of the pipeline sets
// or removes one, except for a renewed URL.
var changes = []string{"Status", "StatusUpdatedAt", "SentAt", "HeartbeatAt", "UpdatedAt"}

// unchanged makes it a request's condition that a record has not changed since it was read.
func unchanged(in *dynamodb.PutItemInput, item map[string]types.AttributeValue) {
	var all []string
	in.ExpressionAttributeNames = make(map[string]string)
	for i, attribute := range changes {
		n, v := fmt.Sprint("#a", i), fmt.Sprint(":a", i)
		in.ExpressionAttributeNames[n] = attribute
		value, has := item[attribute]
		if !has {
			all = append(all, "attribute_not_exists("+n+")")
			continue
		}
		all = append(all, n+" = "+v)
		if in.ExpressionAttributeValues == nil {
			in.ExpressionAttributeValues = make(map[string]types.AttributeValue)
		}
		in.ExpressionAttributeValues[v] = value
	}
	in.ConditionExpression = aws.String(strings.Join(all, " AND "))
}

// newer reports whether the pipeline has changed a job or a batch after a time.
func newer(item map[string]types.AttributeValue, at time.Time) bool {
	for _, attribute := range changes {
		switch v := item[attribute].(type) {
		case *types.AttributeValueMemberN: // epoch ms, of a job
			if n, err := strconv.ParseInt(v.Value, 10, 64); err == nil && n > at.UnixMilli() {
				return true
			}
		case *types.AttributeValueMemberS: // of a batch
			if when, err := time.Parse(time.RFC3339, v.Value); err == nil && when.After(at) {
				return true
			}
		}
	}
	return false
}

// equal compares two records. The order of a set's members has no meaning.
func equal(a, b map[string]types.AttributeValue) bool {
	return maps.EqualFunc(a, b, func(a, b types.AttributeValue) bool {
		x, isSet := a.(*types.AttributeValueMemberSS)
		y, areSets := b.(*types.AttributeValueMemberSS)
		if isSet && areSets {
			return slices.Equal(slices.Sorted(slices.Values(x.Value)), slices.Sorted(slices.Values(y.Value)))
		}
		return reflect.DeepEqual(a, b)
	})
}

// text returns a string, or "" for a value of another type.
func text(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
