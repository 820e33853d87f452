package ops

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store/pebble"
)

// tableTest sends requests to a service on an empty database. Its clock advances
// only when a test sets it.
type tableTest struct {
	*testing.T
	s   *Service
	now *atomic.Int64 // in nanoseconds; background work reads it too
}

func newTableTest(t *testing.T, delay time.Duration) *tableTest {
	t.Helper()
	return newTableTestWith(t, db.Options{TableDelay: delay}, false)
}

// newTableTestWith takes options; with timed, the engine has the same clock.
func newTableTestWith(t *testing.T, o db.Options, timed bool) *tableTest {
	t.Helper()
	tt := &tableTest{T: t, now: new(atomic.Int64)}
	tt.now.Store(time.Unix(1_700_000_000, 0).UnixNano())
	now := func() time.Time { return time.Unix(0, tt.now.Load()) }
	o.Clock = clock.Given(now)
	storage := pebble.InMemory()
	if timed {
		storage.Now = now
	}
	engine, err := pebble.Open(storage)
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), engine, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { errors.Join(d.Close(), engine.Close()) })
	tt.s = New(Parts{DB: d})
	return tt
}

// advance moves the clock.
func (t *tableTest) advance(d time.Duration) { t.now.Add(int64(d)) }

// in returns the same service for a subtest.
func (t *tableTest) in(inner *testing.T) *tableTest {
	within := *t
	within.T = inner
	return &within
}

var tableIDs = regexp.MustCompile(`"TableId":"[0-9a-f-]{36}"`)

// ask sends a request and returns its reply or its fault.
func (t *tableTest) ask(operation, body string) string {
	t.Helper()
	reply, err := answer(t.Context(), t.s, operation, []byte(body), new(buffer.Scratch))
	var fault *apierror.Error
	switch {
	case errors.As(err, &fault):
		return fault.Error()
	case err != nil:
		t.Fatalf("%s %s: %v", operation, body, err)
	}
	return tableIDs.ReplaceAllString(string(reply), `"TableId":"…"`)
}

// make creates a table.
func (t *tableTest) make(members string) {
	t.Helper()
	if got := t.ask("CreateTable", "{"+members+"}"); !strings.HasPrefix(got, "{") {
		t.Fatalf("CreateTable {%s}: %s", members, got)
	}
}

func (t *tableTest) want(operation, body, want string) {
	t.Helper()
	if got := t.ask(operation, body); got != want {
		t.Errorf("%s %s\n got %s\nwant %s", operation, body, got, want)
	}
}

// Parts of requests.
const (
	attrA         = `{"AttributeName":"a","AttributeType":"S"}`
	attrB         = `{"AttributeName":"b","AttributeType":"N"}`
	attrC         = `{"AttributeName":"c","AttributeType":"B"}`
	hashA         = `{"AttributeName":"a","KeyType":"HASH"}`
	rangeB        = `{"AttributeName":"b","KeyType":"RANGE"}`
	fiveUnits     = `"ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":6}`
	byRequest     = `"BillingMode":"PAY_PER_REQUEST"`
	invalidValues = "ValidationException: One or more parameter values were invalid: "
)

func define(attributes ...string) string {
	return `"AttributeDefinitions":[` + strings.Join(attributes, ",") + `]`
}

func keyed(elements ...string) string { return `"KeySchema":[` + strings.Join(elements, ",") + `]` }

func localIndexOf(name, key, rest string) string {
	return fmt.Sprintf(`"LocalSecondaryIndexes":[{"IndexName":%q,%s%s}]`, name, key, rest)
}

func globalIndexOf(name, key, rest string) string {
	return fmt.Sprintf(`"GlobalSecondaryIndexes":[{"IndexName":%q,%s%s}]`, name, key, rest)
}

const projectAll = `,"Projection":{"ProjectionType":"ALL"}`

func members(list ...string) string { return strings.Join(list, ",") }

