package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/schema"
)

// liveTable is the description of a table of the endpoint.
type liveTable struct {
	TableStatus            string
	AttributeDefinitions   []struct{ AttributeName, AttributeType string }
	KeySchema              []liveKeyElement
	BillingModeSummary     struct{ BillingMode string }
	ProvisionedThroughput  liveUnits
	GlobalSecondaryIndexes []*liveIndex
	LocalSecondaryIndexes  []*liveIndex
	StreamSpecification    struct {
		StreamEnabled  bool
		StreamViewType string
	}

	ttl              string // the TTL attribute, "" for none
	ttlStatus        string
	recovery         bool
	supportsRecovery bool // the endpoint has the operations of recovery
}

type liveKeyElement struct{ AttributeName, KeyType string }

type liveUnits struct{ ReadCapacityUnits, WriteCapacityUnits int64 }

func (u liveUnits) are(t schema.Throughput) bool {
	return u.ReadCapacityUnits == t.Read && u.WriteCapacityUnits == t.Write
}

type liveIndex struct {
	IndexName   string
	IndexStatus string
	KeySchema   []liveKeyElement
	Projection  struct {
		ProjectionType   string
		NonKeyAttributes []string
	}
	ProvisionedThroughput liveUnits
}

// describe reads the description of a table; nil if it does not exist.
func describe(ctx context.Context, send Send, table string) (*liveTable, error) {
	name := map[string]any{"TableName": table}
	var described struct{ Table *liveTable }
	err := send.Ask(ctx, "DescribeTable", name, &described)
	if isFault(err, "ResourceNotFoundException") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := described.Table
	if l == nil || l.TableStatus == "" {
		return nil, fmt.Errorf("table %s: the reply to DescribeTable describes no table; is the endpoint a DynamoDB server?", table)
	}
	var ttl struct {
		TimeToLiveDescription struct{ AttributeName, TimeToLiveStatus string }
	}
	if err := send.Ask(ctx, "DescribeTimeToLive", name, &ttl); err != nil && !isFault(err, "ResourceNotFoundException") {
		return nil, err
	}
	l.ttlStatus = ttl.TimeToLiveDescription.TimeToLiveStatus
	if l.ttlStatus == "ENABLED" || l.ttlStatus == "ENABLING" {
		l.ttl = ttl.TimeToLiveDescription.AttributeName
	}
	var backups struct {
		ContinuousBackupsDescription struct {
			PointInTimeRecoveryDescription struct{ PointInTimeRecoveryStatus string }
		}
	}
	// Some local servers lack this operation.
	switch err := send.Ask(ctx, "DescribeContinuousBackups", name, &backups); {
	case err == nil:
		l.supportsRecovery = true
		l.recovery = backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == "ENABLED"
	case isFault(err, "TableNotFoundException"): // the table is still being created
		l.supportsRecovery = true
	case !isFault(err, "UnknownOperationException"):
		return nil, err
	}
	return l, nil
}

// Ask sends a request and decodes the reply.
func (send Send) Ask(ctx context.Context, operation string, body, into any) error {
	text, err := send(ctx, operation, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("cannot decode the reply to %s: %w", operation, err)
	}
	return nil
}

// pendingState is the state that the table will leave by itself, "" if it is
// ready.
func (l *liveTable) pendingState() string {
	if l.TableStatus != "ACTIVE" {
		return l.TableStatus
	}
	for _, x := range l.GlobalSecondaryIndexes {
		if x.IndexStatus != "ACTIVE" {
			return fmt.Sprintf("%s (index %s)", x.IndexStatus, x.IndexName)
		}
	}
	if l.ttlStatus == "ENABLING" || l.ttlStatus == "DISABLING" {
		return l.ttlStatus + " (time to live)"
	}
	return ""
}

func (l *liveTable) onDemand() bool { return l.BillingModeSummary.BillingMode == "PAY_PER_REQUEST" }

// stream is the view type of the stream, "" for none.
func (l *liveTable) stream() string {
	if !l.StreamSpecification.StreamEnabled {
		return ""
	}
	return l.StreamSpecification.StreamViewType
}

// typeOf is the type of a key attribute.
func (l *liveTable) typeOf(name string) string {
	for _, a := range l.AttributeDefinitions {
		if a.AttributeName == name {
			return a.AttributeType
		}
	}
	return ""
}

// keyText is a key as text, with its types.
func (l *liveTable) keyText(key []liveKeyElement) string {
	var parts []string
	for _, e := range key {
		parts = append(parts, e.AttributeName+" "+l.typeOf(e.AttributeName)+" "+e.KeyType)
	}
	return strings.Join(parts, ", ")
}

// schemaKeyText is a key of the model in the same form.
func schemaKeyText(k schema.Key) string {
	var parts []string
	for i, a := range k.All() {
		parts = append(parts, a.Name+" "+a.Type.String()+" "+keyType(k, i))
	}
	return strings.Join(parts, ", ")
}

// keyType is the API's type of the i-th attribute of a key.
func keyType(k schema.Key, i int) string {
	if i < len(k.Partition) {
		return "HASH"
	}
	return "RANGE"
}

// projects reports whether the index has the projection, in any order.
func (x *liveIndex) projects(p schema.Projection) bool {
	a, b := slices.Sorted(slices.Values(x.Projection.NonKeyAttributes)), slices.Sorted(slices.Values(p.Names))
	return x.Projection.ProjectionType == p.Kind && slices.Equal(a, b)
}

func find(list []*liveIndex, name string) *liveIndex {
	for _, x := range list {
		if x.IndexName == name {
			return x
		}
	}
	return nil
}

// Exists reports whether the endpoint has a table, in any state.
func Exists(ctx context.Context, send Send, table string) (bool, error) {
	_, err := send(ctx, "DescribeTable", map[string]any{"TableName": table})
	if isFault(err, "ResourceNotFoundException") {
		return false, nil
	}
	return err == nil, err
}
