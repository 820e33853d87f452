package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// endpointClient sends the requests of a migration.
type endpointClient struct {
	tables, streams apply.Send    // of the two APIs
	retry           time.Duration // how long a request that fails for a while is repeated
}

// itemJSON is an item as the API encodes it.
type itemJSON struct{ item.Item }

// MarshalJSON encodes the item.
func (j itemJSON) MarshalJSON() ([]byte, error) { return wire.AppendItem(nil, j.Item), nil }

// UnmarshalJSON decodes an item.
func (j *itemJSON) UnmarshalJSON(text []byte) error {
	var body struct{ Item api.Attributes }
	if err := wire.Decode(append(append([]byte(`{"Item":`), text...), '}'), &body); err != nil {
		return err
	}
	if body.Item.Fault != nil {
		return body.Item.Fault
	}
	j.Item = body.Item.Item
	return nil
}

// replyUnits is the ConsumedCapacity of a reply.
type replyUnits struct{ CapacityUnits float64 }

// requestTimeout is how long a request may be without a reply. It ends earlier if
// the lease of the process ends.
const requestTimeout = 10 * time.Second

// ask sends a request and decodes the reply. It repeats requests that are
// throttled, and those that a server did not answer.
func (c *endpointClient) ask(ctx context.Context, operation string, body, into any) error {
	return c.repeat(ctx, isTemporary, isThrottled, func(ctx context.Context) error { return c.tables.Ask(ctx, operation, body, into) })
}

// askStreams does the same with a request of streams. Their LimitExceededException
// is a rate: AWS allows ten descriptions a second for all streams of an account.
func (c *endpointClient) askStreams(ctx context.Context, operation string, body, into any) error {
	throttled := func(err error) bool { return isThrottled(err) || isFault(err, "LimitExceededException") }
	return c.repeat(ctx, isTemporary, throttled, func(ctx context.Context) error { return c.streams.Ask(ctx, operation, body, into) })
}

// send sends a request for package apply. A change of a table is repeated only if
// it was throttled: it may have been executed if its reply is lost.
func (c *endpointClient) send(ctx context.Context, operation string, body any) (reply []byte, err error) {
	again := isThrottled
	if strings.HasPrefix(operation, "Describe") || strings.HasPrefix(operation, "List") {
		again = isTemporary
	}
	err = c.repeat(ctx, again, isThrottled, func(ctx context.Context) (err error) {
		reply, err = c.tables(ctx, operation, body)
		return err
	})
	return reply, err
}

// maxWait is the longest wait before a throttled request is repeated.
const maxWait = 5 * time.Second

// repeat sends a request until it succeeds, or fails with an error after which it
// may not be sent again. Throttled requests are repeated until the context ends,
// ever more slowly, others for a limited time.
func (c *endpointClient) repeat(ctx context.Context, again, throttled func(error) bool, send func(ctx context.Context) error) error {
	until := time.Now().Add(c.retry)
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, maxWait) {
		err := func() error {
			limited, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			return send(limited)
		}()
		if err == nil || ctx.Err() != nil || !again(err) {
			return err
		}
		limited := !throttled(err) || ctx.Done() == nil
		if limited && time.Now().Add(wait).After(until) {
			return err
		}
		if apply.Sleep(ctx, wait/2+rand.N(wait/2)) != nil {
			return err
		}
	}
}

// isThrottled reports whether a request was rejected because there were too many.
func isThrottled(err error) bool {
	return isFault(err, "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded")
}

// isTemporary reports whether a request may succeed when it is repeated.
func isTemporary(err error) bool {
	var fault *apierror.Error
	if !errors.As(err, &fault) {
		return true
	}
	return fault.Status >= 500 || isThrottled(err) ||
		isFault(err, "LimitExceededException", "InternalServerError", "TransactionCanceledException", "TransactionConflictException")
}

// isFault reports whether an error is an API error with one of some codes.
func isFault(err error, codes ...string) bool {
	var fault *apierror.Error
	return errors.As(err, &fault) && slices.Contains(codes, fault.Code)
}

// get reads an item consistently; nil if it does not exist.
func (c *endpointClient) get(ctx context.Context, table string, key item.Item) (item.Item, float64, error) {
	var reply struct {
		Item             *itemJSON
		ConsumedCapacity replyUnits
	}
	body := map[string]any{"TableName": table, "Key": itemJSON{key}, "ConsistentRead": true, "ReturnConsumedCapacity": "TOTAL"}
	if err := c.ask(ctx, "GetItem", body, &reply); err != nil {
		return nil, 0, fmt.Errorf("read %s of table %s: %w", keyText(key), table, err)
	}
	if reply.Item == nil {
		return nil, reply.ConsumedCapacity.CapacityUnits, nil
	}
	return reply.Item.Item, reply.ConsumedCapacity.CapacityUnits, nil
}

