//go:build linux && cluster

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/cluster/rig"
)

// A server that finds no cluster logs it, and opens as soon as there is one.
// A server that was open before continues by itself.
func TestServersWaitForPD(t *testing.T) {
	c := wholeCluster(t)
	engine := engineURL(t)
	before := serve(t, 1, engine)[0]
	keyed(t, before, "Kept", nil)
	before.must(t, "PutItem", object{"TableName": "Kept", "Item": object{"id": str("1")}}, nil)
	for i := range rig.Size {
		c.KillPD(i)
	}
	late := &server{t: t, program: program(t, "stator"), args: before.args}
	t.Cleanup(late.kill)
	addr := freeAddress(t)
	late.launch(addr)
	await(t, "the server says what it waits for", func(ctx context.Context) error {
		if status := health(ctx, addr); status != http.StatusServiceUnavailable {
			return fmt.Errorf("its health is %d, want 503", status)
		}
		if log := late.log(); strings.Count(log, "the cluster does not answer") < 2 || !strings.Contains(log, c.PD()[0]) {
			return fmt.Errorf("its log does not mention the cluster:\n%s", log)
		}
		return nil
	})
	if strings.Contains(late.log(), "stator listens on") {
		t.Error("it reports that it is open without a cluster")
	}
	for i := range rig.Size {
		if err := c.StartPD(i); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the cluster is whole again", c.Healthy)
	await(t, "the server is open", func(ctx context.Context) error {
		if status := health(ctx, addr); status != http.StatusOK {
			return fmt.Errorf("its health is %d:\n%s", status, late.tail(5))
		}
		return nil
	})
	for _, s := range []*server{late, before} {
		await(t, "the server answers", func(ctx context.Context) error {
			var reply struct{ Item image }
			err := s.call(ctx, "GetItem", object{"TableName": "Kept", "Key": object{"id": str("1")}, "ConsistentRead": true}, &reply)
			if err == nil && reply.Item == nil {
				t.Error("the item is lost")
			}
			return err
		})
	}
}

// health is the status of a server's health check, 0 when it does not answer.
func health(ctx context.Context, addr string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	if err != nil {
		panic(err)
	}
	res, err := client.Do(r)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// A change of a table by one server is visible at the other as soon as it is
// acknowledged: there is no wait between two requests here.
func TestTablesChangeEverywhereAtOnce(t *testing.T) {
	// A change takes two heartbeats. They are short here, to test more
	// changes.
	servers := serve(t, 2, engineURL(t)+"&beat=20ms")
	for round := range 200 {
		a, b := servers[round%2], servers[1-round%2]
		tableRound(t, a, b, round)
		if round%20 < 2 { // by either server
			streamRound(t, a, b)
			indexRound(t, a, b)
		}
		dropRound(t, a, b)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

const changing = "Changing"

var firstKey = object{"id": str("1")}

// tableRound creates a table at one server and uses it at the other.
func tableRound(t *testing.T, a, b *server, round int) {
	t.Helper()
	keyed(t, a, changing, nil)
	var reply struct{ Item image }
	b.must(t, "GetItem", object{"TableName": changing, "Key": firstKey, "ConsistentRead": true}, &reply)
	if reply.Item != nil {
		t.Errorf("a new table has %v", reply.Item)
	}
	b.must(t, "PutItem", object{"TableName": changing, "Item": object{"id": str("1"), "g": str("x"), "round": num(round)}}, nil)
	a.must(t, "GetItem", object{"TableName": changing, "Key": firstKey, "ConsistentRead": true}, &reply)
	if reply.Item.number("round") != round {
		t.Errorf("the item is %v, not of round %d", reply.Item, round)
	}
}

// streamRound enables a stream at one server, and writes at the other.
func streamRound(t *testing.T, a, b *server) {
	t.Helper()
	a.must(t, "UpdateTable", object{"TableName": changing, "StreamSpecification": object{"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"}}, nil)
	b.must(t, "PutItem", object{"TableName": changing, "Item": object{"id": str("2"), "g": str("y")}}, nil)
	if got := a.records(t, changing); len(got) != 1 || got[0].Dynamodb.NewImage.text("g") != "y" {
		t.Errorf("the stream has %v", got)
	}
	b.must(t, "UpdateTable", object{"TableName": changing, "StreamSpecification": object{"StreamEnabled": false}}, nil)
	a.must(t, "PutItem", object{"TableName": changing, "Item": object{"id": str("2"), "g": str("z")}}, nil)
	if got := b.records(t, changing); len(got) != 1 {
		t.Errorf("the stream that has ended has %v", got)
	}
}

// indexRound adds an index at one server, writes at the other while it is
// built, and removes it.
func indexRound(t *testing.T, a, b *server) {
	t.Helper()
	a.must(t, "UpdateTable", newIndex(changing), nil)
	if status(t, b, changing, "by-g") == "" {
		t.Error("the other server does not know the index")
	}
	b.must(t, "PutItem", object{"TableName": changing, "Item": object{"id": str("3"), "g": str("x")}}, nil)
	awaitIndex(t, b, changing)
	query := object{
		"TableName": changing, "IndexName": "by-g", "KeyConditionExpression": "g = :g",
		"ExpressionAttributeValues": object{":g": str("x")},
	}
	var reply struct{ Items []image }
	a.must(t, "Query", query, &reply)
	if len(reply.Items) != 2 {
		t.Errorf("the index has %v", reply.Items)
	}
	b.must(t, "UpdateTable", object{"TableName": changing, "GlobalSecondaryIndexUpdates": []object{{"Delete": object{"IndexName": "by-g"}}}}, nil)
	if err := a.call(t.Context(), "Query", query, nil); codeOf(err) != "ValidationException" && codeOf(err) != "ResourceNotFoundException" {
		t.Errorf("the index that was deleted answers: %v", err)
	}
	await(t, "the index is removed", func(context.Context) error {
		if state := status(t, a, changing, "by-g"); state != "" {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
}

// dropRound deletes the table at one server.
func dropRound(t *testing.T, a, b *server) {
	t.Helper()
	b.must(t, "DeleteTable", object{"TableName": changing}, nil)
	for _, s := range []*server{a, b} {
		err := s.call(t.Context(), "PutItem", object{"TableName": changing, "Item": firstKey}, nil)
		if codeOf(err) != "ResourceNotFoundException" {
			t.Errorf("a table that was deleted answers: %v", err)
		}
	}
}

// keyed creates a table whose key is id.
func keyed(t *testing.T, s *server, name string, more object) {
	t.Helper()
	body := object{
		"TableName": name, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []object{{"AttributeName": "id", "AttributeType": "S"}},
		"KeySchema":            []object{{"AttributeName": "id", "KeyType": "HASH"}},
	}
	for member, v := range more {
		body[member] = v
	}
	s.must(t, "CreateTable", body, nil)
}

// newIndex is a request for an index by g.
func newIndex(table string) object {
	return object{
		"TableName":            table,
		"AttributeDefinitions": []object{{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "g", "AttributeType": "S"}},
		"GlobalSecondaryIndexUpdates": []object{{"Create": object{
			"IndexName":  "by-g",
			"KeySchema":  []object{{"AttributeName": "g", "KeyType": "HASH"}},
			"Projection": object{"ProjectionType": "ALL"},
		}}},
	}
}

// status is the status of an index, "" if it does not exist.
func status(t *testing.T, s *server, table, index string) string {
	t.Helper()
	type indexed struct{ IndexName, IndexStatus string }
	var reply struct {
		Table struct{ GlobalSecondaryIndexes []indexed }
	}
	s.must(t, "DescribeTable", object{"TableName": table}, &reply)
	all := reply.Table.GlobalSecondaryIndexes
	if i := slices.IndexFunc(all, func(x indexed) bool { return x.IndexName == index }); i >= 0 {
		return all[i].IndexStatus
	}
	return ""
}

func awaitIndex(t *testing.T, s *server, table string) {
	t.Helper()
	await(t, "the index is built", func(context.Context) error {
		if state := status(t, s, table, "by-g"); state != "ACTIVE" {
			return fmt.Errorf("it is %q", state)
		}
		return nil
	})
}

// leaderAndOther starts two servers of which the first leads: it is the older
// one.
func leaderAndOther(t *testing.T) (leader, other *server) {
	t.Helper()
	engine := engineURL(t)
	return serve(t, 1, engine)[0], serve(t, 1, engine)[0]
}

// The leader builds indexes. When it is killed another server continues.
func TestIndexIsBuiltByAnother(t *testing.T) {
	const items = 6000
	leader, other := leaderAndOther(t)
	keyed(t, leader, "Many", nil)
	fillTable(t, other, "Many", items, func(n int) object { return object{"g": str(fmt.Sprintf("group-%d", n%100))} })
	other.must(t, "UpdateTable", newIndex("Many"), nil)
	leader.kill()
	if state := status(t, other, "Many", "by-g"); state != "CREATING" {
		t.Fatalf("the index is %s before its builder was killed: it needs more items", state)
	}
	// Items that change meanwhile change in the index too.
	for n := range 50 {
		other.must(t, "PutItem", object{"TableName": "Many", "Item": object{"id": str(id(n * 7)), "g": str("changed")}}, nil)
		other.must(t, "DeleteItem", object{"TableName": "Many", "Key": object{"id": str(id(n*7 + 1))}}, nil)
	}
	awaitIndex(t, other, "Many")
	all, entries := by("id", fleet{other}.scan(t, "Many", "")), fleet{other}.scan(t, "Many", "by-g")
	if faults := indexFaults(all, entries); len(faults) > 0 || len(all) != items-50 {
		t.Errorf("%d items; %d faults, the first %q", len(all), len(faults), faults[:min(3, len(faults))])
	}
	if faults := indexFaults(all, entries[1:]); len(faults) == 0 {
		t.Error("a missing index entry is not noticed")
	}
}

// The leader removes expired items. When it is killed another server does.
func TestItemsExpireByAnother(t *testing.T) {
	leader, other := leaderAndOther(t)
	keyed(t, other, "Short", nil)
	other.must(t, "UpdateTimeToLive", object{"TableName": "Short", "TimeToLiveSpecification": object{"Enabled": true, "AttributeName": "end"}}, nil)
	past, future := int(time.Now().Add(-time.Minute).Unix()), int(time.Now().Add(time.Hour).Unix())
	ending := func(end int) func(int) object { return func(int) object { return object{"end": num(end)} } }
	left := func(want int) func(context.Context) error {
		return func(context.Context) error {
			if all := (fleet{other}).scan(t, "Short", ""); len(all) != want {
				return fmt.Errorf("%d items are there, want %d", len(all), want)
			}
			return nil
		}
	}
	fillTable(t, other, "Short", 50, ending(past))
	await(t, "the first expire", left(0))
	leader.kill()
	fillTable(t, other, "Short", 200, ending(past))
	await(t, "items written after the death of the leader expire", left(0))
	fillTable(t, other, "Short", 50, ending(future))
	if err := left(50)(t.Context()); err != nil {
		t.Errorf("items that have not expired: %v", err)
	}
}

func id(n int) string { return fmt.Sprintf("item-%05d", n) }

// fillTable puts items with some attributes, in batches.
func fillTable(t *testing.T, s *server, table string, n int, attributes func(n int) object) {
	t.Helper()
	for from := 0; from < n; from += 25 {
		var puts []object
		for i := from; i < min(from+25, n); i++ {
			it := attributes(i)
			it["id"] = str(id(i))
			puts = append(puts, object{"PutRequest": object{"Item": it}})
		}
		s.must(t, "BatchWriteItem", object{"RequestItems": object{table: puts}}, nil)
	}
}
