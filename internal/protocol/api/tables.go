package api

// CreateTable creates a table.
type CreateTable struct {
	TableName                          string                `must:"newtable,stop"`
	AttributeDefinitions               []AttributeDefinition `must:"present"`
	KeySchema                          []KeySchemaElement    `must:"present,minlen=1,maxlen=2"`
	BillingMode                        *string               `must:"oneof=PROVISIONED|PAY_PER_REQUEST"`
	ProvisionedThroughput              *ProvisionedThroughput
	LocalSecondaryIndexes              []LocalSecondaryIndex
	GlobalSecondaryIndexes             []GlobalSecondaryIndex
	StreamSpecification                *StreamSpecification
	SSESpecification                   *SSESpecification
	Tags                               []Tag
	TableClass                         *string
	DeletionProtectionEnabled          *bool
	WarmThroughput                     *WarmThroughput
	ResourcePolicy                     *string
	OnDemandThroughput                 *OnDemandThroughput
	GlobalTableSourceArn               *string
	GlobalTableSettingsReplicationMode *string
	VectorIndexes                      []VectorIndex
}

// AttributeDefinition is the type of an attribute that keys are made of.
type AttributeDefinition struct {
	AttributeName *string `must:"present,minlen=1,maxlen=255"`
	AttributeType *string `must:"present,oneof=B|N|S"`
}

// KeySchemaElement is one attribute of a key.
type KeySchemaElement struct {
	AttributeName *string `must:"present,minlen=1,maxlen=255"`
	KeyType       *string `must:"present,oneof=HASH|RANGE"`
}

// ProvisionedThroughput is how many units a table may consume per second.
type ProvisionedThroughput struct {
	WriteCapacityUnits *int64 `must:"present,min=1"`
	ReadCapacityUnits  *int64 `must:"present,min=1"`
}

// OnDemandThroughput caps an on-demand table.
type OnDemandThroughput struct {
	MaxReadRequestUnits  *int64
	MaxWriteRequestUnits *int64
}

// WarmThroughput is the load that a table can take immediately.
type WarmThroughput struct {
	ReadUnitsPerSecond  *int64
	WriteUnitsPerSecond *int64
}

// LocalSecondaryIndex is an index within each partition.
type LocalSecondaryIndex struct {
	IndexName  *string            `must:"present,minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
	KeySchema  []KeySchemaElement `must:"present,minlen=1,maxlen=2"`
	Projection *Projection        `must:"present"`
}

// GlobalSecondaryIndex is an index over the whole table.
type GlobalSecondaryIndex struct {
	IndexName             *string            `must:"present,minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
	KeySchema             []KeySchemaElement `must:"present,minlen=1"`
	Projection            *Projection        `must:"present"`
	ProvisionedThroughput *ProvisionedThroughput
	OnDemandThroughput    *OnDemandThroughput
	WarmThroughput        *WarmThroughput
}

// Projection is which attributes an index copies.
type Projection struct {
	ProjectionType   *string  `must:"oneof=ALL|INCLUDE|KEYS_ONLY"`
	NonKeyAttributes []string `must:"minlen=1,maxlen=20,eachlen=255"`
}

// VectorIndex is refused: indexes of vectors are not built yet.
type VectorIndex struct{}

// StreamSpecification asks for a stream of changes.
type StreamSpecification struct {
	StreamEnabled  *bool   `must:"present"`
	StreamViewType *string `must:"oneof=OLD_IMAGE|KEYS_ONLY|NEW_AND_OLD_IMAGES|NEW_IMAGE"`
}

// SSESpecification asks for encryption with a customer's key.
type SSESpecification struct {
	Enabled        *bool
	SSEType        *string `must:"oneof=AES256|KMS"`
	KMSMasterKeyId *string `must:"minlen=1"`
}

// UpdateTable changes a table's settings.
type UpdateTable struct {
	TableName                          string `must:"table=3,stop"`
	AttributeDefinitions               []AttributeDefinition
	BillingMode                        *string `must:"oneof=PROVISIONED|PAY_PER_REQUEST"`
	ProvisionedThroughput              *ProvisionedThroughput
	GlobalSecondaryIndexUpdates        []GlobalSecondaryIndexUpdate
	StreamSpecification                *StreamSpecification
	SSESpecification                   *SSESpecification
	ReplicaUpdates                     []ReplicaUpdate `must:"minlen=1"`
	TableClass                         *string
	DeletionProtectionEnabled          *bool
	OnDemandThroughput                 *OnDemandThroughput
	WarmThroughput                     *WarmThroughput
	MultiRegionConsistency             *string
	GlobalTableWitnessUpdates          []ReplicaUpdate
	GlobalTableSettingsReplicationMode *string
	VectorIndexUpdates                 []VectorIndex
	DisassociationProtectionEnabled    *bool
}

// ReplicaUpdate adds, changes or removes one replica or witness. None of its
// members are read yet.
type ReplicaUpdate struct{}

