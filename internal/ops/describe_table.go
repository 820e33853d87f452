package ops

import (
	"cmp"
	"context"
	"slices"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) describeTable(ctx context.Context, in *api.DescribeTable) (*api.DescribeTableReply, error) {
	if err := tableNamed(in.TableName); err != nil {
		return nil, err
	}
	d, err := s.DB.Describe(in.TableName)
	if err != nil {
		return nil, err
	}
	return &api.DescribeTableReply{Table: s.description(ctx, d)}, nil
}

// description describes a table. The operations that change a table modify the
// result for their replies.
func (s *Service) description(ctx context.Context, d db.Description) *api.TableDescription {
	desc := &api.TableDescription{
		TableName:                 d.Name,
		TableId:                   d.UUID,
		TableArn:                  s.tableARN(ctx, d.Name),
		TableStatus:               string(d.Status),
		ItemCount:                 d.Counts[0].Items,
		TableSizeBytes:            d.Counts[0].Bytes,
		DeletionProtectionEnabled: &d.DeletionProtection,
		ProvisionedThroughput:     s.unitsReply(d.Throughput),
	}
	desc.BillingModeSummary, desc.TableThroughputModeSummary = modes(d.Table)
	if d.Status == schema.Deleting {
		return desc // the description of a table being deleted is short
	}
	desc.CreationDateTime = api.TimeOf(d.Created)
	desc.KeySchema = keyReply(d.Key)
	desc.AttributeDefinitions = attributesReply(d.Attributes)
	desc.OnDemandThroughput = ceilingsReply(d.MaxRequests)
	desc.WarmThroughput = warmthReply(d.Warm)
	desc.SSEDescription = encryptionReply(d.Encryption)
	desc.TableClassSummary = classReply(d.Table)
	desc.RestoreSummary = s.restoreReply(ctx, d.Restored)
	s.addStream(ctx, desc, d.Table)
	for i := range d.Indexes {
		if x := &d.Indexes[i]; x.Global {
			desc.GlobalSecondaryIndexes = append(desc.GlobalSecondaryIndexes, s.globalIndexReply(desc, x, d.Counts[x.ID]))
		} else {
			desc.LocalSecondaryIndexes = append(desc.LocalSecondaryIndexes, localIndexReply(desc, x, d.Counts[x.ID]))
		}
	}
	return desc
}

// globalIndexReply describes a global index. While it is being built, ItemCount
// is the progress of the build.
func (s *Service) globalIndexReply(table *api.TableDescription, x *schema.Index, count db.Count) api.GlobalSecondaryIndexDescription {
	status := cmp.Or(x.State, schema.Active)
	if table.TableStatus == string(schema.Creating) {
		status = schema.Creating
	}
	var backfilling *bool
	if x.State == schema.Creating {
		backfilling = &x.Backfilling
	}
	return api.GlobalSecondaryIndexDescription{
		Backfilling:           backfilling,
		ItemCount:             count.Items,
		IndexSizeBytes:        count.Bytes,
		IndexName:             x.Name,
		IndexArn:              indexARN(table, x),
		IndexStatus:           string(status),
		KeySchema:             keyReply(x.Key),
		Projection:            projectionReply(x.Projection),
		ProvisionedThroughput: s.unitsReply(x.Throughput),
		OnDemandThroughput:    ceilingsReply(x.MaxRequests),
		WarmThroughput:        warmthReply(x.Warm),
	}
}

func localIndexReply(table *api.TableDescription, x *schema.Index, count db.Count) api.LocalSecondaryIndexDescription {
	return api.LocalSecondaryIndexDescription{
		ItemCount:      count.Items,
		IndexSizeBytes: count.Bytes,
		IndexName:      x.Name,
		IndexArn:       indexARN(table, x),
		KeySchema:      keyReply(x.Key),
		Projection:     projectionReply(x.Projection),
	}
}