// plainTable is an on-demand table with one key attribute.
func plainTable(name string, more ...string) string {
	return members(append([]string{fmt.Sprintf(`"TableName":%q`, name), define(attrA), keyed(hashA), byRequest}, more...)...)
}

func TestCreateTableFaults(t *testing.T) {
	const name = `"TableName":"abc"`
	for _, c := range []struct{ name, request, want string }{
		{"a name is needed", members(define(attrA), keyed(hashA), fiveUnits),
			"ValidationException: The parameter 'TableName' is required but was not present in the request"},
		{"a name has three characters", members(`"TableName":"ab"`, define(attrA), keyed(hashA), fiveUnits),
			"ValidationException: 1 validation error detected: Value 'ab' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3"},
		{"a bad name is the only fault reported", members(`"TableName":"abc!"`, keyed()),
			"ValidationException: 1 validation error detected: Value 'abc!' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
		{"both units are needed, writes first", members(name, define(attrA), keyed(hashA), `"ProvisionedThroughput":{}`),
			"ValidationException: 2 validation errors detected: Value null at 'provisionedThroughput.writeCapacityUnits' failed to satisfy constraint: Member must not be null; " +
				"Value null at 'provisionedThroughput.readCapacityUnits' failed to satisfy constraint: Member must not be null"},
		{"a table is provisioned by default", members(name, define(attrA), keyed(hashA)),
			invalidValues + "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED"},
		{"an on-demand table has no units", members(name, define(), keyed(hashA), fiveUnits, byRequest),
			invalidValues + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"},
		{"units have a bound", members(name, define(), keyed(hashA), `"ProvisionedThroughput":{"ReadCapacityUnits":1000000000001,"WriteCapacityUnits":1000000000001}`),
			"ValidationException: Given value 1000000000001 for ReadCapacityUnits is out of bounds"},
		{"units have a limit", members(name, define(attrA), keyed(hashA), `"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":40001}`),
			"LimitExceededException: The requested WriteCapacityUnits, 40001, is above the per table maximum for the account in us-east-1. Per table maximum: 40000. " +
				"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."},
		{"an attribute is defined once", members(name, define(attrA, attrA), keyed(hashA), byRequest),
			"ValidationException: Attribute Name is duplicated: a"},
		{"fewer definitions than key attributes", members(name, define(attrA), keyed(hashA, `{"AttributeName":"a","KeyType":"RANGE"}`), byRequest),
			"ValidationException: Invalid KeySchema: Some index key attribute have no definition"},
		{"a key attribute without definition", members(name, define(attrB), keyed(hashA), byRequest),
			invalidValues + "Some index key attributes are not defined in AttributeDefinitions. Keys: [a], AttributeDefinitions: [b]"},
		{"a key attribute twice", members(name, define(attrA, attrB), keyed(hashA, hashA), byRequest),
			"ValidationException: Both the Hash Key and the Range Key element in the KeySchema have the same name"},
		{"no partition key first", members(name, define(attrA, attrB), keyed(rangeB, hashA), byRequest),
			"ValidationException: Invalid KeySchema: The first KeySchemaElement is not a HASH key type"},
		{"no sort key second", members(name, define(attrA, attrB), keyed(hashA, `{"AttributeName":"b","KeyType":"HASH"}`), byRequest),
			"ValidationException: Invalid KeySchema: The second KeySchemaElement is not a RANGE key type"},
		{"a definition unused", members(name, define(attrA, attrB), keyed(hashA), byRequest),
			invalidValues + "Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions"},
		{"a definition unused, with indexes", members(name, define(attrA, attrB, attrC), keyed(hashA), globalIndexOf("xyz", keyed(`{"AttributeName":"b","KeyType":"HASH"}`), `,"Projection":{}`), byRequest),
			invalidValues + "Some AttributeDefinitions are not used. AttributeDefinitions: [a, b, c], keys used: [a, b]"},
		{"no local indexes", members(name, define(attrA), keyed(hashA), `"LocalSecondaryIndexes":[]`, byRequest),
			invalidValues + "List of LocalSecondaryIndexes is empty"},
		{"no global indexes", members(name, define(attrA), keyed(hashA), `"GlobalSecondaryIndexes":[]`, byRequest),
			invalidValues + "List of GlobalSecondaryIndexes is empty"},
		{"a local index without a sort key of the table", members(name, define(attrA, attrB), keyed(hashA), localIndexOf("xyz", keyed(rangeB), projectAll), byRequest),
			invalidValues + "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex"},
		{"a local index without a sort key", members(name, define(attrA, attrB), keyed(hashA, rangeB), localIndexOf("xyz", keyed(hashA), projectAll), byRequest),
			invalidValues + "Index KeySchema does not have a range key for index: xyz"},
		{"a local index of another partition key", members(name, define(attrA, attrB), keyed(hashA, rangeB), localIndexOf("xyz", keyed(`{"AttributeName":"b","KeyType":"HASH"}`, `{"AttributeName":"a","KeyType":"RANGE"}`), projectAll), byRequest),
			invalidValues + "Index KeySchema does not have the same leading hash key as table KeySchema for index: xyz. index hash key: b, table hash key: a"},
		{"an index key without definition", members(name, define(attrA, attrB), keyed(hashA), globalIndexOf("xyz", keyed(`{"AttributeName":"c","KeyType":"RANGE"}`), `,"Projection":{}`), byRequest),
			invalidValues + "Some index key attributes are not defined in AttributeDefinitions. Keys: [c], AttributeDefinitions: [a, b]"},
		{"an index key attribute twice", members(name, define(attrA), keyed(hashA), globalIndexOf("xyz", keyed(hashA, `{"AttributeName":"a","KeyType":"RANGE"}`), projectAll), byRequest),
			"ValidationException: The KeySchema contains multiple key attributes with the same name"},
		{"index key attributes in the wrong order", members(name, define(attrA, attrB, attrC), keyed(hashA), globalIndexOf("xyz", keyed(hashA, rangeB, `{"AttributeName":"c","KeyType":"HASH"}`), projectAll), byRequest),
			invalidValues + "All HASH key attributes must precede RANGE key attributes in the KeySchema"},
		{"a projection of no type", members(name, define(attrA), keyed(hashA), globalIndexOf("xyz", keyed(hashA), `,"Projection":{"NonKeyAttributes":["x"]}`), byRequest),
			invalidValues + "Unknown ProjectionType: null"},
		{"a projection of all with names", members(name, define(attrA), keyed(hashA), globalIndexOf("xyz", keyed(hashA), `,"Projection":{"ProjectionType":"ALL","NonKeyAttributes":["x"]}`), byRequest),
			invalidValues + "ProjectionType is ALL, but NonKeyAttributes is specified"},
		{"a projection of some without names", members(name, define(attrA), keyed(hashA), globalIndexOf("xyz", keyed(hashA), `,"Projection":{"ProjectionType":"INCLUDE"}`), byRequest),
			invalidValues + "ProjectionType is INCLUDE, but NonKeyAttributes is not specified"},
		{"a projected name twice", members(name, define(attrA), keyed(hashA), globalIndexOf("xyz", keyed(hashA), `,"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["x","x"]}`), byRequest),
			invalidValues + "Duplicate element in NonKeyAttributes: x"},
		{"units for an index on demand", members(name, define(attrA), keyed(hashA), globalIndexOf("xyz", keyed(hashA), projectAll+","+fiveUnits), byRequest),
			invalidValues + "ProvisionedThroughput should not be specified for index: xyz when BillingMode is PAY_PER_REQUEST"},
		{"no units for an index", members(name, define(attrA), keyed(hashA), globalIndexOf("xyz", keyed(hashA), projectAll), fiveUnits),
			invalidValues + "ProvisionedThroughput is not specified for index: xyz"},
		{"one name for two indexes", members(name, define(attrA, attrB), keyed(hashA, rangeB), localIndexOf("xyz", keyed(hashA, rangeB), projectAll), globalIndexOf("xyz", keyed(hashA), projectAll), byRequest),
			invalidValues + "Duplicate index name: xyz"},
		{"maximums on a provisioned table", members(name, define(attrA), keyed(hashA), fiveUnits, `"OnDemandThroughput":{"MaxWriteRequestUnits":0}`),
			invalidValues + "MaxWriteRequestUnits for OnDemandThroughput cannot be specified when table BillingMode is PROVISIONED."},
		{"a negative maximum", members(name, define(attrA), keyed(hashA), byRequest, `"OnDemandThroughput":{"MaxReadRequestUnits":-1}`),
			invalidValues + "Requested MaxReadRequestUnits for OnDemandThroughput for table is outside of valid range"},
		{"warm throughput below the initial one", members(name, define(attrA), keyed(hashA), byRequest, `"WarmThroughput":{"ReadUnitsPerSecond":1}`),
			invalidValues + "Requested ReadUnitsPerSecond for WarmThroughput for table is lower than initial throughput for OnDemand. See: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html#on-demand-capacity-mode-initial"},
		{"warm throughput below the provisioned one", members(name, define(attrA), keyed(hashA), fiveUnits, `"WarmThroughput":{"WriteUnitsPerSecond":5}`),
			invalidValues + "Requested WriteUnitsPerSecond for WarmThroughput for table is lower than WriteCapacityUnits of ProvisionedThroughput"},
		{"a view type without a stream", plainTable("abc", `"StreamSpecification":{"StreamEnabled":false,"StreamViewType":"KEYS_ONLY"}`),
			invalidValues + "Table is being created with a stream disabled, UpdateViewType should not be specified"},
		{"a policy without statements", plainTable("abc", `"ResourcePolicy":"{}"`), invalidValues + "Invalid policy document: Could not parse the policy: Statement is empty!"},
		{"a key without its type", plainTable("abc", `"SSESpecification":{"Enabled":true,"KMSMasterKeyId":"k"}`),
			invalidValues + "SSEType KMS is required if KMSMasterKeyId is specified"},
		{"an unknown class", plainTable("abc", `"TableClass":"FIRST"`),
			"ValidationException: Invalid table-class parameter provided. Please try again with a valid table-class value: [STANDARD, STANDARD_INFREQUENT_ACCESS]."},
		{"a reserved tag key", plainTable("abc", `"Tags":[{"Key":"aws:x","Value":""}]`), "ValidationException: Tag Key cannot be prefixed with aws:, Key: aws:x"},
		{"a tag without key", plainTable("abc", `"Tags":[{}]`), "ValidationException: The Tag Key provided is invalid, Key: null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			newTableTest(t, 0).want("CreateTable", "{"+c.request+"}", c.want)
		})
	}
}

func TestCreateTableLimitsIndexes(t *testing.T) {
	indexes := func(n int, key string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"IndexName":"x%02d",%s%s}`, i, key, projectAll))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	tt := newTableTest(t, 0)
	tt.want("CreateTable", "{"+plainTable("abc", `"GlobalSecondaryIndexes":`+indexes(21, keyed(hashA)))+"}",
		invalidValues+"GlobalSecondaryIndex count exceeds the per-table limit of 20")
	tt.make(plainTable("abc", `"GlobalSecondaryIndexes":`+indexes(20, keyed(hashA))))
	tt.want("CreateTable", "{"+members(`"TableName":"def"`, define(attrA, attrB), keyed(hashA, rangeB), byRequest, `"LocalSecondaryIndexes":`+indexes(6, keyed(hashA, rangeB)))+"}",
		invalidValues+"Number of LocalSecondaryIndexes exceeds per-table limit of 5")
}

func TestGlobalKeysHaveUpToEightAttributes(t *testing.T) {
	request := func(hashes, ranges int) string {
		attributes, key := []string{attrA}, []string{}
		for i := range hashes + ranges {
			kind := "HASH"
			if i >= hashes {
				kind = "RANGE"
			}
			attributes = append(attributes, fmt.Sprintf(`{"AttributeName":"k%d","AttributeType":"S"}`, i))
			key = append(key, fmt.Sprintf(`{"AttributeName":"k%d","KeyType":%q}`, i, kind))
		}
		return "{" + members(`"TableName":"abc"`, define(attributes...), keyed(hashA), byRequest, globalIndexOf("xyz", keyed(key...), projectAll)) + "}"
	}
	tt := newTableTest(t, 0)
	tt.want("CreateTable", request(5, 0), invalidValues+"The KeySchema exceeds the maximum allowed number of HASH key attributes")
	tt.want("CreateTable", request(1, 5), invalidValues+"The KeySchema exceeds the maximum allowed number of RANGE key attributes")
	if got := tt.ask("CreateTable", request(4, 4)); strings.Count(got, `"KeyType"`) != 9 {
		t.Errorf("four partition and four sort key attributes: %s", got)
	}
}

func TestCreateTableReply(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.want("CreateTable", "{"+members(`"TableName":"abc"`, define(attrB, attrA), keyed(hashA, rangeB), fiveUnits)+"}",
		`{"TableDescription":{"AttributeDefinitions":[`+attrA+`,`+attrB+`],"CreationDateTime":1700000000.000,"DeletionProtectionEnabled":false,"ItemCount":0,`+
			`"KeySchema":[`+hashA+`,`+rangeB+`],"ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":5,"WriteCapacityUnits":6},`+
			`"TableArn":"arn:aws:dynamodb:us-east-1:000000000000:table/abc","TableId":"…","TableName":"abc","TableSizeBytes":0,"TableStatus":"CREATING"}}`)
	tt.want("CreateTable", "{"+members(`"TableName":"def"`, define(attrA), keyed(hashA), byRequest, `"WarmThroughput":{"ReadUnitsPerSecond":13000}`,
		globalIndexOf("xyz", keyed(hashA), `,"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["z","y"]}`))+"}",
		`{"TableDescription":{"AttributeDefinitions":[`+attrA+`],"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST"},"CreationDateTime":1700000000.000,"DeletionProtectionEnabled":false,`+
			`"GlobalSecondaryIndexes":[{"IndexArn":"arn:aws:dynamodb:us-east-1:000000000000:table/def/index/xyz","IndexName":"xyz","IndexSizeBytes":0,"IndexStatus":"CREATING","ItemCount":0,`+
			`"KeySchema":[`+hashA+`],"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["y","z"]},"ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":0,"WriteCapacityUnits":0}}],`+
			`"ItemCount":0,"KeySchema":[`+hashA+`],"ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":0,"WriteCapacityUnits":0},`+
			`"TableArn":"arn:aws:dynamodb:us-east-1:000000000000:table/def","TableId":"…","TableName":"def","TableSizeBytes":0,"TableStatus":"CREATING",`+
			`"TableThroughputModeSummary":{"TableThroughputMode":"PAY_PER_REQUEST"},"WarmThroughput":{"ReadUnitsPerSecond":13000,"Status":"UPDATING","WriteUnitsPerSecond":4000}}}`)
}

func TestCreateTableTwice(t *testing.T) {
	tt := newTableTest(t, time.Second)
	tt.make(plainTable("abc"))
	tt.want("CreateTable", "{"+plainTable("abc")+"}", "ResourceInUseException: Attempt to change a resource which is still in use: Table is being created: abc")
	tt.advance(time.Second)
	tt.want("CreateTable", "{"+plainTable("abc")+"}", "ResourceInUseException: Table already exists: abc")
}

// The order of names in messages was observed on AWS.
func TestNamesAreInHashSetOrder(t *testing.T) {
	if got := hashSetOrder([]string{"pk", "sk", "a", "b", "c"}, bucketsFor(5)); got != "sk, a, b, pk, c" {
		t.Errorf("five definitions are listed as %s", got)
	}
	if got := hashSetOrder([]string{"pk", "sk", "pk", "a"}, 16); got != "a, sk, pk" {
		t.Errorf("three keys are listed as %s", got)
	}
}