// GlobalSecondaryIndexUpdate adds, changes or removes one index.
type GlobalSecondaryIndexUpdate struct {
	Create *GlobalSecondaryIndex
	Update *UpdateGlobalSecondaryIndexAction
	Delete *DeleteGlobalSecondaryIndexAction
}

// UpdateGlobalSecondaryIndexAction changes an index's settings.
type UpdateGlobalSecondaryIndexAction struct {
	IndexName             *string `must:"present,minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
	ProvisionedThroughput *ProvisionedThroughput
	OnDemandThroughput    *OnDemandThroughput
	WarmThroughput        *WarmThroughput
}

// DeleteGlobalSecondaryIndexAction removes an index.
type DeleteGlobalSecondaryIndexAction struct {
	IndexName *string `must:"present,minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
}

// DescribeTable asks for a table's description.
type DescribeTable struct {
	TableName string `must:"table=3"`
}

// DescribeTableReply answers a DescribeTable.
type DescribeTableReply struct {
	Table *TableDescription
}

// DeleteTable removes a table with all its items.
type DeleteTable struct {
	TableName string `must:"table=3"`
}

// TableReply answers a CreateTable, an UpdateTable or a DeleteTable.
type TableReply struct {
	TableDescription *TableDescription
}

// ListTables asks for the names of the tables.
type ListTables struct {
	ExclusiveStartTableName *string `must:"like=[a-zA-Z0-9_.-]+,minlen=3,maxlen=255"`
	Limit                   *int32  `must:"min=1,max=100"`
}

// ListTablesReply answers a ListTables.
type ListTablesReply struct {
	LastEvaluatedTableName string
	TableNames             []string `reply:"always"`
}

// TableDescription describes a table and its state.
type TableDescription struct {
	AttributeDefinitions       []AttributeDefinition
	BillingModeSummary         *BillingModeSummary
	CreationDateTime           *Time
	DeletionProtectionEnabled  *bool
	GlobalSecondaryIndexes     []GlobalSecondaryIndexDescription
	ItemCount                  int64 `reply:"always"`
	KeySchema                  []KeySchemaElement
	LatestStreamArn            string
	LatestStreamLabel          string
	LocalSecondaryIndexes      []LocalSecondaryIndexDescription
	OnDemandThroughput         *OnDemandThroughput
	ProvisionedThroughput      *ProvisionedThroughputDescription
	RestoreSummary             *RestoreSummary
	SSEDescription             *SSEDescription
	StreamSpecification        *StreamSpecification
	TableArn                   string
	TableClassSummary          *TableClassSummary
	TableId                    string
	TableName                  string
	TableSizeBytes             int64 `reply:"always"`
	TableStatus                string
	TableThroughputModeSummary *ThroughputModeSummary
	WarmThroughput             *WarmThroughputDescription
}

// BillingModeSummary is how a table is paid for.
type BillingModeSummary struct {
	BillingMode                       string
	LastUpdateToPayPerRequestDateTime *Time
}

// ThroughputModeSummary repeats the billing mode under another name.
type ThroughputModeSummary struct {
	TableThroughputMode               string
	LastUpdateToPayPerRequestDateTime *Time
}

// ProvisionedThroughputDescription is how many units a table or an index may
// consume.
type ProvisionedThroughputDescription struct {
	LastDecreaseDateTime   *Time
	LastIncreaseDateTime   *Time
	NumberOfDecreasesToday int64 `reply:"always"`
	ReadCapacityUnits      int64 `reply:"always"`
	WriteCapacityUnits     int64 `reply:"always"`
}

// WarmThroughputDescription is the load that a table or an index can take
// immediately.
type WarmThroughputDescription struct {
	ReadUnitsPerSecond  int64 `reply:"always"`
	Status              string
	WriteUnitsPerSecond int64 `reply:"always"`
}

// GlobalSecondaryIndexDescription describes a global index and its state.
type GlobalSecondaryIndexDescription struct {
	Backfilling           *bool
	IndexArn              string
	IndexName             string
	IndexSizeBytes        int64 `reply:"always"`
	IndexStatus           string
	ItemCount             int64 `reply:"always"`
	KeySchema             []KeySchemaElement
	OnDemandThroughput    *OnDemandThroughput
	Projection            *Projection
	ProvisionedThroughput *ProvisionedThroughputDescription
	WarmThroughput        *WarmThroughputDescription
}

// LocalSecondaryIndexDescription describes a local index and its state.
type LocalSecondaryIndexDescription struct {
	IndexArn       string
	IndexName      string
	IndexSizeBytes int64 `reply:"always"`
	ItemCount      int64 `reply:"always"`
	KeySchema      []KeySchemaElement
	Projection     *Projection
}

// SSEDescription is how a table is encrypted.
type SSEDescription struct {
	KMSMasterKeyArn string
	SSEType         string
	Status          string
}

// TableClassSummary is a table's class of storage.
type TableClassSummary struct {
	LastUpdateDateTime *Time
	TableClass         string
}