func indexARN(table *api.TableDescription, x *schema.Index) string {
	return table.TableArn + "/index/" + x.Name
}

// classReply is nil for a table whose class was never set.
func classReply(t *schema.Table) *api.TableClassSummary {
	if t.Class == "" {
		return nil
	}
	return &api.TableClassSummary{TableClass: t.Class, LastUpdateDateTime: api.TimeOf(t.ClassChanged)}
}

// modes returns the billing mode of a table under both of its names; nil for a
// table that was never on demand.
func modes(t *schema.Table) (*api.BillingModeSummary, *api.ThroughputModeSummary) {
	since := t.OnDemandSince
	if t.OnDemand && since.IsZero() {
		since = t.Created
	}
	if since.IsZero() {
		return nil, nil
	}
	mode := "PROVISIONED"
	if t.OnDemand {
		mode = "PAY_PER_REQUEST"
	}
	return &api.BillingModeSummary{BillingMode: mode, LastUpdateToPayPerRequestDateTime: api.TimeOf(since)},
		&api.ThroughputModeSummary{TableThroughputMode: mode, LastUpdateToPayPerRequestDateTime: api.TimeOf(since)}
}

func (s *Service) unitsReply(t schema.Throughput) *api.ProvisionedThroughputDescription {
	return &api.ProvisionedThroughputDescription{
		ReadCapacityUnits:      t.Read,
		WriteCapacityUnits:     t.Write,
		LastIncreaseDateTime:   api.TimeOf(t.Increased),
		LastDecreaseDateTime:   api.TimeOf(t.Decreased),
		NumberOfDecreasesToday: t.DecreasesOn(s.DB.Now()),
	}
}

func ceilingsReply(t schema.Throughput) *api.OnDemandThroughput {
	if t.Read == 0 && t.Write == 0 {
		return nil
	}
	return &api.OnDemandThroughput{MaxReadRequestUnits: orAbsent(t.Read), MaxWriteRequestUnits: orAbsent(t.Write)}
}

func orAbsent(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func warmthReply(t schema.Throughput) *api.WarmThroughputDescription {
	return &api.WarmThroughputDescription{ReadUnitsPerSecond: t.Read, WriteUnitsPerSecond: t.Write, Status: string(schema.Active)}
}

// encryptionReply is nil for a table with the default key.
func encryptionReply(e schema.Encryption) *api.SSEDescription {
	if !e.Enabled {
		return nil
	}
	return &api.SSEDescription{Status: "ENABLED", SSEType: "KMS", KMSMasterKeyArn: e.KeyARN}
}

func keyReply(k schema.Key) []api.KeySchemaElement {
	hash, sort := "HASH", "RANGE"
	elements := make([]api.KeySchemaElement, 0, len(k.Partition)+len(k.Sort))
	for _, a := range k.Partition {
		elements = append(elements, api.KeySchemaElement{AttributeName: &a.Name, KeyType: &hash})
	}
	for _, a := range k.Sort {
		elements = append(elements, api.KeySchemaElement{AttributeName: &a.Name, KeyType: &sort})
	}
	return elements
}

// attributesReply lists attributes ordered by name, not in the order of the
// request.
func attributesReply(attributes []schema.Attribute) []api.AttributeDefinition {
	sorted := slices.SortedFunc(slices.Values(attributes), func(a, b schema.Attribute) int { return cmp.Compare(a.Name, b.Name) })
	desc := make([]api.AttributeDefinition, len(sorted))
	for i, a := range sorted {
		kind := a.Type.String()
		desc[i] = api.AttributeDefinition{AttributeName: &a.Name, AttributeType: &kind}
	}
	return desc
}

// projectionReply describes a projection, with its attributes ordered by name.
func projectionReply(p schema.Projection) *api.Projection {
	desc := &api.Projection{ProjectionType: &p.Kind}
	if p.Names != nil {
		desc.NonKeyAttributes = slices.Sorted(slices.Values(p.Names))
	}
	return desc
}