// getBoth reads two items as of the same moment; nil if one does not exist.
func (c *endpointClient) getBoth(ctx context.Context, table string, key item.Item, table2 string, key2 item.Item) (first, second item.Item, err error) {
	get := func(table string, key item.Item) any {
		return map[string]any{"Get": map[string]any{"TableName": table, "Key": itemJSON{key}}}
	}
	var reply struct{ Responses []struct{ Item *itemJSON } }
	err = c.ask(ctx, "TransactGetItems", map[string]any{"TransactItems": []any{get(table, key), get(table2, key2)}}, &reply)
	if err != nil || len(reply.Responses) != 2 {
		return nil, nil, fmt.Errorf("read %s of table %s and %s of table %s: %w", keyText(key), table, keyText(key2), table2, err)
	}
	if it := reply.Responses[0].Item; it != nil {
		first = it.Item
	}
	if it := reply.Responses[1].Item; it != nil {
		second = it.Item
	}
	return first, second, nil
}

// writeReply is what is known of a write.
type writeReply struct {
	units    float64
	doubtful bool // a request was given up that the server may still execute
}

// write sends a write of one item with a condition, which may be empty. A request
// that was sent is not cancelled when the process is stopped, since the next one may
// begin at once. It is cancelled if the lease has ended.
func (c *endpointClient) write(ctx context.Context, operation string, body map[string]any, cond expression) (is writeReply, err error) {
	var reply struct{ ConsumedCapacity replyUnits }
	body["ReturnConsumedCapacity"] = "TOTAL"
	if cond.text != "" {
		body["ConditionExpression"] = cond.text
	}
	cond.addTo(body)
	err = c.repeat(ctx, isTemporary, isThrottled, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		defer context.AfterFunc(ctx, func() {
			if errors.Is(context.Cause(ctx), errLost) {
				cancel()
			}
		})()
		err := c.tables.Ask(limited, operation, body, &reply)
		var fault *apierror.Error
		is.doubtful = is.doubtful || err != nil && !errors.As(err, &fault)
		return err
	})
	is.units = reply.ConsumedCapacity.CapacityUnits
	return is, err
}

// expression is a condition or an update with its placeholders.
type expression struct {
	text   string
	names  map[string]string
	values map[string]any
}

// name returns a placeholder of an attribute's name.
func (x *expression) name(attribute string) string {
	if x.names == nil {
		x.names = make(map[string]string)
	}
	for ref, name := range x.names {
		if name == attribute {
			return ref
		}
	}
	ref := fmt.Sprintf("#n%d", len(x.names))
	x.names[ref] = attribute
	return ref
}

// value returns a placeholder of a value.
func (x *expression) value(v item.Value) string {
	if x.values == nil {
		x.values = make(map[string]any)
	}
	ref := fmt.Sprintf(":v%d", len(x.values))
	x.values[ref] = json.RawMessage(wire.AppendValue(nil, v))
	return ref
}

func (x *expression) addTo(body map[string]any) {
	if len(x.names) > 0 {
		body["ExpressionAttributeNames"] = x.names
	}
	if len(x.values) > 0 {
		body["ExpressionAttributeValues"] = x.values
	}
}

// scanPage is one page of a scan.
type scanPage struct {
	Items            []itemJSON
	LastEvaluatedKey *itemJSON
	ConsumedCapacity replyUnits
}

// scanRequest says what a scan reads.
type scanRequest struct {
	table, index      string
	segment, segments int
	limit             int
}

// scan reads one page of a segment.
func (c *endpointClient) scan(ctx context.Context, r scanRequest, after item.Item) (*scanPage, error) {
	body := map[string]any{"TableName": r.table, "Segment": r.segment, "TotalSegments": r.segments, "Limit": r.limit, "ReturnConsumedCapacity": "TOTAL"}
	if r.index != "" {
		body["IndexName"] = r.index
	} else {
		body["ConsistentRead"] = true
	}
	if after != nil {
		body["ExclusiveStartKey"] = itemJSON{after}
	}
	page := new(scanPage)
	if err := c.ask(ctx, "Scan", body, page); err != nil {
		return nil, fmt.Errorf("scan table %s: %w", r.table, err)
	}
	return page, nil
}

// keyText shows a key to people.
func keyText(key item.Item) string {
	var parts []string
	for name, v := range maps.Collect(key.All()) {
		parts = append(parts, name+"="+v.String())
	}
	if len(parts) == 2 && parts[0] > parts[1] {
		parts[0], parts[1] = parts[1], parts[0]
	}
	return strings.Join(parts, ", ")
}
