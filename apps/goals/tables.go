package goals

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"
)

// choiceKey is the sort key of a person's choice in the near-real-time view. It is in
// the same partition as the pending balances, so that the same query returns it. It
// cannot be in the batch view, which each run replaces.
const choiceKey = "CHOICE"

// Tables reads and writes the two tables, except for the bulk load.
type Tables struct {
	DB  *dynamodb.Client
	Now func() time.Time
}

// ErrNoPerson is returned for a person who is not in the batch view.
var ErrNoPerson = errors.New("the batch view has no such person")

// ErrNoGoal is returned for the choice of a goal that the person does not have.
var ErrNoGoal = errors.New("the person has no such goal")

// Person reads both tables concurrently and merges them. units is the cost of the
// reads.
func (t *Tables) Person(ctx context.Context, personID string) (view View, units float64, err error) {
	key := map[string]types.AttributeValue{"personId": text(personID)}
	var batch *dynamodb.GetItemOutput
	var recent *dynamodb.QueryOutput
	both, within := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		batch, err = t.DB.GetItem(within, &dynamodb.GetItemInput{
			TableName:              aws.String(BatchTable),
			Key:                    key,
			ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		return err
	})
	both.Go(func() (err error) {
		recent, err = t.DB.Query(within, &dynamodb.QueryInput{
			TableName:                 aws.String(NRTTable),
			KeyConditionExpression:    aws.String("personId = :person"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":person": key["personId"]},
			ReturnConsumedCapacity:    types.ReturnConsumedCapacityTotal,
		})
		return err
	})
	if err := both.Wait(); err != nil {
		return view, 0, fmt.Errorf("read person %s: %w", personID, err)
	}
	units = consumed(batch.ConsumedCapacity) + consumed(recent.ConsumedCapacity)
	if batch.Item == nil {
		return view, units, ErrNoPerson
	}
	var c Customer
	if err := attributevalue.UnmarshalMap(batch.Item, &c); err != nil {
		return view, units, fmt.Errorf("read the batch view of person %s: %w", personID, err)
	}
	var pending []Pending
	var choice Choice
	for _, it := range recent.Items {
		var p struct {
			Pending
			ChosenGoal string `dynamodbav:"chosenGoal"`
			ChosenAt   string `dynamodbav:"chosenAt"`
		}
		if err := attributevalue.UnmarshalMap(it, &p); err != nil {
			return view, units, fmt.Errorf("read the pending balances of person %s: %w", personID, err)
		}
		if p.GoalID == choiceKey {
			choice = Choice{GoalID: p.ChosenGoal, ChosenAt: p.ChosenAt}
			continue
		}
		pending = append(pending, p.Pending)
	}
	return Merge(c, pending, choice, t.Now()), units, nil
}

func consumed(c *types.ConsumedCapacity) float64 {
	if c == nil {
		return 0
	}
	return aws.ToFloat64(c.CapacityUnits)
}

// Save writes a pending balance, unless the table has a newer one. It reports whether the
// table has it now: a write whose reply was lost is repeated by the SDK and finds itself there, and open pages have
// to be notified of it.
func (t *Tables) Save(ctx context.Context, p Pending) (wrote bool, err error) {
	it := map[string]types.AttributeValue{
		"personId":       text(p.PersonID),
		"goalId":         text(p.GoalID),
		"currentBalance": &types.AttributeValueMemberN{Value: p.CurrentBalance.String()},
		"status":         text(string(p.Status)),
		"eventId":        text(p.EventID),
		"updatedAt":      text(p.UpdatedAt),
		"version":        text(p.Version),
		"ttl":            &types.AttributeValueMemberN{Value: strconv.FormatInt(p.TTL, 10)},
	}
	_, err = t.DB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                 aws.String(NRTTable),
		Item:                      it,
		ConditionExpression:       aws.String("attribute_not_exists(personId) OR version < :new"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":new": it["version"]},

		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var there *types.ConditionalCheckFailedException
	if errors.As(err, &there) {
		version, ok := there.Item["version"].(*types.AttributeValueMemberS)
		return ok && version.Value == p.Version, nil
	}
	if err != nil {
		return false, fmt.Errorf("write the pending balance of person %s, goal %s: %w", p.PersonID, p.GoalID, err)
	}
	return true, nil
}

// Choose stores the goal that a person chose; a later choice replaces an earlier one.
func (t *Tables) Choose(ctx context.Context, personID, goalID string) error {
	got, err := t.DB.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(BatchTable),
		Key:       map[string]types.AttributeValue{"personId": text(personID)},
	})
	if err != nil {
		return fmt.Errorf("read the goals of person %s: %w", personID, err)
	}
	if got.Item == nil {
		return ErrNoPerson
	}
	var c Customer
	if err := attributevalue.UnmarshalMap(got.Item, &c); err != nil {
		return fmt.Errorf("read the batch view of person %s: %w", personID, err)
	}
	for _, g := range c.Goals {
		if g.GoalID == goalID {
			return t.putChoice(ctx, personID, goalID)
		}
	}
	return ErrNoGoal
}

func (t *Tables) putChoice(ctx context.Context, personID, goalID string) error {
	_, err := t.DB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(NRTTable),
		Item: map[string]types.AttributeValue{
			"personId":   text(personID),
			"goalId":     text(choiceKey),
			"chosenGoal": text(goalID),
			"chosenAt":   text(Instant(t.Now())),
			"ttl":        &types.AttributeValueMemberN{Value: strconv.FormatInt(t.Now().Add(KeepChoice).Unix(), 10)},
		},
	})
	if err != nil {
		return fmt.Errorf("write the choice of person %s: %w", personID, err)
	}
	return nil
}
