package api

// ExportTableToPointInTime writes an earlier state of a table, or its
// changes, to files in a bucket.
type ExportTableToPointInTime struct {
	TableArn                       *string `must:"present,minlen=1,maxlen=1024"`
	ExportTime                     *Time
	ClientToken                    *string `must:"like=[^\\$]+"`
	S3Bucket                       *string `must:"present,maxlen=255,like=[a-z0-9A-Z]+[\\.\\-\\w]*[a-z0-9A-Z]+"`
	S3BucketOwner                  *string `must:"like=[0-9]{12}"`
	S3Prefix                       *string `must:"maxlen=1024"`
	S3SseAlgorithm                 *string `must:"oneof=AES256|KMS"`
	S3SseKmsKeyId                  *string `must:"minlen=1,maxlen=2048"`
	ExportFormat                   *string `must:"oneof=DYNAMODB_JSON|ION"`
	ExportType                     *string `must:"oneof=FULL_EXPORT|INCREMENTAL_EXPORT"`
	IncrementalExportSpecification *IncrementalExportSpecification
	FilterSpecification            *FilterSpecification
}

// IncrementalExportSpecification is the window of an export of changes.
type IncrementalExportSpecification struct {
	ExportFromTime *Time
	ExportToTime   *Time
	ExportViewType *string `must:"oneof=NEW_IMAGE|NEW_AND_OLD_IMAGES"`
}

// FilterSpecification selects the items of an export.
type FilterSpecification struct {
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]Value
	FilterExpression          *string
	KeyConditionExpression    *string
	ProjectionExpression      *string
}

// DescribeExport asks for one export.
type DescribeExport struct {
	ExportArn *string `must:"present,minlen=37,maxlen=1024"`
}

// ExportReply answers an ExportTableToPointInTime or a DescribeExport.
type ExportReply struct {
	ExportDescription *ExportDescription
}

// ExportDescription describes an export and its progress.
type ExportDescription struct {
	BilledSizeBytes                *int64
	ClientToken                    string
	EndTime                        *Time
	ExportArn                      string
	ExportFormat                   string
	ExportManifest                 string
	ExportStatus                   string
	ExportTime                     *Time
	ExportType                     string
	FailureCode                    string
	FailureMessage                 string
	IncrementalExportSpecification *IncrementalExportSpecification
	ItemCount                      *int64
	S3Bucket                       string
	S3BucketOwner                  string
	S3Prefix                       string
	S3SseAlgorithm                 string
	S3SseKmsKeyId                  string
	StartTime                      *Time
	TableArn                       string
	TableId                        string
}

// ListExports asks for exports.
type ListExports struct {
	TableArn   *string `must:"minlen=1,maxlen=1024"`
	MaxResults *int32  `must:"min=1,max=25"`
	NextToken  *string
}

// ListExportsReply answers a ListExports.
type ListExportsReply struct {
	ExportSummaries []ExportSummary `reply:"always"`
	NextToken       string
}

// ExportSummary is one export in a list.
type ExportSummary struct {
	ExportArn    string
	ExportStatus string
	ExportType   string
}

// ImportTable creates a table from files in a bucket.
type ImportTable struct {
	ClientToken             *string         `must:"like=[^\\$]+"`
	S3BucketSource          *S3BucketSource `must:"present"`
	InputFormat             *string         `must:"present,oneof=DYNAMODB_JSON|ION|CSV"`
	InputFormatOptions      *InputFormatOptions
	InputCompressionType    *string                  `must:"oneof=GZIP|ZSTD|NONE"`
	TableCreationParameters *TableCreationParameters `must:"present"`
}

// S3BucketSource is where the files of an import are.
type S3BucketSource struct {
	S3BucketOwner *string `must:"like=[0-9]{12}"`
	S3Bucket      *string `must:"present,maxlen=255,like=[a-z0-9A-Z]+[\\.\\-\\w]*[a-z0-9A-Z]+"`
	S3KeyPrefix   *string `must:"maxlen=1024"`
}

// InputFormatOptions describe the format of the files of an import.
type InputFormatOptions struct {
	Csv *CsvOptions
}

// CsvOptions describe CSV files.
type CsvOptions struct {
	Delimiter  *string  `must:"minlen=1,maxlen=1"`
	HeaderList []string `must:"minlen=1,maxlen=255"`
}

// TableCreationParameters describe the table that an import creates.
type TableCreationParameters struct {
	TableName              *string               `must:"present,minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
	AttributeDefinitions   []AttributeDefinition `must:"present"`
	KeySchema              []KeySchemaElement    `must:"present,minlen=1,maxlen=2"`
	BillingMode            *string               `must:"oneof=PROVISIONED|PAY_PER_REQUEST"`
	ProvisionedThroughput  *ProvisionedThroughput
	OnDemandThroughput     *OnDemandThroughput
	SSESpecification       *SSESpecification
	GlobalSecondaryIndexes []GlobalSecondaryIndex
	VectorIndexes          []VectorIndex
}

// DescribeImport asks for one import.
type DescribeImport struct {
	ImportArn *string `must:"present,minlen=37,maxlen=1024"`
}

// ImportReply answers an ImportTable or a DescribeImport.
type ImportReply struct {
	ImportTableDescription *ImportTableDescription
}

// ImportTableDescription describes an import and its progress.
type ImportTableDescription struct {
	ClientToken             string
	CloudWatchLogGroupArn   string
	EndTime                 *Time
	ErrorCount              int64 `reply:"always"`
	FailureCode             string
	FailureMessage          string
	ImportArn               string
	ImportStatus            string
	ImportedItemCount       int64 `reply:"always"`
	InputCompressionType    string
	InputFormat             string
	InputFormatOptions      *InputFormatOptions
	ProcessedItemCount      int64 `reply:"always"`
	ProcessedSizeBytes      *int64
	S3BucketSource          *S3BucketSource
	StartTime               *Time
	TableArn                string
	TableCreationParameters *TableCreationParameters
	TableId                 string
}

// ListImports asks for imports.
type ListImports struct {
	TableArn  *string `must:"minlen=1,maxlen=1024"`
	PageSize  *int32  `must:"min=1,max=25"`
	NextToken *string `must:"minlen=112,maxlen=1024,like=([0-9a-f]{16})+"`
}

// ListImportsReply answers a ListImports.
type ListImportsReply struct {
	ImportSummaryList []ImportSummary `reply:"always"`
	NextToken         string
}

// ImportSummary is one import in a list.
type ImportSummary struct {
	CloudWatchLogGroupArn string
	EndTime               *Time
	ImportArn             string
	ImportStatus          string
	InputFormat           string
	S3BucketSource        *S3BucketSource
	StartTime             *Time
	TableArn              string
}
