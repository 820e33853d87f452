package past

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model/apply"
)

// Item is the attributes of an item, or of a key, as the API has them.
type Item map[string]json.RawMessage

// Table is what reads of a table need to know of it.
type Table struct {
	Name    string
	Types   map[string]string // of key attributes
	Key     Key
	Indexes []Index
	Items   int64
	Bytes   int64
	Status  string
	Billing string // PROVISIONED or PAY_PER_REQUEST
	Stream  string // its view type; empty without a stream
}

// Key is the attributes of a key.
type Key struct{ Partition, Sort []string }

// All returns the partition key, then the sort key.
func (k Key) All() []string { return slices.Concat(k.Partition, k.Sort) }

// Index is a secondary index.
type Index struct {
	Name       string
	Key        Key
	Global     bool
	Projection string   // ALL, KEYS_ONLY or INCLUDE
	Includes   []string // of the projection INCLUDE
	Items      int64
	Status     string // of a global index
}

type keySchema []struct{ AttributeName, KeyType string }

func (s keySchema) key() (k Key) {
	for _, a := range s {
		if a.KeyType == "HASH" {
			k.Partition = append(k.Partition, a.AttributeName)
		} else {
			k.Sort = append(k.Sort, a.AttributeName)
		}
	}
	return k
}

type indexReply struct {
	IndexName   string
	IndexStatus string
	KeySchema   keySchema
	ItemCount   int64
	Projection  struct {
		ProjectionType   string
		NonKeyAttributes []string
	}
}

func (x *indexReply) index(global bool) Index {
	return Index{Name: x.IndexName, Key: x.KeySchema.key(), Global: global, Items: x.ItemCount, Status: x.IndexStatus,
		Projection: x.Projection.ProjectionType, Includes: x.Projection.NonKeyAttributes}
}

// Describe describes a table of a server.
func Describe(ctx context.Context, send apply.Send, table string) (*Table, error) {
	var reply struct {
		Table struct {
			AttributeDefinitions                          []struct{ AttributeName, AttributeType string }
			KeySchema                                     keySchema
			GlobalSecondaryIndexes, LocalSecondaryIndexes []indexReply
			ItemCount, TableSizeBytes                     int64
			TableStatus                                   string
			BillingModeSummary                            struct{ BillingMode string }
			StreamSpecification                           struct {
				StreamEnabled  bool
				StreamViewType string
			}
		}
	}
	if err := send.Ask(ctx, "DescribeTable", map[string]string{"TableName": table}, &reply); err != nil {
		return nil, err
	}
	in := &reply.Table
	t := &Table{Name: table, Types: make(map[string]string), Key: in.KeySchema.key(), Items: in.ItemCount, Bytes: in.TableSizeBytes, Status: in.TableStatus, Billing: in.BillingModeSummary.BillingMode}
	if t.Billing == "" {
		t.Billing = "PROVISIONED"
	}
	if in.StreamSpecification.StreamEnabled {
		t.Stream = in.StreamSpecification.StreamViewType
	}
	for _, a := range in.AttributeDefinitions {
		t.Types[a.AttributeName] = a.AttributeType
	}
	for i := range in.GlobalSecondaryIndexes {
		t.Indexes = append(t.Indexes, in.GlobalSecondaryIndexes[i].index(true))
	}
	for i := range in.LocalSecondaryIndexes {
		t.Indexes = append(t.Indexes, in.LocalSecondaryIndexes[i].index(false))
	}
	return t, nil
}

// Index returns an index by its name.
func (t *Table) Index(name string) (*Index, bool) {
	for i := range t.Indexes {
		if t.Indexes[i].Name == name {
			return &t.Indexes[i], true
		}
	}
	return nil, false
}

// ParseKey reads attributes of keys from arguments such as id=7, or from one in DynamoDB's
// JSON.
func (t *Table) ParseKey(args []string) (Item, error) {
	key := make(Item)
	if len(args) == 1 && strings.HasPrefix(args[0], "{") {
		if err := json.Unmarshal([]byte(args[0]), &key); err != nil {
			return nil, fmt.Errorf("the key is not in DynamoDB's JSON: %w", err)
		}
		return key, nil
	}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not an attribute of a key: write name=value", arg)
		}
		kind, ok := t.Types[name]
		if !ok {
			return nil, fmt.Errorf("%s is in no key; those of the table are %s", name, strings.Join(t.Key.All(), " and "))
		}
		text, err := json.Marshal(map[string]string{kind: value})
		if err != nil {
			return nil, err
		}
		key[name] = text
	}
	return key, nil
}
