package exchange

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model/apply"
)

// ReadServer reads all tables of a server, and calls progress after each.
// endpoint is the server's name in messages.
func ReadServer(ctx context.Context, send apply.Send, endpoint string, progress func(done, all int)) (*Design, error) {
	var names []string
	for after := map[string]any{}; ; {
		var page struct {
			TableNames             []string
			LastEvaluatedTableName string
		}
		if err := send.Ask(ctx, "ListTables", after, &page); err != nil {
			return nil, fmt.Errorf("cannot list the tables of %s: %w", endpoint, err)
		}
		names = append(names, page.TableNames...)
		if page.LastEvaluatedTableName == "" || len(names) > maxTables {
			break
		}
		after["ExclusiveStartTableName"] = page.LastEvaluatedTableName
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no tables", endpoint)
	}
	var all []*describedTable
	for i, name := range names {
		t, err := describe(ctx, send, name)
		if err != nil {
			return nil, fmt.Errorf("cannot describe the table %s of %s: %w", name, endpoint, err)
		}
		t.file = endpoint
		all = append(all, t)
		progress(i+1, len(names))
	}
	tables, faults := toTables(all)
	if len(faults) > 0 {
		return nil, faults
	}
	return &Design{Name: "imported", Source: "the server " + endpoint, Tables: tables}, nil
}

// The parts of a DescribeTable reply that a model can represent.
type (
	serverTable struct {
		TableArn                                      string
		KeySchema                                     []serverKeyElement
		AttributeDefinitions                          []struct{ AttributeName, AttributeType string }
		BillingModeSummary                            struct{ BillingMode string }
		ProvisionedThroughput                         serverUnits
		GlobalSecondaryIndexes, LocalSecondaryIndexes []serverIndex
		StreamSpecification                           struct {
			StreamEnabled  bool
			StreamViewType string
		}
		DeletionProtectionEnabled bool
		TableClassSummary         struct{ TableClass string }
		Replicas                  []struct{}
	}
	serverKeyElement struct{ AttributeName, KeyType string }
	serverUnits      struct{ ReadCapacityUnits, WriteCapacityUnits int }
	serverIndex      struct {
		IndexName  string
		KeySchema  []serverKeyElement
		Projection struct {
			ProjectionType   string
			NonKeyAttributes []string
		}
		ProvisionedThroughput serverUnits
	}
)

func describe(ctx context.Context, send apply.Send, name string) (*describedTable, error) {
	var reply struct{ Table serverTable }
	if err := send.Ask(ctx, "DescribeTable", map[string]any{"TableName": name}, &reply); err != nil {
		return nil, err
	}
	t := &reply.Table
	d := &describedTable{what: "table " + name, name: name, key: serverKey(t.KeySchema)}
	d.onDemand = t.BillingModeSummary.BillingMode == "PAY_PER_REQUEST"
	d.read.Units, d.write.Units = t.ProvisionedThroughput.ReadCapacityUnits, t.ProvisionedThroughput.WriteCapacityUnits
	for _, a := range t.AttributeDefinitions {
		d.types = append(d.types, attributeType{a.AttributeName, a.AttributeType})
	}
	for i := range t.GlobalSecondaryIndexes {
		d.indexes = append(d.indexes, t.GlobalSecondaryIndexes[i].description())
	}
	for i := range t.LocalSecondaryIndexes {
		index := t.LocalSecondaryIndexes[i].description()
		index.local = true
		d.indexes = append(d.indexes, index)
	}
	if t.StreamSpecification.StreamEnabled {
		d.stream = t.StreamSpecification.StreamViewType
	}
	if t.DeletionProtectionEnabled {
		d.dropped = append(d.dropped, "deletion protection")
	}
	if class := t.TableClassSummary.TableClass; class != "" && class != "STANDARD" {
		d.dropped = append(d.dropped, "table class "+class)
	}
	if n := len(t.Replicas); n > 0 {
		d.dropped = append(d.dropped, replicaNote(n))
	}
	return d, describeExtras(ctx, send, t, d)
}

func serverKey(key []serverKeyElement) (all []keyPart) {
	for _, e := range key {
		all = append(all, keyPart{e.AttributeName, e.KeyType})
	}
	return all
}

func (x *serverIndex) description() *describedIndex {
	d := &describedIndex{name: x.IndexName, key: serverKey(x.KeySchema), projection: x.Projection.ProjectionType, names: x.Projection.NonKeyAttributes}
	d.read.Units, d.write.Units = x.ProvisionedThroughput.ReadCapacityUnits, x.ProvisionedThroughput.WriteCapacityUnits
	return d
}

// describeExtras reads the properties that are not in a table's description. A
// server that lacks one of these operations has none of it.
func describeExtras(ctx context.Context, send apply.Send, t *serverTable, d *describedTable) error {
	name := map[string]any{"TableName": d.name}
	var ttl struct {
		TimeToLiveDescription struct{ TimeToLiveStatus, AttributeName string }
	}
	if err := ignoreUnsupported(send.Ask(ctx, "DescribeTimeToLive", name, &ttl)); err != nil {
		return err
	}
	if status := ttl.TimeToLiveDescription.TimeToLiveStatus; status == "ENABLED" || status == "ENABLING" {
		d.ttl = ttl.TimeToLiveDescription.AttributeName
	}
	var backups struct {
		ContinuousBackupsDescription struct {
			PointInTimeRecoveryDescription struct{ PointInTimeRecoveryStatus string }
		}
	}
	if err := ignoreUnsupported(send.Ask(ctx, "DescribeContinuousBackups", name, &backups)); err != nil {
		return err
	}
	d.recovery = backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == "ENABLED"
	var tags struct{ Tags []struct{ Key, Value string } }
	if err := ignoreUnsupported(send.Ask(ctx, "ListTagsOfResource", map[string]any{"ResourceArn": t.TableArn}, &tags)); err != nil {
		return err
	}
	var all []string
	for _, tag := range tags.Tags {
		all = append(all, tag.Key+"="+tag.Value)
	}
	if len(all) > 0 {
		d.dropped = append(d.dropped, "tags "+strings.Join(all, ", "))
	}
	return nil
}

// ignoreUnsupported ignores errors of a server that lacks an operation, or of
// missing permission.
func ignoreUnsupported(err error) error {
	var fault *apierror.Error
	if errors.As(err, &fault) && (fault.Code == "UnknownOperationException" || fault.Code == "AccessDeniedException") {
		return nil
	}
	return err
}
