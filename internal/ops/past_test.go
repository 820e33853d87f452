package ops

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/protocol/principals"
)

// newPastTest returns a service whose table Mine has recovery.
func newPastTest(t *testing.T) *tableTest {
	t.Helper()
	tt := newTableTestWith(t, db.Options{}, true)
	tt.make(`"TableName":"Mine","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"a","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],
		"GlobalSecondaryIndexes":[{"IndexName":"byA","KeySchema":[{"AttributeName":"a","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}]`)
	tt.advance(time.Second)
	if got := tt.ask("UpdateContinuousBackups", `{"TableName":"Mine","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`); !strings.HasPrefix(got, "{") {
		t.Fatal(got)
	}
	tt.advance(time.Second)
	return tt
}

func (t *tableTest) put(pk, a, n string) {
	t.Helper()
	t.want("PutItem", fmt.Sprintf(`{"TableName":"Mine","Item":{"pk":{"S":"%s"},"a":{"S":"%s"},"n":{"N":"%s"}}}`, pk, a, n), `{}`)
}

// second returns the present second, and moves the clock to the next.
func (t *tableTest) second() int64 {
	now := t.now.Load() / int64(time.Second)
	t.advance(time.Second)
	return now
}

// Items, queries and scans have the parameters, the replies and the units of the
// operations that read the present.
func TestReadsOfThePast(t *testing.T) {
	tt := newPastTest(t)
	tt.put("1", "x", "1")
	tt.put("2", "x", "1")
	first := tt.second()
	tt.put("1", "y", "2")
	tt.want("DeleteItem", `{"TableName":"Mine","Key":{"pk":{"S":"2"}}}`, `{}`)
	tt.put("3", "x", "3")
	second := tt.second()
	tt.advance(time.Second)
	at := func(operation, members string, when int64) string {
		return tt.ask(operation, fmt.Sprintf(`{"TableName":"Mine","ReturnConsumedCapacity":"TOTAL","AsOf":%d,%s}`, when, members))
	}
	for _, c := range []struct {
		operation, members string
		at                 int64
		want               string
	}{
		{"GetItemAt", `"Key":{"pk":{"S":"1"}}`, first, `{"ConsumedCapacity":{"TableName":"Mine","CapacityUnits":0.5},"Item":{"a":{"S":"x"},"n":{"N":"1"},"pk":{"S":"1"}}}`},
		{"GetItemAt", `"Key":{"pk":{"S":"1"}},"ConsistentRead":true,"ProjectionExpression":"n"`, second, `{"ConsumedCapacity":{"TableName":"Mine","CapacityUnits":1.0},"Item":{"n":{"N":"2"}}}`},
		{"GetItemAt", `"Key":{"pk":{"S":"3"}}`, first, `{"ConsumedCapacity":{"TableName":"Mine","CapacityUnits":0.5}}`},
		{"QueryAt", `"IndexName":"byA","KeyConditionExpression":"a = :x","ExpressionAttributeValues":{":x":{"S":"x"}},"Select":"COUNT"`, first, `{"ConsumedCapacity":{"TableName":"Mine","CapacityUnits":0.5},"Count":2,"ScannedCount":2}`},
		{"QueryAt", `"IndexName":"byA","KeyConditionExpression":"a = :x","ExpressionAttributeValues":{":x":{"S":"x"}},"Select":"COUNT"`, second, `{"ConsumedCapacity":{"TableName":"Mine","CapacityUnits":0.5},"Count":1,"ScannedCount":1}`},
		{"ScanAt", `"FilterExpression":"n = :n","ExpressionAttributeValues":{":n":{"N":"1"}},"ProjectionExpression":"pk"`, second, `{"ConsumedCapacity":{"TableName":"Mine","CapacityUnits":2.0},"Count":0,"Items":[],"ScannedCount":2}`},
		{"QueryAt", `"KeyConditionExpression":"q = :x","ExpressionAttributeValues":{":x":{"S":"x"}}`, first, `ValidationException: Query condition missed key schema element: pk`},
		{"GetItemAt", `"Key":{"pk":{"S":"3"}}`, second + 100, `InvalidRestoreTimeException: The past at 2023-11-14T22:15:03Z cannot be read: what is kept is from 2023-11-14T22:13:21Z to 2023-11-14T22:13:24Z`},
		{"GetItemAt", `"Key":{"pk":{"N":"3"}}`, second, `ValidationException: The provided key element does not match the schema`},
	} {
		if got := at(c.operation, c.members, c.at); got != c.want {
			t.Errorf("%s %s\n got %s\nwant %s", c.operation, c.members, got, c.want)
		}
	}
	tt.want("GetItemAt", `{"TableName":"Mine","Key":{"pk":{"S":"1"}}}`, `ValidationException: 1 validation error detected: Value null at 'asOf' failed to satisfy constraint: Member must not be null`)
	tt.make(`"TableName":"Other","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`)
	tt.want("ScanAt", `{"TableName":"Other","AsOf":1}`, `PointInTimeRecoveryUnavailableException: The past of table 'Other' is not kept: enable point-in-time recovery, or a stream for the last 24 hours`)
}

