package keys

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Key is the primary key of an item.
type Key struct{ pk, sk string }

// Attributes returns the key for a request.
func (k Key) Attributes() map[string]types.AttributeValue {
	if k.pk == "" {
		panic("the zero Key is used")
	}
	return map[string]types.AttributeValue{"PK": str(k.pk), "SK": str(k.sk)}
}

// Entry is the key of an item in an index.
type Entry struct{ index, pk, sk string }

// Attributes returns the attributes that put the item into the index.
func (e Entry) Attributes() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{e.index + "PK": str(e.pk), e.index + "SK": str(e.sk)}
}

// Range is the key condition of a query.
type Range struct {
	index, pk  string
	prefix     string // prefix of the sort keys
	until      string // last sort key
	is         string // the only sort key
	descending bool
}

// Query returns the request. What the caller adds to it cannot widen the range.
func (r Range) Query(table string) *dynamodb.QueryInput {
	if r.pk == "" {
		panic("the zero Range is used")
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

// errCursor is returned for a cursor that no earlier page returned.
var errCursor = errors.New("the cursor is not one that an earlier page returned")

// Cursor encodes where a page ended, without the tenant: the sort key of the
// index, and that of the item.
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

// After returns the start key of the page after a cursor. All but the sort keys is
// taken from the range, so a cursor of another tenant gives no access.
func (r Range) After(cursor string, item func(sk string) (Key, error)) (map[string]types.AttributeValue, error) {
	if r.index == "" {
		if !strings.HasPrefix(cursor, r.prefix) || len(cursor) > 100 {
			return nil, errCursor
		}
		return Key{r.pk, cursor}.Attributes(), nil
	}
	entry, sk, ok := strings.Cut(cursor, "|")
	when, place, placed := strings.Cut(entry, "#")
	if _, err := time.Parse(layout, when); !ok || err != nil {
		return nil, errCursor
	}
	if _, err := strconv.ParseUint(place, 10, 32); placed && err != nil {
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

// IDOf returns the id after the prefix of a sort key such as "DOCUMENT#…".
func IDOf[T ID[kind], kind any](prefix, sk string) (T, error) {
	rest, ok := strings.CutPrefix(sk, prefix)
	if !ok {
		return T{}, errCursor
	}
	return ParseID[T, kind](rest)
}

// Object is the key of a file in the bucket.
type Object struct{ key string }

func (o Object) String() string {
	if o.key == "" {
		panic("the zero Object is used")
	}
	return o.key
}

// layout is a time format that sorts as the times do, since all are in UTC.
const layout = "2006-01-02T15:04:05.000Z"

// Time formats a time for items.
func Time(t time.Time) string { return t.UTC().Format(layout) }

// ParseTime parses the format of Time.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(layout, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is not a time such as %s", text, layout)
	}
	return t, nil
}

// The five keys without a tenant. A person, and the list of the person's memberships,
// may belong to several tenants; the
// state machine knows only a batch's id; and runners look for work of all tenants.
// Callers must compare the tenant afterwards.

// User is the key of a person.
func User(u UserID) Key { return Key{"USER#" + u.must(), "PROFILE"} }

// TenantsOf is the range of a person's memberships.
func TenantsOf(u UserID) Range {
	return Range{index: "GSI1", pk: "USER#" + u.must(), prefix: "TENANT#"}
}

// EmailEntry is the index key by which a person is found by email.
func EmailEntry(email string, u UserID) Entry {
	return Entry{"GSI1", "EMAIL#" + email, "USER#" + u.must()}
}

// Email is the range of the persons with an email.
func Email(email string) Range { return Range{index: "GSI1", pk: "EMAIL#" + email, prefix: "USER#"} }

// BatchIDEntry is the index key by which a batch is found by its id alone.
func BatchIDEntry(b BatchID) Entry { return Entry{"GSI3", b.must(), "BATCH"} }

// BatchByID is the range of the batch with an id.
func BatchByID(b BatchID) Range { return Range{index: "GSI3", pk: b.must(), is: "BATCH"} }

// JobShards is the number of partitions of the jobs of all tenants.
const JobShards = 4

// JobEntry is the index key of a job, by its due time.
func JobEntry(b BatchID, due time.Time) Entry {
	h := fnv.New32a()
	h.Write(b.v[:]) // never fails
	return Entry{"GSI3", fmt.Sprintf("JOBS#%d", h.Sum32()%JobShards), Time(due)}
}

// JobsUntil is the range of the jobs of a shard that are due, oldest first.
func JobsUntil(shard int, now time.Time) Range {
	return Range{index: "GSI3", pk: fmt.Sprintf("JOBS#%d", shard), until: Time(now)}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
