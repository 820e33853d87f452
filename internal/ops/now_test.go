package ops

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// mailTrigger is a trigger mail on table Orders.
type mailTrigger struct{ noTriggers }

func (mailTrigger) Table(trigger string) (string, bool) { return "Orders", trigger == "mail" }

func (mailTrigger) Replay(context.Context, *api.ReplayDeadLetters) (*api.ReplayDeadLettersReply, error) {
	return &api.ReplayDeadLettersReply{Failed: []api.FailedReplay{}, Replayed: 2}, nil
}

// A server without triggers says so, and requests are checked before they reach one.
func TestTriggerRequests(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.want("ListTriggers", `{}`, `{"Triggers":[]}`)
	tt.want("ListTriggers", `{"Limit":0}`, `ValidationException: 1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1`)
	tt.want("ListDeadLetters", `{"TriggerName":"mail"}`, `ResourceNotFoundException: Requested resource not found: Trigger: mail not found`)
	tt.want("ReplayDeadLetters", `{"TriggerName":"mail","All":true}`, `ResourceNotFoundException: Requested resource not found: Trigger: mail not found`)
	tt.s.triggers = func() Triggers { return mailTrigger{} }
	tt.want("ReplayDeadLetters", `{"TriggerName":"mail"}`, `ValidationException: One or more parameter values were invalid: Either DeadLetterIds or All must be specified`)
	tt.want("ReplayDeadLetters", `{"TriggerName":"mail","All":true,"DeadLetterIds":["a"]}`, `ValidationException: One or more parameter values were invalid: Either DeadLetterIds or All must be specified`)
	tt.want("ReplayDeadLetters", `{"TriggerName":"mail","NextToken":"0-1","DeadLetterIds":["a"]}`, `ValidationException: One or more parameter values were invalid: NextToken can only be specified with All`)
	tt.want("ReplayDeadLetters", `{"TriggerName":"mail","All":true}`, `{"Failed":[],"Rejected":0,"Replayed":2}`)
}

// What is due is counted until it is removed; what comes next is ordered by time.
func TestDescribeExpiry(t *testing.T) {
	tt := newTableTestWith(t, db.Options{ExpiryInterval: 365 * 24 * time.Hour}, true)
	tt.make(`"TableName":"Carts","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`)
	tt.want("DescribeExpiry", `{"TableName":"Carts"}`, `{"TableName":"Carts","TimeToLiveStatus":"DISABLED","Due":0,"DueItems":[],"NextItems":[],"SweepsHere":true,"SweepInterval":31536000.0}`)
	tt.want("UpdateTimeToLive", `{"TableName":"Carts","TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}`, `{"TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}`)
	now := tt.now.Load() / int64(time.Second)
	for i, at := range []int64{now + 20, now - 7, now + 10, now - 8, now - 9, (now + 60) * 1000, now - 6*365*24*3600} {
		tt.want("PutItem", fmt.Sprintf(`{"TableName":"Carts","Item":{"pk":{"S":"c%d"},"ttl":{"N":"%d"}}}`, i, at), `{}`)
	}
	tt.want("PutItem", `{"TableName":"Carts","Item":{"pk":{"S":"text"},"ttl":{"S":"1"}}}`, `{}`)
	got := tt.ask("DescribeExpiry", `{"TableName":"Carts","Limit":2}`)
	want := fmt.Sprintf(`"Due":3,"DueItems":[{"Key":{"pk":{"S":"c4"}},"ExpiresAt":%d.000},{"Key":{"pk":{"S":"c3"}},"ExpiresAt":%d.000}],`+
		`"NextItems":[{"Key":{"pk":{"S":"c2"}},"ExpiresAt":%d.000},{"Key":{"pk":{"S":"c0"}},"ExpiresAt":%d.000}],"FarValue":%d,`, now-9, now-8, now+10, now+20, (now+60)*1000)
	if !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	tt.want("DescribeExpiry", `{"TableName":"Other"}`, `ResourceNotFoundException: Requested resource not found`)
}

// Work in the background is listed page by page. Here it waits, as tables are being created for an hour.
func TestListJobs(t *testing.T) {
	tt := newTableTest(t, time.Hour)
	tt.want("ListJobs", `{}`, `{"Jobs":[]}`)
	for _, table := range []string{"Bees", "Ants"} {
		tt.make(`"TableName":"` + table + `","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`)
	}
	tt.advance(2 * time.Hour)
	for _, table := range []string{"Bees", "Ants"} {
		got := tt.ask("UpdateTable", `{"TableName":"`+table+`","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"by-a","KeySchema":[{"AttributeName":"a","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}}]}`)
		if !strings.HasPrefix(got, "{") {
			t.Fatal(got)
		}
	}
	ants := `{"JobType":"CREATE_INDEX","Status":"WAITING","TableName":"Ants","IndexName":"by-a","Progress":0.0,"Items":0}`
	bees := strings.Replace(ants, "Ants", "Bees", 1)
	tt.want("ListJobs", `{}`, `{"Jobs":[`+ants+`,`+bees+`]}`)
	first := tt.ask("ListJobs", `{"Limit":1}`)
	if !strings.HasPrefix(first, `{"Jobs":[`+ants+`],"NextToken":"`) {
		t.Fatal(first)
	}
	_, token, _ := strings.Cut(strings.TrimSuffix(first, `"}`), `"NextToken":"`)
	tt.want("ListJobs", `{"NextToken":"`+token+`"}`, `{"Jobs":[`+bees+`]}`)
	tt.want("ListJobs", `{"NextToken":"!"}`, `ValidationException: Invalid NextToken`)
}