// The history of an item says who has changed what, if that is known.
func TestItemHistoryOperation(t *testing.T) {
	tt := newPastTest(t)
	principal, err := policy.NewPrincipal("arn:aws:iam::000000000000:user/me", "")
	if err != nil {
		t.Fatal(err)
	}
	all, err := policy.Parse(policy.Identity, []byte(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`))
	if err != nil {
		t.Fatal(err)
	}
	me := &accessTest{tt, &principals.Identity{Principal: principal, Policies: policy.Policies{Identity: []*policy.Document{all}}}}
	tt.put("1", "x", "1")
	tt.advance(time.Second)
	me.allowed("UpdateItem", `{"TableName":"Mine","Key":{"pk":{"S":"1"}},"UpdateExpression":"SET n = :n","ExpressionAttributeValues":{":n":{"N":"2"}}}`)
	tt.advance(time.Second)
	me.allowed("TransactWriteItems", `{"TransactItems":[{"Delete":{"TableName":"Mine","Key":{"pk":{"S":"1"}}}}]}`)
	var found []string
	token := ""
	for range 3 {
		var reply struct {
			Changes []struct {
				SequenceNumber, EventName, Actor, Principal string
				At                                          float64
				OldImage, NewImage                          map[string]map[string]string
			}
			NextToken string
			KeptFrom  float64
			LookedAt  int
		}
		text := tt.ask("ItemHistory", `{"TableName":"Mine","Key":{"pk":{"S":"1"}},"ProjectionExpression":"n","Limit":1`+token+`}`)
		if err := json.Unmarshal([]byte(text), &reply); err != nil {
			t.Fatal(text)
		}
		for _, c := range reply.Changes {
			found = append(found, fmt.Sprintf("%s %s %s %v %v", c.EventName, c.Actor, c.Principal, c.OldImage, c.NewImage))
		}
		if token = `,"NextToken":"` + reply.NextToken + `"`; reply.KeptFrom == 0 || reply.LookedAt != 1 {
			t.Error(text)
		}
	}
	want := []string{
		"REMOVE customer arn:aws:iam::000000000000:user/me map[n:map[N:2]] map[]",
		"MODIFY customer arn:aws:iam::000000000000:user/me map[n:map[N:1]] map[n:map[N:2]]",
		"INSERT customer  map[] map[n:map[N:1]]",
	}
	if strings.Join(found, "\n") != strings.Join(want, "\n") {
		t.Errorf("the history is\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
	tt.want("ItemHistory", `{"TableName":"Mine","Key":{"pk":{"S":"1"}},"NextToken":"x"}`, `ValidationException: NextToken is not valid`)
}

type undoReply struct {
	PlanId   string
	Executed bool
	Writes   []struct {
		Key, Item map[string]map[string]string
		Action    string
	}
	Conflicts []struct{ Key map[string]map[string]string }

	AlreadyUndone    int
	LastEvaluatedKey json.RawMessage
	ConsumedCapacity struct{ CapacityUnits float64 }
}

func (t *tableTest) undo(members string) (reply undoReply) {
	t.Helper()
	text := t.ask("UndoChanges", `{"TableName":"Mine","ReturnConsumedCapacity":"TOTAL",`+members+`}`)
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatal(text)
	}
	return reply
}

// An undo is planned, confirmed and executed as a transaction for each hundred items. What
// was changed after the window stays as it is.
func TestUndoChanges(t *testing.T) {
	tt := newPastTest(t)
	for i := range 150 {
		tt.put(fmt.Sprint(i), "x", "1")
	}
	before := tt.second()
	from := before + 1
	for i := range 149 {
		tt.put(fmt.Sprint(i), "y", "2")
	}
	tt.want("DeleteItem", `{"TableName":"Mine","Key":{"pk":{"S":"149"}}}`, `{}`)
	tt.put("new", "y", "2")
	to := tt.second()
	tt.put("5", "z", "3")
	tt.put("6", "x", "1") // as it was
	tt.advance(2 * time.Second)
	window := fmt.Sprintf(`"From":%d,"To":%d`, from, to)

	page := tt.undo(window)
	if len(page.Writes)+len(page.Conflicts) != 100 || page.LastEvaluatedKey == nil || page.Executed {
		t.Fatalf("the first page has %d writes and %d conflicts", len(page.Writes), len(page.Conflicts))
	}
	// The plan changes if an item does.
	changed := page.Writes[0].Key["pk"]["S"]
	tt.put(changed, "later", "9")
	if got := tt.ask("UndoChanges", `{"TableName":"Mine",`+window+`,"Confirm":"`+page.PlanId+`"}`); !strings.HasPrefix(got, "ValidationException: The plan has changed since ") {
		t.Error(got)
	}
	undone, conflicts, already, start, units := 0, 0, 0, "", 0.0
	for {
		plan := tt.undo(window + start)
		done := tt.undo(window + start + `,"Confirm":"` + plan.PlanId + `"`)
		if !done.Executed || len(done.Writes) != len(plan.Writes) {
			t.Fatalf("%+v", done)
		}
		undone, conflicts, already, units = undone+len(done.Writes), conflicts+len(done.Conflicts), already+done.AlreadyUndone, units+done.ConsumedCapacity.CapacityUnits
		if done.LastEvaluatedKey == nil {
			break
		}
		start = `,"ExclusiveStartKey":` + string(done.LastEvaluatedKey)
	}
	wantUndone, wantConflicts := 148, 2
	if changed == "5" {
		wantUndone, wantConflicts = 149, 1
	}
	if undone != wantUndone || conflicts != wantConflicts || already != 1 {
		t.Errorf("%d items undone, %d conflicts, %d already; want %d, %d, 1", undone, conflicts, already, wantUndone, wantConflicts)
	}
	if units < float64(3*undone) { // those of a transaction, with its index entries
		t.Errorf("%v units consumed", units)
	}
	tt.want("GetItem", `{"TableName":"Mine","Key":{"pk":{"S":"149"}}}`, `{"Item":{"a":{"S":"x"},"n":{"N":"1"},"pk":{"S":"149"}}}`)
	tt.want("GetItem", `{"TableName":"Mine","Key":{"pk":{"S":"5"}}}`, `{"Item":{"a":{"S":"z"},"n":{"N":"3"},"pk":{"S":"5"}}}`)
	tt.want("GetItem", `{"TableName":"Mine","Key":{"pk":{"S":"new"}}}`, `{}`)
	// Again there is nothing to do, but for the conflicts.
	if again := tt.undo(window); len(again.Writes) > 0 {
		t.Errorf("undone twice: %+v", again)
	}

	// One change, by its sequence number.
	var reply struct {
		Changes []struct{ SequenceNumber string }
	}
	if err := json.Unmarshal([]byte(tt.ask("ItemHistory", `{"TableName":"Mine","Key":{"pk":{"S":"149"}}}`)), &reply); err != nil || len(reply.Changes) != 3 {
		t.Fatal(reply, err)
	}
	one := func(i int) string {
		return `"Key":{"pk":{"S":"149"}},"SequenceNumber":"` + reply.Changes[i].SequenceNumber + `"`
	}
	if plan := tt.undo(one(0)); len(plan.Writes) != 1 || plan.Writes[0].Action != "Delete" {
		t.Errorf("the undo of the undo: %+v", plan)
	}
	if plan := tt.undo(one(1)); plan.AlreadyUndone != 1 {
		t.Errorf("the undo of the delete: %+v", plan)
	}
	if plan := tt.undo(one(2)); len(plan.Writes) != 1 || plan.Writes[0].Action != "Delete" { // the item is as the put has left it
		t.Errorf("the undo of the put: %+v", plan)
	}
	for body, want := range map[string]string{
		window + `,"SequenceNumber":"` + reply.Changes[0].SequenceNumber + `"`: "SequenceNumber needs the Key of its item, and excludes From, To and ExclusiveStartKey",
		`"From":1`:        "Either From and To, or SequenceNumber must be specified",
		`"From":2,"To":1`: "To must not be before From",
		`"Key":{"pk":{"S":"1"}},"SequenceNumber":"` + reply.Changes[0].SequenceNumber + `"`: "The item has no recorded change with this SequenceNumber",
	} {
		tt.want("UndoChanges", `{"TableName":"Mine",`+body+`}`, "ValidationException: "+want)
	}
}

// Nobody sees or changes more of the past than of the present.
func TestPastIsAuthorized(t *testing.T) {
	on := func(statements string) *accessTest {
		a := newAccessTest(t, statements)
		a.tableTest = newPastTest(t)
		a.put("me", "x", "1")
		a.put("other", "x", "1")
		return a
	}
	own := `"Condition":{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":["me"]}}`
	a := on(`{"Effect":"Allow","Action":["stator:*","dynamodb:GetItem","dynamodb:Query","dynamodb:PutItem"],"Resource":"*",` + own + `}`)
	from := a.second() + 1
	a.put("me", "y", "2")
	a.put("other", "y", "2")
	to := a.second()
	a.advance(time.Second)
	asOf := fmt.Sprintf(`"AsOf":%d`, from)
	key := func(pk string) string { return `{"TableName":"Mine","Key":{"pk":{"S":"` + pk + `"}}` }
	query := func(pk string) string {
		return `{"TableName":"Mine","KeyConditionExpression":"pk = :k","ExpressionAttributeValues":{":k":{"S":"` + pk + `"}},` + asOf + `}`
	}
	a.allowed("GetItemAt", key("me")+","+asOf+"}")
	a.denied("GetItemAt", key("other")+","+asOf+"}")
	a.allowed("ItemHistory", key("me")+"}")
	a.denied("ItemHistory", key("other")+"}")
	a.allowed("QueryAt", query("me"))
	a.denied("QueryAt", query("other"))
	a.denied("ScanAt", `{"TableName":"Mine",`+asOf+`}`)
	window := fmt.Sprintf(`,"From":%d,"To":%d}`, from, to)
	a.allowed("UndoChanges", key("me")+window)
	a.denied("UndoChanges", key("other")+window)
	a.denied("UndoChanges", `{"TableName":"Mine"`+window)

	// With a scan, but writes of its own items only, the window of all items is refused.
	b := on(`{"Effect":"Allow","Action":["stator:*","dynamodb:Scan"],"Resource":"*"},{"Effect":"Allow","Action":["dynamodb:PutItem"],"Resource":"*",` + own + `}`)
	from = b.second() + 1
	b.put("me", "y", "2")
	b.put("other", "y", "2")
	to = b.second()
	b.advance(time.Second)
	b.denied("UndoChanges", fmt.Sprintf(`{"TableName":"Mine","From":%d,"To":%d}`, from, to))

	// The present alone, or the past alone, is not enough.
	c := on(`{"Effect":"Allow","Action":"dynamodb:*","Resource":"*"}`)
	c.denied("ItemHistory", key("me")+"}")
	d := on(`{"Effect":"Allow","Action":"stator:*","Resource":"*"}`)
	d.denied("ItemHistory", key("me")+"}")

	// Attributes that a caller must not read are not in the history.
	e := on(`{"Effect":"Allow","Action":["stator:*","dynamodb:GetItem"],"Resource":"*","Condition":{"ForAllValues:StringEquals":{"dynamodb:Attributes":["pk","a"]},"StringEquals":{"dynamodb:Select":"SPECIFIC_ATTRIBUTES"}}}`)
	e.denied("ItemHistory", key("me")+"}")
	e.denied("ItemHistory", key("me")+`,"ProjectionExpression":"pk, n"}`)
	if got := e.allowed("ItemHistory", key("me")+`,"ProjectionExpression":"pk, a"}`); strings.Contains(got, `"n"`) || !strings.Contains(got, `"a"`) {
		t.Error(got)
	}
}

// A plan that was executed is answered although there is little memory for the reply.
func TestUndoIsNotRepeated(t *testing.T) {
	tt := newPastTest(t)
	for i := range 40 {
		tt.put(fmt.Sprint(i), strings.Repeat("x", 300), "1")
	}
	from := tt.second()
	tt.advance(2 * time.Second)
	body := fmt.Sprintf(`{"TableName":"Mine","From":%d,"To":%d`, from, from)
	plan := tt.undo(fmt.Sprintf(`"From":%d,"To":%d`, from, from))
	room := &tightRoom{}
	var memory buffer.Scratch
	memory.Within(room)
	if _, err := answer(WithCaller(t.Context(), Caller{Room: room}), tt.s, "UndoChanges", []byte(body+`,"Confirm":"`+plan.PlanId+`"}`), &memory); err != nil || !room.committed {
		t.Errorf("%v, committed: %v", err, room.committed)
	}
}

// tightRoom has no memory until the request cannot be repeated.
type tightRoom struct{ committed bool }

func (r *tightRoom) Reserve(int) bool { return r.committed }
func (r *tightRoom) Commit()          { r.committed = true }
func (*tightRoom) Force(int)          {}
func (*tightRoom) Return(int)         {}
func (*tightRoom) Free(int)           {}
