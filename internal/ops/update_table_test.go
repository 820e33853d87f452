package ops

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// setting returns some members of the table description in a reply.
func (t *tableTest) setting(reply string, members ...string) string {
	t.Helper()
	var descriptions map[string]map[string]json.RawMessage
	if err := json.Unmarshal([]byte(reply), &descriptions); err != nil {
		t.Fatalf("%s: %v", reply, err)
	}
	picked := make(map[string]json.RawMessage)
	for _, table := range descriptions {
		for _, name := range members {
			if value, ok := table[name]; ok {
				picked[name] = value
			}
		}
	}
	text, err := json.Marshal(picked)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// update changes table abc, and compares members of the reply and of the later
// description.
func (t *tableTest) update(change, reply, after string, members ...string) {
	t.Helper()
	got := t.ask("UpdateTable", `{"TableName":"abc",`+change+`}`)
	if got[0] != '{' {
		t.Fatalf("UpdateTable %s: %s", change, got)
	}
	if got := t.setting(got, members...); got != reply {
		t.Errorf("UpdateTable %s replies\n got %s\nwant %s", change, got, reply)
	}
	if got := t.setting(t.ask("DescribeTable", `{"TableName":"abc"}`), members...); got != after {
		t.Errorf("after UpdateTable %s\n got %s\nwant %s", change, got, after)
	}
}

func TestUpdateTableFaults(t *testing.T) {
	const nothing = "ValidationException: At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates, SSESpecification, " +
		"ReplicaUpdates, MultiAccountReplicaReady, ReplicaTransitRoleArn, MultiRegionConsistency, DeletionProtectionEnabled, OnDemandThroughput, WarmThroughput or TableClass is required"
	fixed := newTableTest(t, 0)
	fixed.make(members(`"TableName":"abc"`, define(attrA, attrB), keyed(hashA, rangeB), fiveUnits, localIndexOf("lll", keyed(hashA, rangeB), projectAll),
		globalIndexOf("xyz", keyed(hashA), projectAll+","+fiveUnits)))
	asked := newTableTest(t, 0)
	asked.make(plainTable("abc", globalIndexOf("xyz", keyed(hashA), projectAll)))
	index := func(name, members string) string {
		return `"GlobalSecondaryIndexUpdates":[{"Update":{"IndexName":"` + name + `"` + members + `}}]`
	}
	for _, c := range []struct {
		name    string
		table   *tableTest
		request string
		want    string
	}{
		{"nothing changes", fixed, define(attrA), nothing},
		{"an empty list changes nothing", fixed, `"GlobalSecondaryIndexUpdates":[]`, nothing},
		{"an empty structure changes nothing", asked, `"OnDemandThroughput":{},"WarmThroughput":{}`, nothing},
		{"an empty list with another change", fixed, `"GlobalSecondaryIndexUpdates":[],"DeletionProtectionEnabled":true`, invalidValues + "List of GlobalSecondaryIndexUpdates is empty"},
		{"encryption must be the only change", fixed, `"SSESpecification":{"Enabled":true},"DeletionProtectionEnabled":true`,
			invalidValues + "Server-Side Encryption modification must be the only operation in the request"},
		{"class must be the only change", fixed, `"TableClass":"STANDARD","DeletionProtectionEnabled":true`, invalidValues + "TableClass modification must be the only operation in the request"},
		{"protection must be the only change", fixed, `"BillingMode":"PAY_PER_REQUEST","DeletionProtectionEnabled":true`, invalidValues + "DeletionProtection modification must be the only operation in the request"},
		{"maximums can be combined with the mode only", asked, `"OnDemandThroughput":{"MaxReadRequestUnits":1},"WarmThroughput":{"ReadUnitsPerSecond":20000}`,
			invalidValues + "OnDemandThroughput can only be combined with BillingMode in an UpdateTable request"},
		{"warm throughput must be the only change", fixed, `"BillingMode":"PAY_PER_REQUEST","WarmThroughput":{"ReadUnitsPerSecond":20000}`, invalidValues + "WarmThroughput must be the only operation in the request"},
		{"provisioned needs units", asked, `"BillingMode":"PROVISIONED"`, invalidValues + "ProvisionedThroughput must be specified when BillingMode is PROVISIONED"},
		{"units are in bounds", fixed, `"ProvisionedThroughput":{"ReadCapacityUnits":1000000000001,"WriteCapacityUnits":1}`,
			"ValidationException: Given value 1000000000001 for ReadCapacityUnits is out of bounds"},
		{"an index update without an action", fixed, `"GlobalSecondaryIndexUpdates":[{}]`,
			invalidValues + "One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, GlobalSecondaryIndexUpdate.Delete must not be null"},
		{"an index update with two actions", fixed, `"GlobalSecondaryIndexUpdates":[{"Update":{"IndexName":"xyz"},"Delete":{"IndexName":"xyz"}}]`,
			invalidValues + "Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object"},
		{"an index is updated once", fixed, `"GlobalSecondaryIndexUpdates":[{"Delete":{"IndexName":"xyz"}},{"Delete":{"IndexName":"xyz"}}]`,
			invalidValues + "Only one global secondary index update per index is allowed simultaneously. Index: xyz"},
		{"no stream to disable", fixed, `"StreamSpecification":{"StreamEnabled":false}`, "ValidationException: Table has no stream to disable: TableName: abc"},
		{"replicas are not supported", fixed, `"ReplicaUpdates":[{"Create":{"RegionName":"eu-west-1"}}]`, invalidValues + "ReplicaUpdates is not supported yet"},
		{"an existing index", fixed, members(define(attrA), `"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"xyz",`+keyed(hashA)+projectAll+`}}]`),
			"ValidationException: Attempting to create an index which already exists"},
		{"an index without definitions", fixed, `"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"new",` + keyed(hashA) + projectAll + `}}]`,
			invalidValues + "AttributeDefinitions is not specified for index: new"},
		{"a missing index", fixed, `"GlobalSecondaryIndexUpdates":[{"Delete":{"IndexName":"none"}}]`,
			"ResourceNotFoundException: Requested resource not found: Index none for table abc"},
		{"a local index", fixed, index("lll", ","+fiveUnits), "ValidationException: Cannot update an index that is not a GlobalSecondaryIndex: lll"},
		{"the same units", fixed, fiveUnits,
			"ValidationException: The provisioned throughput for the table will not change. The requested value equals the current value. " +
				"Current ReadCapacityUnits provisioned for the table: 5. Requested ReadCapacityUnits: 5. Current WriteCapacityUnits provisioned for the table: 6. Requested WriteCapacityUnits: 6. " +
				"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."},
		{"the same units of an index", fixed, index("xyz", ","+fiveUnits),
			"ValidationException: The provisioned throughput for the index xyz will not change. The requested value equals the current value. " +
				"Current ReadCapacityUnits provisioned for index xyz: 5. Requested ReadCapacityUnits: 5. Current WriteCapacityUnits provisioned for index xyz: 6. Requested WriteCapacityUnits: 6. " +
				"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."},
		{"maximums on a provisioned table", fixed, `"OnDemandThroughput":{"MaxWriteRequestUnits":0}`,
			invalidValues + "MaxWriteRequestUnits for OnDemandThroughput cannot be specified when the table BillingMode is PROVISIONED"},
		{"less warm throughput than before", fixed, `"WarmThroughput":{"WriteUnitsPerSecond":5}`,
			invalidValues + "Requested WriteUnitsPerSecond for WarmThroughput for table is lower than current WarmThroughput, decreasing WarmThroughput is not supported"},
		{"encryption is already the default", fixed, `"SSESpecification":{"Enabled":false}`, invalidValues + "Table is already encrypted by default"},
		{"units on demand", asked, fiveUnits, invalidValues + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"},
		{"units of an index on demand", asked, index("xyz", ","+fiveUnits),
			invalidValues + "The only Updates for index: xyz when TableThroughputMode is PAY_PER_REQUEST can be to OnDemandThroughput, WarmThroughput"},
		{"provisioned needs units for each index", asked, members(`"BillingMode":"PROVISIONED"`, fiveUnits), invalidValues + "ProvisionedThroughput must be specified for index: xyz"},
		{"a maximum below -1", asked, `"OnDemandThroughput":{"MaxReadRequestUnits":-2}`,
			invalidValues + "Requested MaxReadRequestUnits for OnDemandThroughput for table is outside of valid range"},
	} {
		t.Run(c.name, func(t *testing.T) { c.table.in(t).want("UpdateTable", `{"TableName":"abc",`+c.request+`}`, c.want) })
	}
	fixed.want("UpdateTable", `{"BillingMode":"PAY_PER_REQUEST"}`, "ValidationException: The parameter 'TableName' is required but was not present in the request")
	fixed.want("UpdateTable", `{"TableName":"none","BillingMode":"PAY_PER_REQUEST"}`, "ResourceNotFoundException: Requested resource not found: Table: none not found")
}

func TestUpdateTableRepliesWithOldUnits(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(members(`"TableName":"abc"`, define(attrA), keyed(hashA), fiveUnits))
	tt.advance(time.Hour)
	tt.update(`"ProvisionedThroughput":{"ReadCapacityUnits":9,"WriteCapacityUnits":9}`,
		`{"ProvisionedThroughput":{"LastIncreaseDateTime":1700003600.000,"NumberOfDecreasesToday":0,"ReadCapacityUnits":5,"WriteCapacityUnits":6},"TableStatus":"UPDATING","WarmThroughput":{"ReadUnitsPerSecond":5,"Status":"ACTIVE","WriteUnitsPerSecond":6}}`,
		`{"ProvisionedThroughput":{"LastIncreaseDateTime":1700003600.000,"NumberOfDecreasesToday":0,"ReadCapacityUnits":9,"WriteCapacityUnits":9},"TableStatus":"ACTIVE","WarmThroughput":{"ReadUnitsPerSecond":9,"Status":"ACTIVE","WriteUnitsPerSecond":9}}`,
		"TableStatus", "ProvisionedThroughput", "WarmThroughput")
	tt.advance(time.Hour)
	tt.update(`"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":9}`,
		`{"ProvisionedThroughput":{"LastDecreaseDateTime":1700007200.000,"LastIncreaseDateTime":1700003600.000,"NumberOfDecreasesToday":0,"ReadCapacityUnits":9,"WriteCapacityUnits":9},"WarmThroughput":{"ReadUnitsPerSecond":9,"Status":"ACTIVE","WriteUnitsPerSecond":9}}`,
		`{"ProvisionedThroughput":{"LastDecreaseDateTime":1700007200.000,"LastIncreaseDateTime":1700003600.000,"NumberOfDecreasesToday":1,"ReadCapacityUnits":1,"WriteCapacityUnits":9},"WarmThroughput":{"ReadUnitsPerSecond":9,"Status":"ACTIVE","WriteUnitsPerSecond":9}}`,
		"ProvisionedThroughput", "WarmThroughput")
}

func TestUpdateTableSwitchesModes(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(members(`"TableName":"abc"`, define(attrA), keyed(hashA), fiveUnits))
	tt.advance(time.Hour)
	tt.update(`"BillingMode":"PAY_PER_REQUEST","OnDemandThroughput":{"MaxReadRequestUnits":8}`,
		`{"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST"},"OnDemandThroughput":{"MaxReadRequestUnits":8},"ProvisionedThroughput":{"LastDecreaseDateTime":1700003600.000,"NumberOfDecreasesToday":0,"ReadCapacityUnits":0,"WriteCapacityUnits":0},"TableStatus":"UPDATING","WarmThroughput":{"ReadUnitsPerSecond":5,"Status":"ACTIVE","WriteUnitsPerSecond":6}}`,
		`{"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST","LastUpdateToPayPerRequestDateTime":1700003600.000},"OnDemandThroughput":{"MaxReadRequestUnits":8},"ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":0,"WriteCapacityUnits":0},"TableStatus":"ACTIVE","WarmThroughput":{"ReadUnitsPerSecond":12000,"Status":"ACTIVE","WriteUnitsPerSecond":4000}}`,
		"TableStatus", "BillingModeSummary", "ProvisionedThroughput", "OnDemandThroughput", "WarmThroughput")
	tt.update(`"BillingMode":"PAY_PER_REQUEST"`, `{"TableStatus":"UPDATING"}`, `{"TableStatus":"ACTIVE"}`, "TableStatus")
	back := `{"BillingModeSummary":{"BillingMode":"PROVISIONED","LastUpdateToPayPerRequestDateTime":1700003600.000},"ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":5,"WriteCapacityUnits":6},"WarmThroughput":{"ReadUnitsPerSecond":12000,"Status":"ACTIVE","WriteUnitsPerSecond":4000}}`
	tt.update(members(`"BillingMode":"PROVISIONED"`, fiveUnits), back, back, "BillingModeSummary", "ProvisionedThroughput", "OnDemandThroughput", "WarmThroughput")
}

func TestUpdateTableMergesCeilings(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(plainTable("abc"))
	for _, c := range []struct{ change, reply, after string }{
		{`{"MaxReadRequestUnits":1000,"MaxWriteRequestUnits":500}`, `{"MaxReadRequestUnits":1000,"MaxWriteRequestUnits":500}`, `{"MaxReadRequestUnits":1000,"MaxWriteRequestUnits":500}`},
		{`{"MaxReadRequestUnits":2000}`, `{"MaxReadRequestUnits":2000,"MaxWriteRequestUnits":500}`, `{"MaxReadRequestUnits":2000,"MaxWriteRequestUnits":500}`},
		{`{"MaxReadRequestUnits":-1}`, `{"MaxReadRequestUnits":-1,"MaxWriteRequestUnits":500}`, `{"MaxWriteRequestUnits":500}`},
		{`{"MaxWriteRequestUnits":-1}`, `{"MaxWriteRequestUnits":-1}`, ``},
	} {
		description := func(ceilings string) string {
			if ceilings == "" {
				return `{"TableStatus":"ACTIVE"}`
			}
			return `{"OnDemandThroughput":` + ceilings + `,"TableStatus":"ACTIVE"}`
		}
		tt.update(`"OnDemandThroughput":`+c.change, description(c.reply), description(c.after), "OnDemandThroughput", "TableStatus")
	}
}

func TestUpdateTableSettings(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(plainTable("abc"))
	tt.update(`"DeletionProtectionEnabled":true`, `{"DeletionProtectionEnabled":true,"TableStatus":"ACTIVE"}`, `{"DeletionProtectionEnabled":true,"TableStatus":"ACTIVE"}`,
		"DeletionProtectionEnabled", "TableStatus")
	tt.update(`"TableClass":"STANDARD"`, `{"TableStatus":"UPDATING"}`, `{"TableStatus":"ACTIVE"}`, "TableClassSummary", "TableStatus")
	tt.update(`"TableClass":"STANDARD_INFREQUENT_ACCESS"`, `{}`,
		`{"TableClassSummary":{"LastUpdateDateTime":1700000000.000,"TableClass":"STANDARD_INFREQUENT_ACCESS"}}`, "TableClassSummary")
	tt.update(`"WarmThroughput":{"ReadUnitsPerSecond":13000}`,
		`{"TableStatus":"ACTIVE","WarmThroughput":{"ReadUnitsPerSecond":12000,"Status":"UPDATING","WriteUnitsPerSecond":4000}}`,
		`{"TableStatus":"ACTIVE","WarmThroughput":{"ReadUnitsPerSecond":13000,"Status":"ACTIVE","WriteUnitsPerSecond":4000}}`, "TableStatus", "WarmThroughput")
	tt.update(`"SSESpecification":{"SSEType":"KMS","KMSMasterKeyId":"arn:aws:kms:us-east-1:000000000000:key/k"}`, `{"SSEDescription":{"Status":"UPDATING"}}`,
		`{"SSEDescription":{"KMSMasterKeyArn":"arn:aws:kms:us-east-1:000000000000:key/k","SSEType":"KMS","Status":"ENABLED"}}`, "SSEDescription")
	tt.want("UpdateTable", `{"TableName":"abc","SSESpecification":{"SSEType":"KMS","KMSMasterKeyId":"arn:aws:kms:us-east-1:000000000000:key/k"}}`,
		invalidValues+"Table is already encrypted with given KMSMasterKeyId. Use KMSMasterKeyId parameter if you want to change Master Key")
	tt.update(`"SSESpecification":{"Enabled":false}`,
		`{"SSEDescription":{"KMSMasterKeyArn":"arn:aws:kms:us-east-1:000000000000:key/k","SSEType":"KMS","Status":"UPDATING"}}`, `{}`, "SSEDescription")
}

func TestUpdateTableChangesIndexes(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(members(`"TableName":"abc"`, define(attrA), keyed(hashA), fiveUnits, globalIndexOf("xyz", keyed(hashA), projectAll+","+fiveUnits)))
	index := func(status, units, warm string) string {
		return `{"GlobalSecondaryIndexes":[{"IndexArn":"arn:aws:dynamodb:us-east-1:000000000000:table/abc/index/xyz","IndexName":"xyz","IndexSizeBytes":0,"IndexStatus":"` + status +
			`","ItemCount":0,"KeySchema":[` + hashA + `],"Projection":{"ProjectionType":"ALL"},"ProvisionedThroughput":{` + units + `},"WarmThroughput":{` + warm + `}}],"TableStatus":"ACTIVE"}`
	}
	tt.update(`"GlobalSecondaryIndexUpdates":[{"Update":{"IndexName":"xyz","ProvisionedThroughput":{"ReadCapacityUnits":7,"WriteCapacityUnits":7}}}]`,
		index("UPDATING", `"LastIncreaseDateTime":1700000000.000,"NumberOfDecreasesToday":0,"ReadCapacityUnits":5,"WriteCapacityUnits":6`, `"ReadUnitsPerSecond":5,"Status":"ACTIVE","WriteUnitsPerSecond":6`),
		index("ACTIVE", `"LastIncreaseDateTime":1700000000.000,"NumberOfDecreasesToday":0,"ReadCapacityUnits":7,"WriteCapacityUnits":7`, `"ReadUnitsPerSecond":7,"Status":"ACTIVE","WriteUnitsPerSecond":7`),
		"GlobalSecondaryIndexes", "TableStatus")
}

func TestUpdateTableTakesItsTime(t *testing.T) {
	tt := newTableTest(t, time.Second)
	tt.make(members(`"TableName":"abc"`, define(attrA), keyed(hashA), fiveUnits))
	change := `{"TableName":"abc","ProvisionedThroughput":{"ReadCapacityUnits":9,"WriteCapacityUnits":9}}`
	tt.want("UpdateTable", change, "ResourceInUseException: Attempt to change a resource which is still in use: Table is being created: abc")
	tt.advance(time.Second)
	tt.ask("UpdateTable", change)
	tt.want("UpdateTable", change, "ResourceInUseException: Attempt to change a resource which is still in use: Table IOPS are currently being updated. Table: abc")
	tt.advance(time.Second)
	tt.ask("UpdateTable", `{"TableName":"abc","DeletionProtectionEnabled":true}`)
	if got := tt.setting(tt.ask("DescribeTable", `{"TableName":"abc"}`), "TableStatus"); got != `{"TableStatus":"ACTIVE"}` {
		t.Errorf("the table after a change of protection is %s", got)
	}
}

func TestFaultyUpdateChangesNothing(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(plainTable("abc", globalIndexOf("xyz", keyed(hashA), projectAll)))
	before := tt.ask("DescribeTable", `{"TableName":"abc"}`)
	tt.ask("UpdateTable", `{"TableName":"abc","GlobalSecondaryIndexUpdates":[{"Update":{"IndexName":"xyz","OnDemandThroughput":{"MaxReadRequestUnits":5}}},{"Update":{"IndexName":"none"}}]}`)
	tt.want("DescribeTable", `{"TableName":"abc"}`, before)
}

// The fifth decrease of a day is possible an hour after the fourth, and all again
// from midnight on. An index has its own.
func TestUpdateTableLimitsDecreases(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.now.Store(time.Date(2026, 10, 9, 21, 50, 0, 0, time.UTC).UnixNano())
	tt.make(members(`"TableName":"abc"`, define(attrA), keyed(hashA), `"ProvisionedThroughput":{"ReadCapacityUnits":50,"WriteCapacityUnits":50}`,
		globalIndexOf("xyz", keyed(hashA), projectAll+`,"ProvisionedThroughput":{"ReadCapacityUnits":50,"WriteCapacityUnits":50}`)))
	units := 50
	decrease := func(format string) string {
		units--
		reply := tt.ask("UpdateTable", fmt.Sprintf(`{"TableName":"abc",`+format+`}`, units))
		if strings.HasPrefix(reply, "{") {
			return "accepted"
		}
		return reply
	}
	const table, index = `"ProvisionedThroughput":{"ReadCapacityUnits":%d,"WriteCapacityUnits":50}`,
		`"GlobalSecondaryIndexUpdates":[{"Update":{"IndexName":"xyz","ProvisionedThroughput":{"ReadCapacityUnits":%d,"WriteCapacityUnits":50}}}]`
	for _, c := range []struct {
		after time.Duration
		what  string
		want  string
	}{
		{0, table, "accepted"}, {0, table, "accepted"}, {0, table, "accepted"}, {0, table, "accepted"},
		{59 * time.Minute, table, "Next decrease can be made at Friday, October 9, 2026 at 10:50:00 PM Coordinated Universal Time"},
		{0, index, "accepted"},
		{time.Minute, table, "accepted"}, // 22:50
		{time.Second, table, "Number of decreases today: 5. Last decrease at Friday, October 9, 2026 at 10:50:00 PM Coordinated Universal Time."},
		{time.Hour, table, "accepted"}, // 23:50:01
		{5 * time.Minute, table, "Next decrease can be made at Saturday, October 10, 2026 at 12:00:00 AM Coordinated Universal Time"},
		{5 * time.Minute, table, "accepted"}, {0, table, "accepted"}, {0, table, "accepted"}, {0, table, "accepted"},
		{0, table, "Number of decreases today: 4."},
	} {
		tt.advance(c.after)
		if got := decrease(c.what); !strings.Contains(got, c.want) {
			t.Errorf("at %v: %s, want %s", time.Unix(0, tt.now.Load()).UTC(), got, c.want)
		}
	}
}
