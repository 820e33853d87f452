package stator

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/db/insights"
	"github.com/stator-db/stator/internal/meter"
)

// metered is a database whose requests are sent as JSON, with a clock that the test moves.
type metered struct {
	*testing.T
	*DB
	clock atomic.Int64 // nanoseconds since 1970
}

func newMetered(t *testing.T, o Options) *metered {
	t.Helper()
	s := &metered{T: t}
	s.clock.Store(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	o.Now = func() time.Time { return time.Unix(0, s.clock.Load()).UTC() }
	d, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s.DB = d
	return s
}

// send sends a request, and returns its reply with the status.
func (s *metered) send(operation, body string) (status int, reply map[string]any) {
	s.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
	if !strings.HasPrefix(operation, "Stator.") {
		operation = "DynamoDB_20120810." + operation
	}
	r.Header.Set("X-Amz-Target", operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=b")
	r.Header.Set("X-Amz-Date", "20261101T000000Z")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Body)
	if err := json.Unmarshal(text, &reply); err != nil {
		s.Fatalf("%s %s: %s", operation, body, text)
	}
	return w.Code, reply
}

// create creates the table Tab with a local and a global index.
func (s *metered) create(mode string) {
	s.Helper()
	status, reply := s.send("CreateTable", `{"TableName": "Tab", `+mode+`,
		"AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "s", "AttributeType": "N"}, {"AttributeName": "l", "AttributeType": "N"}, {"AttributeName": "g", "AttributeType": "S"}],
		"KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
		"LocalSecondaryIndexes": [{"IndexName": "local", "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "l", "KeyType": "RANGE"}], "Projection": {"ProjectionType": "KEYS_ONLY"}}],
		"GlobalSecondaryIndexes": [{"IndexName": "global", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}]}`)
	if status != http.StatusOK {
		s.Fatal(reply)
	}
}

// sum returns the sum of a measurement of the last hour.
func (s *metered) sum(id meter.ID) float64 {
	now := time.Unix(0, s.clock.Load())
	return meter.Summarize(s.db.Meter().Points(id, now.Add(-time.Hour), now)).Sum
}

// heat returns the sum of the heat of consumed units in the last hour.
func (s *metered) heat(id meter.ID) (sum float64) {
	now := time.Unix(0, s.clock.Load())
	found, err := s.db.Heat(id.Table, id.Index, now.Add(-time.Hour), now, 60)
	if err != nil {
		s.Fatal(err)
	}
	kind := map[string]meter.UnitKind{meter.ConsumedRead: meter.ReadUnits, meter.ConsumedWrite: meter.WriteUnits}[id.Name]
	for _, column := range found.Columns {
		for i := range column.Cells {
			sum += column.Cells[i].Units(kind)
		}
	}
	return math.Round(sum*1000) / 1000 // the sum of thousandths
}

// What is metered, in all and by hash range, is what ReturnConsumedCapacity shows, of each kind of request.
func TestMeteredUnitsAreThoseOfReplies(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newMetered(t, Options{})
	s.create(`"BillingMode": "PAY_PER_REQUEST"`)
	item := func() string {
		it := fmt.Sprintf(`"p": {"S": "%d"}, "s": {"N": "%d"}, "text": {"S": "%s"}`, random.IntN(4), random.IntN(4), strings.Repeat("x", random.IntN(6000)))
		if random.IntN(2) == 0 {
			it += fmt.Sprintf(`, "l": {"N": "%d"}`, random.IntN(4))
		}
		if random.IntN(2) == 0 {
			it += fmt.Sprintf(`, "g": {"S": "%d"}`, random.IntN(4))
		}
		return "{" + it + "}"
	}
	key := func() string {
		return fmt.Sprintf(`{"p": {"S": "%d"}, "s": {"N": "%d"}}`, random.IntN(4), random.IntN(4))
	}
	keys := func() string { // without duplicates
		n := random.IntN(4)
		return fmt.Sprintf(`{"p": {"S": "0"}, "s": {"N": "%d"}}, {"p": {"S": "1"}, "s": {"N": "%d"}}`, n, n)
	}
	consistent := func() string { return fmt.Sprintf(`"ConsistentRead": %v`, random.IntN(2) == 0) }
	const table, units = `"TableName": "Tab"`, `"ReturnConsumedCapacity": "INDEXES"`
	requests := []struct {
		operation, kind string
		body            func() string
	}{
		{"PutItem", meter.ConsumedWrite, func() string { return fmt.Sprintf(`{%s, %s, "Item": %s}`, table, units, item()) }},
		{"UpdateItem", meter.ConsumedWrite, func() string {
			return fmt.Sprintf(`{%s, %s, "Key": %s, "UpdateExpression": "SET g = :g REMOVE l", "ExpressionAttributeValues": {":g": {"S": "9"}}}`, table, units, key())
		}},
		{"DeleteItem", meter.ConsumedWrite, func() string { return fmt.Sprintf(`{%s, %s, "Key": %s}`, table, units, key()) }},
		{"GetItem", meter.ConsumedRead, func() string { return fmt.Sprintf(`{%s, %s, %s, "Key": %s}`, table, units, consistent(), key()) }},
		{"Query", meter.ConsumedRead, func() string {
			return fmt.Sprintf(`{%s, %s, %s, "Limit": %d, "KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "1"}}}`, table, units, consistent(), 1+random.IntN(3))
		}},
		{"Query", meter.ConsumedRead, func() string {
			return fmt.Sprintf(`{%s, %s, %s, "IndexName": "local", "Select": "ALL_ATTRIBUTES", "KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "1"}}}`, table, units, consistent())
		}},
		{"Query", meter.ConsumedRead, func() string {
			return fmt.Sprintf(`{%s, %s, "IndexName": "global", "KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": "9"}}}`, table, units)
		}},
		{"Scan", meter.ConsumedRead, func() string { return fmt.Sprintf(`{%s, %s, %s}`, table, units, consistent()) }},
		{"Scan", meter.ConsumedRead, func() string { return fmt.Sprintf(`{%s, %s, "IndexName": "global"}`, table, units) }},
		{"BatchGetItem", meter.ConsumedRead, func() string {
			return fmt.Sprintf(`{%s, "RequestItems": {"Tab": {%s, "Keys": [%s]}}}`, units, consistent(), keys())
		}},
		{"BatchWriteItem", meter.ConsumedWrite, func() string {
			return fmt.Sprintf(`{%s, "RequestItems": {"Tab": [{"PutRequest": {"Item": {"p": {"S": "0"}, "s": {"N": "0"}, "g": {"S": "9"}}}}, {"DeleteRequest": {"Key": {"p": {"S": "1"}, "s": {"N": "%d"}}}}]}}`, units, random.IntN(4))
		}},
		{"TransactGetItems", meter.ConsumedRead, func() string {
			return fmt.Sprintf(`{%s, "TransactItems": [{"Get": {%s, "Key": {"p": {"S": "0"}, "s": {"N": "1"}}}}, {"Get": {%s, "Key": {"p": {"S": "1"}, "s": {"N": "1"}}}}]}`, units, table, table)
		}},
		{"TransactWriteItems", meter.ConsumedWrite, func() string {
			return fmt.Sprintf(`{%s, "TransactItems": [{"Put": {%s, "Item": {"p": {"S": "0"}, "s": {"N": "1"}, "g": {"S": "%d"}}}}, {"Delete": {%s, "Key": {"p": {"S": "1"}, "s": {"N": "1"}}}}]}`, units, table, random.IntN(3), table)
		}},
		{"ExecuteStatement", meter.ConsumedRead, func() string {
			return fmt.Sprintf(`{%s, "Statement": "SELECT * FROM \"Tab\" WHERE p = '1' AND s = %d"}`, units, random.IntN(4))
		}},
		{"ExecuteStatement", meter.ConsumedRead, func() string { return fmt.Sprintf(`{%s, "Statement": "SELECT * FROM \"Tab\".\"global\""}`, units) }},
		{"BatchExecuteStatement", meter.ConsumedWrite, func() string {
			return fmt.Sprintf(`{%s, "Statements": [{"Statement": "DELETE FROM \"Tab\" WHERE p = '2' AND s = 2"}]}`, units)
		}},
	}
	want := make(map[meter.ID]float64)
	add := func(name string, consumed map[string]any) {
		of := func(index string, at any) {
			units, _ := at.(map[string]any)["CapacityUnits"].(float64)
			want[meter.ID{Name: name, Table: "Tab", Index: index}] += units
		}
		if t, ok := consumed["Table"]; ok {
			of("", t)
		}
		if x, ok := consumed["LocalSecondaryIndexes"].(map[string]any); ok {
			of("", x["local"])
		}
		if x, ok := consumed["GlobalSecondaryIndexes"].(map[string]any); ok {
			of("global", x["global"])
		}
	}
	sent := make(map[string]float64)
	for range 1500 {
		r := requests[random.IntN(len(requests))]
		body := r.body()
		status, reply := s.send(r.operation, body)
		if status != http.StatusOK {
			if reply["__type"] == "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException" {
				continue
			}
			t.Fatalf("%s %s: %v", r.operation, body, reply)
		}
		sent[r.operation]++
		switch consumed := reply["ConsumedCapacity"].(type) {
		case map[string]any:
			add(r.kind, consumed)
		case []any:
			for _, c := range consumed {
				add(r.kind, c.(map[string]any))
			}
		default:
			t.Fatalf("%s has no units: %v", r.operation, reply)
		}
	}
	s.clock.Add(int64(time.Minute))
	for _, id := range slices.SortedFunc(maps.Keys(want), func(a, b meter.ID) int { return strings.Compare(a.Name+a.Index, b.Name+b.Index) }) {
		if got := s.sum(id); got != want[id] || got == 0 {
			t.Errorf("%v of %s %s are metered, want %v", got, id.Name, id.Index, want[id])
		}
		if got := s.heat(id); got != want[id] {
			t.Errorf("%v of %s %s are in the heat map, want %v", got, id.Name, id.Index, want[id])
		}
	}
	now := time.Unix(0, s.clock.Load())
	for operation, n := range sent {
		points := s.db.Meter().Points(meter.ID{Name: meter.Latency, Table: "Tab", Operation: operation}, now.Add(-time.Hour), now)
		if got := meter.Summarize(points); float64(got.Count) != n {
			t.Errorf("%d of %v requests %s are measured", got.Count, n, operation)
		}
	}
}

// Failed conditions, conflicts, deletions of expired items and errors are counted.
func TestOutcomesAreMetered(t *testing.T) {
	s := newMetered(t, Options{})
	s.create(`"BillingMode": "PAY_PER_REQUEST", "OnDemandThroughput": {"MaxReadRequestUnits": 70, "MaxWriteRequestUnits": 80}`)
	put := `{"TableName": "Tab", "Item": {"p": {"S": "a"}, "s": {"N": "1"}}, "ConditionExpression": "attribute_not_exists(p)"}`
	for _, want := range []int{200, 400, 400} {
		if status, reply := s.send("PutItem", put); status != want {
			t.Fatal(status, reply)
		}
	}
	s.send("PutItem", `{"TableName": "Tab", "Item": {"p": {"S": ""}, "s": {"N": "1"}}}`)
	s.send("GetItem", `{"TableName": "none", "Key": {"p": {"S": "a"}}}`)
	s.send("Scan", `{"TableName": "Tab"}`)
	s.clock.Add(int64(time.Minute))
	for id, want := range map[meter.ID]float64{
		{Name: meter.ConditionsFailed, Table: "Tab"}:                 2,
		{Name: meter.UserErrors}:                                     2,
		{Name: meter.ReturnedItems, Table: "Tab", Operation: "Scan"}: 1,
		{Name: meter.ConsumedWrite, Table: "Tab"}:                    3, // a failed condition costs too
		{Name: meter.OnDemandMaxRead, Table: "Tab"}:                  70,
		{Name: meter.OnDemandMaxWrite, Table: "Tab"}:                 80,
		{Name: meter.SystemErrors}:                                   0,
		{Name: meter.ProvisionedRead, Table: "Tab", Index: "global"}: 0,
	} {
		if got := s.sum(id); got != want {
			t.Errorf("%+v is %v, want %v", id, got, want)
		}
	}
	s.send("DeleteTable", `{"TableName": "Tab"}`)
	for _, id := range s.db.Meter().IDs() {
		if id.Table == "Tab" && id.Operation == "" {
			t.Errorf("%+v of a deleted table is kept", id)
		}
	}
}

// A table that nobody uses has no counters, only what it has at any time.
func TestUnusedTablesHaveGaugesOnly(t *testing.T) {
	s := newMetered(t, Options{})
	if status, reply := s.send("CreateTable", `{"TableName": "Idle", "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6},
		"AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}]}`); status != http.StatusOK {
		t.Fatal(reply)
	}
	s.clock.Add(int64(3 * time.Minute))
	if got := s.sum(meter.ID{Name: meter.ProvisionedWrite, Table: "Idle"}); got == 0 {
		t.Error("the provisioned units have no history")
	}
	units := make(map[string]float64)
	for _, m := range s.db.Meter().Metrics() {
		for _, sample := range m.Samples {
			for _, l := range sample.Labels {
				if l.Value == "Idle" {
					units[m.Name] = sample.Value
				}
			}
		}
	}
	if want := map[string]float64{"dynamodb_provisioned_read_capacity_units": 5, "dynamodb_provisioned_write_capacity_units": 6}; !maps.Equal(units, want) {
		t.Errorf("the table has %v, want %v", units, want)
	}
}

// Throttled requests are counted by table, index and reason.
func TestThrottlesAreMetered(t *testing.T) {
	s := newMetered(t, Options{Throttle: true})
	s.create(`"BillingMode": "PAY_PER_REQUEST", "OnDemandThroughput": {"MaxReadRequestUnits": 1, "MaxWriteRequestUnits": 2}`)
	var rejected float64
	for i := range 10 {
		if status, _ := s.send("PutItem", fmt.Sprintf(`{"TableName": "Tab", "Item": {"p": {"S": "a"}, "s": {"N": "%d"}}}`, i)); status != 200 {
			rejected++
		}
	}
	s.clock.Add(int64(time.Minute))
	if rejected != 8 {
		t.Errorf("%v of 10 writes are throttled, want 8", rejected)
	}
	for id, want := range map[meter.ID]float64{
		{Name: meter.WriteThrottles, Table: "Tab"}:                          8,
		{Name: meter.WriteOnDemandMax, Table: "Tab"}:                        8,
		{Name: meter.WriteKeyRange, Table: "Tab"}:                           0,
		{Name: meter.ThrottledRequests, Table: "Tab", Operation: "PutItem"}: 8,
		{Name: meter.ConsumedWrite, Table: "Tab"}:                           2,
		{Name: meter.UserErrors}:                                            0,
	} {
		if got := s.sum(id); got != want {
			t.Errorf("%+v is %v, want %v", id, got, want)
		}
	}
}

// A transaction that is cancelled because of a limit is a throttled request, and no error of
// the user. One that is cancelled for another reason is.
func TestThrottledTransactionsAreMetered(t *testing.T) {
	s := newMetered(t, Options{Throttle: true})
	s.create(`"BillingMode": "PAY_PER_REQUEST", "OnDemandThroughput": {"MaxReadRequestUnits": 1, "MaxWriteRequestUnits": 1}`)
	const key = `{"p": {"S": "a"}, "s": {"N": "1"}}`
	for _, r := range []struct {
		operation, body string
		status          int
	}{
		{"PutItem", `{"TableName": "Tab", "Item": ` + key + `}`, 200},
		{"TransactWriteItems", `{"TransactItems": [{"Put": {"TableName": "Tab", "Item": ` + key + `}}]}`, 400},
		{"ExecuteTransaction", `{"TransactStatements": [{"Statement": "INSERT INTO \"Tab\" VALUE {'p': 'b', 's': 1}"}]}`, 400},
		{"GetItem", `{"TableName": "Tab", "ConsistentRead": true, "Key": ` + key + `}`, 200},
		{"TransactGetItems", `{"TransactItems": [{"Get": {"TableName": "Tab", "Key": ` + key + `}}]}`, 400},
	} {
		if status, reply := s.send(r.operation, r.body); status != r.status {
			t.Fatalf("%s: %d %v", r.operation, status, reply)
		}
	}
	s.clock.Add(int64(time.Minute))
	if status, reply := s.send("TransactWriteItems", `{"TransactItems": [{"ConditionCheck": {"TableName": "Tab", "Key": `+key+`, "ConditionExpression": "attribute_not_exists(p)"}}]}`); status != 400 {
		t.Fatal(reply)
	}
	s.clock.Add(int64(time.Minute))
	for id, want := range map[meter.ID]float64{
		{Name: meter.ThrottledRequests, Table: "Tab", Operation: "TransactWriteItems"}: 1,
		{Name: meter.ThrottledRequests, Table: "Tab", Operation: "ExecuteTransaction"}: 1,
		{Name: meter.ThrottledRequests, Table: "Tab", Operation: "TransactGetItems"}:   1,
		{Name: meter.WriteThrottles, Table: "Tab"}:                                     2,
		{Name: meter.UserErrors}: 1,
	} {
		if got := s.sum(id); got != want {
			t.Errorf("%+v is %v, want %v", id, got, want)
		}
	}
}

// The keys of requests are counted by the rules of Contributor Insights, with three
// times the weight for writes.
func TestInsights(t *testing.T) {
	s := newMetered(t, Options{Throttle: true})
	s.create(`"BillingMode": "PAY_PER_REQUEST", "OnDemandThroughput": {"MaxReadRequestUnits": 300, "MaxWriteRequestUnits": 4}`)
	s.send("PutItem", `{"TableName": "Tab", "Item": {"p": {"S": "before"}, "s": {"N": "1"}}}`)
	for _, body := range []string{`{"TableName": "Tab", "ContributorInsightsAction": "ENABLE"}`, `{"TableName": "Tab", "IndexName": "global", "ContributorInsightsAction": "ENABLE"}`} {
		if status, reply := s.send("UpdateContributorInsights", body); status != http.StatusOK {
			t.Fatal(reply)
		}
	}
	throttles := 0.0
	for i := range 6 {
		if status, _ := s.send("PutItem", fmt.Sprintf(`{"TableName": "Tab", "Item": {"p": {"S": "hot"}, "s": {"N": "%d"}, "g": {"S": "owner"}}}`, i)); status != http.StatusOK {
			throttles++
		}
	}
	s.send("Query", `{"TableName": "Tab", "ConsistentRead": true, "KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "hot"}}}`)
	s.send("Query", `{"TableName": "Tab", "IndexName": "local", "ConsistentRead": true, "KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "hot"}}}`)
	s.send("Query", `{"TableName": "Tab", "IndexName": "global", "KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": "owner"}}}`)
	s.send("Scan", `{"TableName": "Tab"}`) // counts for no key
	s.send("GetItem", `{"TableName": "Tab", "ConsistentRead": true, "Key": {"p": {"S": "other"}, "s": {"N": "7.50"}}}`)
	s.send("BatchGetItem", `{"RequestItems": {"Tab": {"ConsistentRead": true, "Keys": [{"p": {"S": "other"}, "s": {"N": "7.5"}}]}}}`)
	now := time.Unix(0, s.clock.Load())
	for _, c := range []struct {
		index string
		kind  insights.Kind
		want  []insights.Contributor
	}{
		{"", insights.AccessedPartitions, []insights.Contributor{{Key: insights.Key{Partition: "hot"}, Value: 3*3 + 2}, {Key: insights.Key{Partition: "other"}, Value: 2}}},
		{"", insights.AccessedItems, []insights.Contributor{{Key: insights.Key{Partition: "hot", Sort: "0"}, Value: 3}, {Key: insights.Key{Partition: "hot", Sort: "1"}, Value: 3},
			{Key: insights.Key{Partition: "hot", Sort: "2"}, Value: 3}, {Key: insights.Key{Partition: "other", Sort: "7.5"}, Value: 2}}},
		{"", insights.ThrottledPartitions, []insights.Contributor{{Key: insights.Key{Partition: "hot"}, Value: 3}}},
		{"global", insights.AccessedPartitions, []insights.Contributor{{Key: insights.Key{Partition: "owner"}, Value: 3*3 + 0.5}}},
	} {
		report := s.db.Insights("Tab", c.index).Rule(c.kind).Report(now, now.Add(-time.Minute), now.Add(time.Minute), 10)
		var got []insights.Contributor
		for _, contributor := range report.Contributors {
			got = append(got, contributor.Contributor)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %+v, want %+v", c.index, c.kind, got, c.want)
		}
	}
	if throttles != 3 {
		t.Errorf("%v writes were throttled", throttles)
	}
	s.send("UpdateContributorInsights", `{"TableName": "Tab", "ContributorInsightsAction": "DISABLE"}`)
	if s.db.Insights("Tab", "") != nil || s.db.Insights("Tab", "global") == nil {
		t.Error("another setting was disabled")
	}
}

// A table can have a setting of its own, which survives.
func TestTablesAreThrottledByTheirSetting(t *testing.T) {
	for _, server := range []bool{false, true} {
		dir := t.TempDir()
		s := newMetered(t, Options{Throttle: server, Dir: dir})
		s.create(`"BillingMode": "PAY_PER_REQUEST", "OnDemandThroughput": {"MaxReadRequestUnits": 1, "MaxWriteRequestUnits": 2}`)
		throttled := func() bool {
			status := 0
			for i := range 10 {
				if status, _ = s.send("PutItem", fmt.Sprintf(`{"TableName": "Tab", "Item": {"p": {"S": "a"}, "s": {"N": "%d"}}}`, i)); status != http.StatusOK {
					return true
				}
			}
			return false
		}
		for _, c := range []struct {
			set  string
			want bool
		}{{"", server}, {"off", false}, {"on", true}, {"default", server}, {"on", true}} {
			if c.set != "" {
				if status, reply := s.send("Stator.SetThrottling", fmt.Sprintf(`{"TableName": "Tab", "Throttling": %q}`, c.set)); status != http.StatusOK {
					t.Fatal(reply)
				}
			}
			if got := throttled(); got != c.want {
				t.Errorf("server %v, table %q: throttled is %v", server, c.set, got)
			}
			s.clock.Add(int64(2 * time.Second))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = newMetered(t, Options{Throttle: false, Dir: dir})
		if !throttled() {
			t.Error("the setting is lost by a restart")
		}
		if status, _ := s.send("Stator.SetThrottling", `{"TableName": "Tab", "Throttling": "often"}`); status != http.StatusBadRequest {
			t.Errorf("an unknown setting gets status %d", status)
		}
	}
}
