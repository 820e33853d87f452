// Package table keeps tenants, their people, projects, workflows, batches and
// documents in one table, and is the only one that asks it.
//
// Whatever moves a document from one status to another also moves the counts of
// its batch, in one transaction: the counts are right at any moment, whoever
// crashes when.
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

// Name is what the model calls the table.
const Name = "documents"

// Store is the table.
type Store struct {
	DB    *dynamodb.Client
	Table string

	// Retention is how long a failed document or batch is found by its status.
	Retention time.Duration

	// Abandoned is how long the making of a large batch may stand still before
	// it is cleaned up.
	Abandoned time.Duration

	Now func() time.Time
}

// New is a store with the usual settings.
func New(db *dynamodb.Client) *Store {
	return &Store{DB: db, Table: Name, Retention: 30 * 24 * time.Hour, Abandoned: 15 * time.Minute, Now: time.Now}
}

// ErrNotFound is the error of something that is not there, or not this tenant's:
// the two cannot be told apart from outside.
var ErrNotFound = errors.New("there is no such thing")

// ErrMoved is the error of a change that came too late: the thing is no longer
// in the state that was seen.
var ErrMoved = errors.New("it was changed meanwhile")

// ErrBusy is the error of a change that others were in the way of, again and
// again.
var ErrBusy = errors.New("too many change it at once: try again")

// get reads one item.
func get[T any](ctx context.Context, s *Store, key keys.Key, consistent bool) (T, error) {
	var into T
	out, err := s.DB.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.Table, Key: key.Attributes(), ConsistentRead: &consistent})
	if err != nil {
		return into, fmt.Errorf("read an item: %w", err)
	}
	if out.Item == nil {
		return into, ErrNotFound
	}
	return into, read(out.Item, &into)
}

func read(item map[string]types.AttributeValue, into any) error {
	if err := attributevalue.UnmarshalMap(item, into); err != nil {
		return fmt.Errorf("the item is not what it should be: %w", err)
	}
	return nil
}

// Page is a part of a list, and where the next part begins; "" is the end.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// list reads a page of at most limit items. item makes the key of an item from
// its sort key; lists in the table itself need none.
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
		return page, fmt.Errorf("an item is not what it should be: %w", err)
	}
	page.Next = r.Cursor(out.LastEvaluatedKey)
	return page, nil
}

// whole is an item with its keys.
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

// fresh is a put of something that must not be there.
func (s *Store) fresh(item map[string]types.AttributeValue) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &s.Table, Item: item, ConditionExpression: aws.String("attribute_not_exists(PK)")}}
}

// put is a put of something that may be there.
func (s *Store) put(item map[string]types.AttributeValue) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &s.Table, Item: item}}
}

// put1 puts one new item, or says ErrMoved if it is there.
func (s *Store) put1(ctx context.Context, item map[string]types.AttributeValue) error {
	_, err := s.DB.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.Table, Item: item, ConditionExpression: aws.String("attribute_not_exists(PK)")})
	return moved(err)
}

// moved makes ErrMoved of a condition that did not hold.
func moved(err error) error {
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return ErrMoved
	}
	return err
}

// refused are the places of the writes whose conditions did not hold.
type refused []int

func (r refused) Error() string {
	return fmt.Sprintf("conditions %v of the transaction do not hold", []int(r))
}

// transact does all writes or none. Who is in the way is waited for. The error
// is refused when conditions do not hold.
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

// pause waits longer with each try, and never two alike.
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

// now is the time as items have it.
func (s *Store) now() string { return keys.Time(s.Now()) }

func str(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }

func num[N int | int64](v N) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(v)}
}

// values puts together the values of an expression.
func values(parts ...map[string]types.AttributeValue) map[string]types.AttributeValue {
	all := make(map[string]types.AttributeValue)
	for _, p := range parts {
		maps.Copy(all, p)
	}
	return all
}
