package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var backfillItems = flag.Int("build.items", 12_000, "items in the table whose index is backfilled when the server is killed")

// An index whose backfill is interrupted by kill -9 is finished after the next
// start, and agrees with its table despite concurrent writes.
func TestBackfillResumesAfterKill(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	s.createTable(t)
	s.fillTable(t, *backfillItems)

	interrupted := false
	for round := 0; !interrupted && round < 10; round++ {
		stop := s.changeItems(*backfillItems)
		s.updateIndexes(t, `{"Create": {"IndexName": "late", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
			"Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["c"]}}}`)
		for x := s.index(t); x != nil && x.IndexStatus == "CREATING" && (!x.Backfilling || x.ItemCount == 0); {
			x = s.index(t)
		}
		s.kill()
		stop()
		s = startServer(t, data)
		x := s.index(t)
		if x == nil {
			t.Fatal("the index does not exist after the kill")
		}
		interrupted = x.IndexStatus == "CREATING"
		t.Logf("after the kill the index is %s with %d items", x.IndexStatus, x.ItemCount)
		stop = s.changeItems(*backfillItems)
		for x.IndexStatus != "ACTIVE" {
			time.Sleep(5 * time.Millisecond)
			x = s.index(t)
		}
		stop()
		if !interrupted { // it was complete before the kill
			s.updateIndexes(t, `{"Delete": {"IndexName": "late"}}`)
			for s.index(t) != nil {
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	if !interrupted {
		t.Fatal("each backfill was complete before the server was killed")
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server exited with %v\n%s", err, s.log())
	}
	expectVerified(t, data)
}

// expectVerified runs stator verify on a folder and expects no faults.
func expectVerified(t *testing.T, data string) {
	t.Helper()
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, "verify", "--json", "--data", data).Output()
	if err != nil {
		t.Fatalf("stator verify: %v\n%s", err, out)
	}
	var found struct {
		Tables []struct {
			Table   string
			Faults  int64
			Entries map[string]int64
		}
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	entries := int64(0)
	for _, report := range found.Tables {
		entries += report.Entries["late"]
		if report.Faults != 0 {
			t.Errorf("stator verify finds faults of table %q:\n%s", report.Table, out)
		}
	}
	if entries == 0 {
		t.Errorf("stator verify finds no entries of the index:\n%s", out)
	}
}

// describedIndex is an index in the reply of DescribeTable.
type describedIndex struct {
	IndexStatus string
	Backfilling bool
	ItemCount   int
}

// index returns the index of the table, or nil if there is none.
func (s *server) index(t *testing.T) *describedIndex {
	t.Helper()
	var reply struct {
		Table struct{ GlobalSecondaryIndexes []describedIndex }
	}
	if err := s.call("DescribeTable", `{"TableName": "Kills"}`, &reply); err != nil {
		t.Fatal(err)
	}
	if len(reply.Table.GlobalSecondaryIndexes) == 0 {
		return nil
	}
	return &reply.Table.GlobalSecondaryIndexes[0]
}

func (s *server) updateIndexes(t *testing.T, update string) {
	t.Helper()
	err := s.call("UpdateTable", `{"TableName": "Kills", "AttributeDefinitions": [{"AttributeName": "g", "AttributeType": "S"}],
		"GlobalSecondaryIndexUpdates": [`+update+`]}`, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func indexedItem(n, g int) string {
	return fmt.Sprintf(`{"writer": {"S": "w%d"}, "n": {"N": "%d"}, "g": {"S": "g%d"}, "c": {"N": "%d"}, "pad": {"S": "%0100d"}}`, n%100, n, g%50, g, g)
}

// fillTable puts items into the table.
func (s *server) fillTable(t *testing.T, count int) {
	t.Helper()
	var loaders sync.WaitGroup
	const batch, clients = 25, 16
	for first := range clients {
		loaders.Go(func() {
			for from := first * batch; from < count; from += clients * batch {
				var puts []string
				for n := from; n < from+batch; n++ {
					puts = append(puts, `{"PutRequest": {"Item": `+indexedItem(n, n)+`}}`)
				}
				if err := s.call("BatchWriteItem", `{"RequestItems": {"Kills": [`+strings.Join(puts, ",")+`]}}`, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	loaders.Wait()
}

// changeItems runs writers that change items until stop is called or the server
// ends.
func (s *server) changeItems(count int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for ctx.Err() == nil {
				n := rand.IntN(count)
				key := fmt.Sprintf(`{"writer": {"S": "w%d"}, "n": {"N": "%d"}}`, n%100, n)
				update := func(expression string) error {
					return s.call("UpdateItem", `{"TableName": "Kills", "Key": `+key+`, "UpdateExpression": "`+expression+`",
						"ExpressionAttributeValues": {":v": {"S": "`+fmt.Sprint("g", rand.IntN(50))+`"}}}`, nil)
				}
				var err error
				switch rand.IntN(5) {
				case 0:
					err = s.call("PutItem", `{"TableName": "Kills", "Item": `+indexedItem(n, rand.IntN(1000))+`}`, nil)
				case 1:
					err = s.call("DeleteItem", `{"TableName": "Kills", "Key": `+key+`}`, nil)
				case 2:
					err = update("SET g = :v")
				case 3:
					err = update("SET c = :v REMOVE g")
				default:
					err = update("SET pad = :v") // not in the index
				}
				if err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		writers.Wait()
	}
}
