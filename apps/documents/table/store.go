// Package table stores tenants, people, projects, workflows, batches and documents
// in one table, and is the only package that accesses it.
//
// A transaction that changes the status of a document also changes the counts of
// its batch, so the counts are always right, whatever crashes.
package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// Name is the table's name in the model.
const Name = "documents"

// Store gives access to the table.
type Store struct {
	DB    *dynamodb.Client
	Table string

	// Retention is how long failed documents and batches are listed by status. It defaults
	// to DefaultRetention.
	Retention time.Duration

	// Abandoned is how long the creation of a large batch may make no progress
	// before its documents are removed.
	Abandoned time.Duration

	// Grace is how long after a deletion the bucket is searched again for objects that
	// a request or a processor of before the deletion has written. It must be longer
	// than they take.
	Grace time.Duration

	Now func() time.Time
}

// DefaultRetention is how long failed documents and batches are listed.
const DefaultRetention = 30 * 24 * time.Hour

// New returns a store with default settings.
func New(db *dynamodb.Client) *Store {
	return &Store{DB: db, Table: Name, Retention: DefaultRetention, Abandoned: 15 * time.Minute, Grace: 3 * time.Minute, Now: time.Now}
}

// ErrNotFound is returned for something that does not exist, or belongs to another
// tenant: callers cannot distinguish the two.
var ErrNotFound = errors.New("it does not exist")

// ErrMoved is returned for a change of something that has changed since it was
// read.
var ErrMoved = errors.New("it has changed meanwhile")

// ErrBusy is returned when a change conflicts with other changes too often.
var ErrBusy = errors.New("too many concurrent changes: retry")

// get reads one item. If an eventually consistent read finds none, a consistent one decides: the
// item may have been written a moment ago, and callers take its absence as final.
func get[T any](ctx context.Context, s *Store, key keys.Key, consistent bool) (T, error) {
	var into T
	out, err := s.DB.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.Table, Key: key.Attributes(), ConsistentRead: &consistent})
	if err != nil {
		return into, fmt.Errorf("read an item: %w", err)
	}
	if out.Item == nil && !consistent {
		return get[T](ctx, s, key, true)
	}
	if out.Item == nil {
		return into, ErrNotFound
	}
	return into, read(out.Item, &into)
}

func read(item map[string]types.AttributeValue, into any) error {
	if err := attributevalue.UnmarshalMap(item, into); err != nil {
		return fmt.Errorf("decode an item: %w", err)
	}
	return nil
}

// Page is a page of a list, and the cursor of the next page; "" on the last one.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// list reads a page of at most limit items. item makes the key of an item from its
// sort key; lists in the table itself need none.
func list[T any](ctx context.Context, s *Store, r keys.Range, cursor string, limit int32, item func(sk string) (keys.Key, error)) (Page[T], error) {
	page := Page[T]{Items: []T{}}
	in := r.Query(s.Table)
	in.Limit = aws.Int32(limit)
	if cursor != "" {
		start, err := r.After(cursor, item)
		if err != nil {
			return page, fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		in.ExclusiveStartKey = start
	}
	out, err := s.DB.Query(ctx, in)
	if err != nil {
		return page, fmt.Errorf("read a list: %w", err)
	}
	if err := attributevalue.UnmarshalListOfMaps(out.Items, &page.Items); err != nil {
		return page, fmt.Errorf("decode an item: %w", err)
	}
	page.Next = r.Cursor(out.LastEvaluatedKey)
	return page, nil
}

// whole returns an item with its keys.
func whole(v any, key keys.Key, entries ...keys.Entry) map[string]types.AttributeValue {
	item, err := attributevalue.MarshalMap(v)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be an item: %v", v, err))
	}
	maps.Copy(item, key.Attributes())
	for _, e := range entries {
		maps.Copy(item, e.Attributes())
	}
	return item
}

// fresh returns a put of an item that must not exist.
func (s *Store) fresh(item map[string]types.AttributeValue) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &s.Table, Item: item, ConditionExpression: aws.String("attribute_not_exists(PK)")}}
}

// exists returns a condition check that an item exists.
func (s *Store) exists(key keys.Key) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &s.Table, Key: key.Attributes(), ConditionExpression: aws.String("attribute_exists(PK)"),
	}}
}

// absent returns a condition check that an item does not exist.
func (s *Store) absent(key keys.Key) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &s.Table, Key: key.Attributes(), ConditionExpression: aws.String("attribute_not_exists(PK)"),
	}}
}

// put returns a put of an item that may exist.
func (s *Store) put(item map[string]types.AttributeValue) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &s.Table, Item: item}}
}

// moved turns a failed condition into ErrMoved.
func moved(err error) error {
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return ErrMoved
	}
	return err
}

// refused lists the indexes of the writes whose conditions failed.
type refused []int

func (r refused) Error() string {
	return fmt.Sprintf("conditions %v of the transaction failed", []int(r))
}

// transact applies writes atomically, and retries after conflicts. The error is a
// refused if conditions fail.
func (s *Store) transact(ctx context.Context, writes ...types.TransactWriteItem) error {
	for try := range 12 {
		_, err := s.DB.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
		var cancelled *types.TransactionCanceledException
		if !errors.As(err, &cancelled) {
			return err
		}
		var no refused
		busy := false
		for i, reason := range cancelled.CancellationReasons {
			switch aws.ToString(reason.Code) {
			case "ConditionalCheckFailed":
				no = append(no, i)
			case "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
				busy = true
			}
		}
		switch {
		case no != nil:
			return no
		case !busy:
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
	return ErrBusy
}

// pause waits longer with each attempt, with jitter.
func pause(ctx context.Context, try int) error {
	most := min(10*time.Millisecond<<try, time.Second)
	wait := time.NewTimer(rand.N(most))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return nil
	}
}

// now returns the current time in the format of items.
func (s *Store) now() string { return keys.Time(s.Now()) }

func str(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }

func num[N int | int64](v N) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(v)}
}

// values merges the values of an expression.
func values(parts ...map[string]types.AttributeValue) map[string]types.AttributeValue {
	all := make(map[string]types.AttributeValue)
	for _, p := range parts {
		maps.Copy(all, p)
	}
	return all
}
