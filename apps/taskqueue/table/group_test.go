package table

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/taskqueue"
)

func open(t *testing.T) *Table {
	t.Helper()
	h := hometest.Start(t, taskqueue.Model)
	return &Table{DB: h.DB, Streams: h.Streams}
}

func put(name string) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: tableName(), Item: key(name, "x"), ConditionExpression: aws.String("attribute_not_exists(PK)")}}
}

func together(changes ...[]types.TransactWriteItem) []*change {
	all := make([]*change, len(changes))
	for i, w := range changes {
		all[i] = &change{writes: w, done: make(chan outcome, 1)}
	}
	return all
}

// Changes that are sent together succeed or fail each by its own conditions, and
// an invalid one does not affect the others.
func TestChangesTravelTogether(t *testing.T) {
	table := open(t)
	if reasons, err := table.transact(t.Context(), []types.TransactWriteItem{put("taken")}); reasons != nil || err != nil {
		t.Fatal(reasons, err)
	}
	senseless := types.TransactWriteItem{Put: &types.Put{TableName: tableName(), Item: item{"PK": text("p")}}} // no sort key
	changes := together(
		[]types.TransactWriteItem{put("a1"), put("a2")},
		[]types.TransactWriteItem{put("b1"), put("taken")},
		[]types.TransactWriteItem{put("c1")},
		[]types.TransactWriteItem{senseless, put("d1")},
		[]types.TransactWriteItem{put("e1"), put("e2")},
	)
	table.sendAll(t.Context(), changes)
	for i, want := range []string{"done", "refused", "done", "error", "done"} {
		o := <-changes[i].done
		got := "done"
		switch {
		case o.err != nil:
			got = "error"
		case anyFailed(o.reasons):
			got = "refused"
			if len(o.reasons) != 2 || failed(o.reasons[0]) || !failed(o.reasons[1]) {
				t.Errorf("the reasons are %+v", o.reasons)
			}
		}
		if got != want {
			t.Errorf("change %d is %s, want %s: %v", i, got, want, o.err)
		}
	}
	for name, want := range map[string]bool{"a1": true, "a2": true, "b1": false, "c1": true, "d1": false, "e1": true, "e2": true} {
		out, err := table.DB.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: tableName(), Key: key(name, "x"), ConsistentRead: aws.Bool(true)})
		if err != nil || (out.Item != nil) != want {
			t.Errorf("%s is there: %v, want %v, %v", name, out.Item != nil, want, err)
		}
	}
}

// Changes in one request write no item twice, keep the order of changes to the
// same item, and stay within the limits of a transaction.
func TestTakeKeepsWithinARequest(t *testing.T) {
	g := &group{senders: 1}
	for n := range 100 {
		g.waiting = append(g.waiting, together([]types.TransactWriteItem{put(fmt.Sprint(n)), put("other" + fmt.Sprint(n)), put(fmt.Sprint("shared", n%7))})...)
	}
	left := make(map[string]int) // the last change of each item
	requests := 0
	for {
		taken := g.take()
		if taken == nil {
			break
		}
		requests++
		touched := make(map[string]bool)
		writes := 0
		for _, c := range taken {
			writes += len(c.writes)
			for _, w := range c.writes {
				if touched[keyOf(w)] {
					t.Errorf("request %d writes %s twice", requests, keyOf(w))
				}
				touched[keyOf(w)] = true
			}
			var n int
			if _, err := fmt.Sscan(keyOf(c.writes[0]), &n); err != nil {
				t.Fatal(err)
			}
			shared := keyOf(c.writes[2])
			if n < left[shared] {
				t.Errorf("change %d is sent after %d, which writes the same item", n, left[shared])
			}
			left[shared] = n
		}
		if writes > maxGroupWrites {
			t.Errorf("request %d has %d writes", requests, writes)
		}
	}
	if requests != 15 || g.senders != 0 {
		t.Errorf("100 changes, seven of which fit in a request, took %d requests; %d senders are left", requests, g.senders)
	}
}
