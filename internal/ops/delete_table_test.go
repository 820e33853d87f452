package ops

import (
	"testing"
	"time"
)

func TestDeleteTable(t *testing.T) {
	tt := newTableTest(t, time.Second)
	tt.want("DeleteTable", `{}`, "ValidationException: The parameter 'TableName' is required but was not present in the request")
	tt.want("DeleteTable", `{"TableName":"abc"}`, "ResourceNotFoundException: Requested resource not found: Table: abc not found")

	tt.make(plainTable("abc", `"DeletionProtectionEnabled":true`, globalIndexOf("xyz", keyed(hashA), projectAll)))
	tt.want("DeleteTable", `{"TableName":"abc"}`, "ResourceInUseException: Attempt to change a resource which is still in use: Table is being created: abc")
	tt.advance(time.Second)
	tt.want("DeleteTable", `{"TableName":"abc"}`,
		"ValidationException: Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
	tt.ask("UpdateTable", `{"TableName":"abc","DeletionProtectionEnabled":false}`)
	tt.ask("UpdateTable", `{"TableName":"abc","BillingMode":"PAY_PER_REQUEST"}`)
	tt.want("DeleteTable", `{"TableName":"abc"}`,
		"ResourceInUseException: Attempt to change a resource which is still in use: Table: abc is in the process of being updated.")

	tt.advance(time.Second)
	desc := `"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST","LastUpdateToPayPerRequestDateTime":1700000000.000},"DeletionProtectionEnabled":false,"ItemCount":0,` +
		`"ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":0,"WriteCapacityUnits":0},` +
		`"TableArn":"arn:aws:dynamodb:us-east-1:000000000000:table/abc","TableId":"…","TableName":"abc","TableSizeBytes":0,"TableStatus":"DELETING",` +
		`"TableThroughputModeSummary":{"TableThroughputMode":"PAY_PER_REQUEST","LastUpdateToPayPerRequestDateTime":1700000000.000}}`
	tt.want("DeleteTable", `{"TableName":"abc"}`, `{"TableDescription":{`+desc+`}`)
	tt.want("DescribeTable", `{"TableName":"abc"}`, `{"Table":{`+desc+`}`)
	tt.want("DeleteTable", `{"TableName":"abc"}`, "ResourceInUseException: Attempt to change a resource which is still in use: Table is being deleted: abc")
	tt.want("TagResource", `{"ResourceArn":"arn:aws:dynamodb:us-east-1:000000000000:table/abc","Tags":[{"Key":"k","Value":"v"}]}`,
		"ResourceInUseException: Attempt to change a resource which is still in use: Table is being deleted: abc")
}

func TestTableIsDeletedAtOnceWithoutDelay(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(plainTable("abc"))
	tt.ask("DeleteTable", `{"TableName":"abc"}`)
	tt.want("ListTables", `{}`, `{"TableNames":[]}`)
	tt.make(plainTable("abc"))
}
