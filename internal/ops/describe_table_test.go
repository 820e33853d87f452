package ops

import (
	"testing"
	"time"
)

func TestDescribeTable(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.want("DescribeTable", `{}`, "ValidationException: The parameter 'TableName' is required but was not present in the request")
	tt.want("DescribeTable", `{"TableName":"ab"}`,
		"ValidationException: 1 validation error detected: Value 'ab' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3")
	tt.want("DescribeTable", `{"TableName":"abc"}`, "ResourceNotFoundException: Requested resource not found: Table: abc not found")

	tt.make(members(`"TableName":"abc"`, define(attrA, attrB), keyed(hashA, rangeB), byRequest, `"TableClass":"STANDARD_INFREQUENT_ACCESS"`,
		`"DeletionProtectionEnabled":true`, `"OnDemandThroughput":{"MaxReadRequestUnits":7}`,
		`"SSESpecification":{"SSEType":"KMS","KMSMasterKeyId":"my-key"}`, localIndexOf("xyz", keyed(hashA, rangeB), projectAll)))
	want := `{"Table":{"AttributeDefinitions":[` + attrA + `,` + attrB + `],` +
		`"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST","LastUpdateToPayPerRequestDateTime":1700000000.000},` +
		`"CreationDateTime":1700000000.000,"DeletionProtectionEnabled":true,"ItemCount":0,"KeySchema":[` + hashA + `,` + rangeB + `],` +
		`"LocalSecondaryIndexes":[{"IndexArn":"arn:aws:dynamodb:us-east-1:000000000000:table/abc/index/xyz","IndexName":"xyz","IndexSizeBytes":0,"ItemCount":0,` +
		`"KeySchema":[` + hashA + `,` + rangeB + `],"Projection":{"ProjectionType":"ALL"}}],"OnDemandThroughput":{"MaxReadRequestUnits":7},` +
		`"ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":0,"WriteCapacityUnits":0},` +
		`"SSEDescription":{"KMSMasterKeyArn":"arn:aws:kms:us-east-1:000000000000:key/my-key","SSEType":"KMS","Status":"ENABLED"},` +
		`"TableArn":"arn:aws:dynamodb:us-east-1:000000000000:table/abc","TableClassSummary":{"TableClass":"STANDARD_INFREQUENT_ACCESS"},` +
		`"TableId":"…","TableName":"abc","TableSizeBytes":0,"TableStatus":"ACTIVE",` +
		`"TableThroughputModeSummary":{"TableThroughputMode":"PAY_PER_REQUEST","LastUpdateToPayPerRequestDateTime":1700000000.000},` +
		`"WarmThroughput":{"ReadUnitsPerSecond":12000,"Status":"ACTIVE","WriteUnitsPerSecond":4000}}}`
	tt.want("DescribeTable", `{"TableName":"abc"}`, want)
	tt.want("DescribeTable", `{"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/abc"}`, want)
}

func TestDecreasesCountFromMidnight(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.now.Store(time.Date(2026, 5, 1, 23, 59, 0, 0, time.UTC).UnixNano())
	tt.make(members(`"TableName":"abc"`, define(attrA), keyed(hashA), fiveUnits))
	tt.ask("UpdateTable", `{"TableName":"abc","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}}`)
	count := func() int64 {
		d, err := tt.s.DB.Describe("abc")
		if err != nil {
			t.Fatal(err)
		}
		return tt.s.unitsReply(d.Throughput).NumberOfDecreasesToday
	}
	if got := count(); got != 1 {
		t.Errorf("%d decreases today after one, want 1", got)
	}
	tt.advance(time.Minute)
	if got := count(); got != 0 {
		t.Errorf("%d decreases on the next day, want 0", got)
	}
}
