package api

// UpdateContinuousBackups enables or disables point-in-time recovery of a
// table.
type UpdateContinuousBackups struct {
	TableName                        string                            `must:"present,table"`
	PointInTimeRecoverySpecification *PointInTimeRecoverySpecification `must:"present"`
}

// PointInTimeRecoverySpecification is whether a table can be restored to any
// second, and for how many days back.
type PointInTimeRecoverySpecification struct {
	PointInTimeRecoveryEnabled *bool  `must:"present"`
	RecoveryPeriodInDays       *int32 `must:"min=1,max=35"`
}

// DescribeContinuousBackups asks whether a table can be restored to any
// second.
type DescribeContinuousBackups struct {
	TableName string `must:"present,table"`
}

// ContinuousBackupsReply answers an UpdateContinuousBackups or a
// DescribeContinuousBackups.
type ContinuousBackupsReply struct {
	ContinuousBackupsDescription *ContinuousBackupsDescription
}

// ContinuousBackupsDescription is whether a table can be restored.
type ContinuousBackupsDescription struct {
	ContinuousBackupsStatus        string
	PointInTimeRecoveryDescription *PointInTimeRecoveryDescription
}

// PointInTimeRecoveryDescription is the window that a table can be restored
// to.
type PointInTimeRecoveryDescription struct {
	EarliestRestorableDateTime *Time
	LatestRestorableDateTime   *Time
	PointInTimeRecoveryStatus  string
	RecoveryPeriodInDays       *int32
}

// RestoreTableToPointInTime creates a table from an earlier state of another.
type RestoreTableToPointInTime struct {
	SourceTableArn          *string `must:"minlen=1,maxlen=1024"`
	SourceTableName         *string `must:"minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
	TargetTableName         *string `must:"present,minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
	UseLatestRestorableTime *bool
	RestoreDateTime         *Time
	RestoreOverrides
}

// RestoreTableFromBackup creates a table from a backup.
type RestoreTableFromBackup struct {
	TargetTableName *string `must:"present,minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
	BackupArn       *string `must:"present,minlen=37,maxlen=1024"`
	RestoreOverrides
}

// RestoreOverrides replace settings of the source table in a restored table.
type RestoreOverrides struct {
	BillingModeOverride           *string `must:"oneof=PROVISIONED|PAY_PER_REQUEST"`
	GlobalSecondaryIndexOverride  []GlobalSecondaryIndex
	LocalSecondaryIndexOverride   []LocalSecondaryIndex
	ProvisionedThroughputOverride *ProvisionedThroughput
	OnDemandThroughputOverride    *OnDemandThroughput
	SSESpecificationOverride      *SSESpecification
}

// RestoreSummary is what a table was made from.
type RestoreSummary struct {
	RestoreDateTime   *Time
	RestoreInProgress *bool
	SourceBackupArn   string
	SourceTableArn    string
}

// CreateBackup makes a backup of a table.
type CreateBackup struct {
	TableName  string  `must:"present,table"`
	BackupName *string `must:"present,minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
}

// CreateBackupReply answers a CreateBackup.
type CreateBackupReply struct {
	BackupDetails *BackupDetails
}

// DescribeBackup asks for one backup.
type DescribeBackup struct {
	BackupArn *string `must:"present,minlen=37,maxlen=1024"`
}

// DeleteBackup removes a backup.
type DeleteBackup struct {
	BackupArn *string `must:"present,minlen=37,maxlen=1024"`
}

// BackupReply answers a DescribeBackup or a DeleteBackup.
type BackupReply struct {
	BackupDescription *BackupDescription
}

// BackupDescription is a backup and the table it is of.
type BackupDescription struct {
	BackupDetails             *BackupDetails
	SourceTableDetails        *SourceTableDetails
	SourceTableFeatureDetails *SourceTableFeatureDetails
}

// BackupDetails describe a backup and its state.
type BackupDetails struct {
	BackupArn              string
	BackupCreationDateTime *Time
	BackupExpiryDateTime   *Time
	BackupName             string
	BackupSizeBytes        *int64
	BackupStatus           string
	BackupType             string
}

// SourceTableDetails describe a table at the time of its backup.
type SourceTableDetails struct {
	BillingMode           string
	ItemCount             *int64
	KeySchema             []KeySchemaElement
	OnDemandThroughput    *OnDemandThroughput
	ProvisionedThroughput *ProvisionedThroughput
	TableArn              string
	TableCreationDateTime *Time
	TableId               string
	TableName             string
	TableSizeBytes        *int64
}

// SourceTableFeatureDetails are the indexes and settings of a table at the
// time of its backup.
type SourceTableFeatureDetails struct {
	GlobalSecondaryIndexes []GlobalSecondaryIndexInfo
	LocalSecondaryIndexes  []LocalSecondaryIndexInfo
	SSEDescription         *SSEDescription
	StreamDescription      *StreamSpecification
	TimeToLiveDescription  *TimeToLiveDescription
}

// GlobalSecondaryIndexInfo is a global index of a table that was backed up.
type GlobalSecondaryIndexInfo struct {
	IndexName             string
	KeySchema             []KeySchemaElement
	OnDemandThroughput    *OnDemandThroughput
	Projection            *Projection
	ProvisionedThroughput *ProvisionedThroughput
}

// LocalSecondaryIndexInfo is a local index of a table that was backed up.
type LocalSecondaryIndexInfo struct {
	IndexName  string
	KeySchema  []KeySchemaElement
	Projection *Projection
}

// ListBackups asks for backups.
type ListBackups struct {
	TableName               *string `must:"table"`
	Limit                   *int32  `must:"min=1,max=100"`
	TimeRangeLowerBound     *Time
	TimeRangeUpperBound     *Time
	ExclusiveStartBackupArn *string `must:"minlen=37,maxlen=1024"`
	BackupType              *string `must:"oneof=USER|SYSTEM|AWS_BACKUP|ALL"`
}

// ListBackupsReply answers a ListBackups.
type ListBackupsReply struct {
	BackupSummaries        []BackupSummary `reply:"always"`
	LastEvaluatedBackupArn string
}

// BackupSummary is one backup in a list.
type BackupSummary struct {
	BackupArn              string
	BackupCreationDateTime *Time
	BackupExpiryDateTime   *Time
	BackupName             string
	BackupSizeBytes        *int64
	BackupStatus           string
	BackupType             string
	TableArn               string
	TableId                string
	TableName              string
}
