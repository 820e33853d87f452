package keys

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Key is the primary key of an item.
type Key struct{ pk, sk string }

// Attributes are the key as a request has it.
func (k Key) Attributes() map[string]types.AttributeValue {
	if k.pk == "" {
		panic("a key that was never made is used")
	}
	return map[string]types.AttributeValue{"PK": str(k.pk), "SK": str(k.sk)}
}

// Entry is where an item stands in an index.
type Entry struct{ index, pk, sk string }

// Attributes are the attributes that make the item stand there.
func (e Entry) Attributes() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{e.index + "PK": str(e.pk), e.index + "SK": str(e.sk)}
}

// Range is what a query asks for.
type Range struct {
	index, pk  string
	prefix     string // of the sort keys
	until      string // the last of the sort keys
	is         string // the one sort key
	descending bool
}

// Query is the request. What the caller adds to it cannot widen it.
func (r Range) Query(table string) *dynamodb.QueryInput {
	if r.pk == "" {
		panic("a range that was never made is used")
	}
	in := &dynamodb.QueryInput{
		TableName:                 aws.String(table),
		KeyConditionExpression:    aws.String(r.index + "PK = :pk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": str(r.pk)},
		ScanIndexForward:          aws.Bool(!r.descending),
	}
	if r.index != "" {
		in.IndexName = aws.String(r.index)
	}
	add := func(condition, value string) {
		*in.KeyConditionExpression += " AND " + condition
		in.ExpressionAttributeValues[":sk"] = str(value)
	}
	switch {
	case r.is != "":
		add(r.index+"SK = :sk", r.is)
	case r.until != "":
		add(r.index+"SK <= :sk", r.until)
	case r.prefix != "":
		add("begins_with("+r.index+"SK, :sk)", r.prefix)
	}
	return in
}

// errCursor is the error of a page that is asked for with something that no
// earlier page gave.
var errCursor = errors.New("the cursor is not one that an earlier page gave")

// Cursor tells where a page ended in a form that holds nothing of the tenant:
// the sort key of the index, and that of the item.
func (r Range) Cursor(last map[string]types.AttributeValue) string {
	if len(last) == 0 {
		return ""
	}
	sk := text(last["SK"])
	if r.index == "" {
		return sk
	}
	return text(last[r.index+"SK"]) + "|" + sk
}

// After is the start of the page behind a cursor. All but the sort keys is
// written anew from the range, so a cursor of another tenant leads nowhere.
func (r Range) After(cursor string, item func(sk string) (Key, error)) (map[string]types.AttributeValue, error) {
	if r.index == "" {
		if !strings.HasPrefix(cursor, r.prefix) || len(cursor) > 100 {
			return nil, errCursor
		}
		return Key{r.pk, cursor}.Attributes(), nil
	}
	entry, sk, ok := strings.Cut(cursor, "|")
	if _, err := time.Parse(layout, entry); !ok || err != nil {
		return nil, errCursor
	}
	key, err := item(sk)
	if err != nil {
		return nil, errCursor
	}
	start := key.Attributes()
	start[r.index+"PK"], start[r.index+"SK"] = str(r.pk), str(entry)
	return start, nil
}

// IDOf is the id behind the prefix of a sort key such as "DOCUMENT#…".
func IDOf[T ID[kind], kind any](prefix, sk string) (T, error) {
	rest, ok := strings.CutPrefix(sk, prefix)
	if !ok {
		return T{}, errCursor
	}
	return ParseID[T, kind](rest)
}

// Object is the place of a file in the bucket.
type Object struct{ key string }

func (o Object) String() string {
	if o.key == "" {
		panic("an object that was never named is used")
	}
	return o.key
}

// layout sorts as the times do, since all are in UTC.
const layout = "2006-01-02T15:04:05.000Z"

// Time is a time as items have it.
func Time(t time.Time) string { return t.UTC().Format(layout) }

// ParseTime reads what Time wrote.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(layout, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is no time such as %s", text, layout)
	}
	return t, nil
}

// The four keys without a tenant. A person may belong to several tenants; the
// state machine knows a batch's id and nothing else; and who looks for work does
// it for all tenants. Who reads by them compares the tenant afterwards.

// User is the key of a person.
func User(u UserID) Key { return Key{"USER#" + u.must(), "PROFILE"} }

// EmailEntry is where a person is found by email.
func EmailEntry(email string, u UserID) Entry {
	return Entry{"GSI1", "EMAIL#" + email, "USER#" + u.must()}
}

// Email are the persons with an email.
func Email(email string) Range { return Range{index: "GSI1", pk: "EMAIL#" + email, prefix: "USER#"} }

// BatchIDEntry is where a batch is found by its id alone.
func BatchIDEntry(b BatchID) Entry { return Entry{"GSI3", b.must(), "BATCH"} }

// BatchByID is the batch with an id.
func BatchByID(b BatchID) Range { return Range{index: "GSI3", pk: b.must(), is: "BATCH"} }

// JobShards is over how many partitions the jobs of all tenants are spread.
const JobShards = 4

// JobEntry is where a job waits for its time.
func JobEntry(b BatchID, due time.Time) Entry {
	h := fnv.New32a()
	h.Write(b.v[:]) // never fails
	return Entry{"GSI3", fmt.Sprintf("JOBS#%d", h.Sum32()%JobShards), Time(due)}
}

// JobsUntil are the jobs of a shard that are due, the oldest first.
func JobsUntil(shard int, now time.Time) Range {
	return Range{index: "GSI3", pk: fmt.Sprintf("JOBS#%d", shard), until: Time(now)}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
