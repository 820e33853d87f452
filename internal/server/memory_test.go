package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/standby"
	"github.com/stator-db/stator/internal/virtualtime"
)

// largeReads are requests of each kind for items of 400 KB, of which there are 20.
var largeReads = map[string]string{
	"GetItem":               `{"TableName":"Large","Key":{"p":{"S":"p"},"k":{"N":"1"}}}`,
	"Query":                 `{"TableName":"Large","KeyConditionExpression":"p = :p","ExpressionAttributeValues":{":p":{"S":"p"}}}`,
	"Scan":                  `{"TableName":"Large"}`,
	"BatchGetItem":          `{"RequestItems":{"Large":{"Keys":[` + largeKeys(20, `{"p":{"S":"p"},"k":{"N":"%d"}}`) + `]}}}`,
	"TransactGetItems":      `{"TransactItems":[` + largeKeys(10, `{"Get":{"TableName":"Large","Key":{"p":{"S":"p"},"k":{"N":"%d"}}}}`) + `]}`,
	"ExecuteStatement":      `{"Statement":"SELECT * FROM Large"}`,
	"ExecuteTransaction":    `{"TransactStatements":[` + largeKeys(10, `{"Statement":"SELECT * FROM Large WHERE p='p' AND k=%d"}`) + `]}`,
	"BatchExecuteStatement": `{"Statements":[` + largeKeys(20, `{"Statement":"SELECT * FROM Large WHERE p='p' AND k=%d"}`) + `]}`,
}

// largeKeys joins a text for each of the first n keys.
func largeKeys(n int, format string) string {
	var all []string
	for k := range n {
		all = append(all, fmt.Sprintf(format, k))
	}
	return strings.Join(all, ",")
}

// fillLarge stores 20 items of 400 KB, whose text is longer: control characters are
// escaped.
func fillLarge(t *testing.T, h http.Handler) {
	t.Helper()
	must(t, h, "CreateTable", `{"TableName":"Large","BillingMode":"PAY_PER_REQUEST",
		"AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"},{"AttributeName":"k","AttributeType":"N"}],
		"KeySchema":[{"AttributeName":"p","KeyType":"HASH"},{"AttributeName":"k","KeyType":"RANGE"}]}`)
	text := strings.Repeat(`\u0001`, 100_000) + strings.Repeat("x", 300_000)
	for k := range 20 {
		must(t, h, "PutItem", fmt.Sprintf(`{"TableName":"Large","Item":{"p":{"S":"p"},"k":{"N":"%d"},"s":{"S":"%s"}}}`, k, text))
	}
}

func must(t *testing.T, h http.Handler, operation, body string) {
	t.Helper()
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header = signed("DynamoDB_20120810." + operation)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 200 {
		t.Fatalf("%s: %d %s", operation, w.Code, w.Body)
	}
}

// Clients that send requests of one kind and do not read the replies do not hold
// more memory than the budget, and another client is served. The control: with a
// budget that is not reached they hold more.
func TestMemoryOfRepliesIsBounded(t *testing.T) {
	const clients, budget = 24, 48 << 20
	hold := func(t *testing.T, h *server.Handler, operation string) (most int64) {
		dial := serve(t, h)
		for range clients {
			c := dial()
			go func() {
				sendHead(c, "/", "DynamoDB_20120810."+operation, len(largeReads[operation]))
				_, _ = io.WriteString(c, largeReads[operation]) // it may be cut off
			}()
		}
		for range 8 {
			synctest.Wait()
			if _, bytes := h.PendingReplies(); bytes > most {
				most = bytes
			}
			time.Sleep(250 * time.Millisecond)
		}
		began := time.Now()
		good := dial()
		go func() {
			sendHead(good, "/", listTables, 2)
			_, _ = io.WriteString(good, "{}")
		}()
		if status, reply := readReply(t, good); status != 200 || time.Since(began) > 0 {
			t.Errorf("a small request gets %d %s after %v", status, reply, time.Since(began))
		}
		return most
	}
	for operation := range largeReads {
		t.Run(operation, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				h := newHandler(t)
				fillLarge(t, h)
				h.SetMemory(budget)
				if most := hold(t, h, operation); most == 0 || most > budget {
					t.Errorf("clients hold %d MB, want %d at most", most>>20, budget>>20)
				}
			})
		})
	}
	t.Run("control", func(t *testing.T) {
		virtualtime.Test(t, func(t *testing.T) {
			h := newHandler(t)
			fillLarge(t, h)
			h.SetMemory(1 << 40)
			if most := hold(t, h, "TransactGetItems"); most <= budget {
				t.Errorf("clients hold %d MB without a budget, want more than %d", most>>20, budget>>20)
			}
		})
	})
}

// A request for which there is no memory waits until another reply is read, and then
// has its whole reply.
func TestRequestsWaitForMemory(t *testing.T) {
	for _, operation := range []string{"GetItem", "Query", "TransactGetItems"} {
		t.Run(operation, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				h := newHandler(t)
				fillLarge(t, h)
				h.SetMemory(16 << 20)
				dial := serve(t, h)
				send := func(c io.Writer, operation string) {
					sendHead(c, "/", "DynamoDB_20120810."+operation, len(largeReads[operation]))
					_, _ = io.WriteString(c, largeReads[operation])
				}
				first := dial()
				go send(first, "BatchGetItem") // needs all memory
				synctest.Wait()
				second := dial()
				go send(second, operation)
				synctest.Wait()
				if n, _ := h.PendingReplies(); n != 1 {
					t.Fatalf("%d replies are being sent, want 1", n)
				}
				go io.Copy(io.Discard, first) //nolint:errcheck // until it is closed
				if status, reply := readReply(t, second); status != 200 || !bytes.Contains([]byte(reply), []byte(strings.Repeat("x", 300_000))) {
					t.Errorf("the second request gets %d %.200s", status, reply)
				}
			})
		})
	}
}

// A backup of all tables, or a copy or changes for a standby, is rejected with the error after which clients retry while
// as many as possible are sent, and sent when one of the others has ended. It gives
// its own slot back.
func TestBackupStreamsAreBounded(t *testing.T) {
	for _, target := range []string{server.TargetBackup, standby.TargetCopy, standby.TargetChanges} {
		t.Run(target, func(t *testing.T) { streamsAreBounded(t, target) })
	}
}

func streamsAreBounded(t *testing.T, target string) {
	virtualtime.Test(t, func(t *testing.T) {
		h := newHandler(t)
		slots, most := h.StreamSlots(target)
		dial := serve(t, h)
		rejected := func() bool {
			c := dial()
			go sendHead(c, "/", target, 0)
			reply, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return false // the handler has no store of backups, so that the stream ends early
			}
			text, _ := io.ReadAll(reply.Body)
			return reply.StatusCode == 400 && bytes.Contains(text, []byte("ThrottlingException"))
		}
		for range most {
			if err := slots.Acquire(t.Context(), 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		if !rejected() {
			t.Error("one more is not rejected")
		}
		slots.Release()
		for range 2 {
			if rejected() {
				t.Error("it is rejected after the end of another one")
			}
		}
	})
}

// smallRequests are requests for which items of 400 KB each would need all memory, but
// which read, write and return a few small items. Those of the table Small are items 0 to 99.
var smallRequests = map[string][2]string{
	"a batch of reads":        {"BatchGetItem", `{"RequestItems":{"Small":{"Keys":[` + largeKeys(100, `{"p":{"S":"p"},"k":{"N":"%d"}}`) + `]}}}`},
	"a batch of absent items": {"BatchGetItem", `{"RequestItems":{"Large":{"Keys":[` + largeKeys(100, `{"p":{"S":"absent"},"k":{"N":"%d"}}`) + `]}}}`},
	"a transaction of reads":  {"TransactGetItems", `{"TransactItems":[` + largeKeys(100, `{"Get":{"TableName":"Small","Key":{"p":{"S":"p"},"k":{"N":"%d"}}}}`) + `]}`},
	"a transaction of SELECT": {"ExecuteTransaction", `{"TransactStatements":[` + largeKeys(100, `{"Statement":"SELECT * FROM Small WHERE p='p' AND k=%d"}`) + `]}`},
	"a transaction of UPDATE": {"ExecuteTransaction", `{"TransactStatements":[` + largeKeys(100, `{"Statement":"UPDATE Small SET a=1 WHERE p='p' AND k=%d"}`) + `]}`},
	"a batch of SELECT":       {"BatchExecuteStatement", `{"Statements":[` + largeKeys(25, `{"Statement":"SELECT * FROM Small WHERE p='p' AND k=%d"}`) + `]}`},
	"a batch of UPDATE":       {"BatchExecuteStatement", `{"Statements":[` + largeKeys(25, `{"Statement":"UPDATE Small SET a=1 WHERE p='p' AND k=%d"}`) + `]}`},
	"a SELECT by keys":        {"ExecuteStatement", `{"Statement":"SELECT * FROM Small WHERE p='p' AND k IN [1,2,3]"}`},
	"a SELECT of a partition": {"ExecuteStatement", `{"Statement":"SELECT * FROM Small WHERE p='p'"}`},
	"an UPDATE":               {"ExecuteStatement", `{"Statement":"UPDATE Small SET a=1 WHERE p='p' AND k=1"}`},
}

// Requests for small items do not wait for memory, whatever the largest items would
// need. TestRequestsWaitForMemory is the control.
func TestSmallBatchesDoNotWaitForMemory(t *testing.T) {
	for name, request := range smallRequests {
		t.Run(name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				h := newHandler(t)
				fillLarge(t, h)
				must(t, h, "CreateTable", `{"TableName":"Small","BillingMode":"PAY_PER_REQUEST",
					"AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"},{"AttributeName":"k","AttributeType":"N"}],
					"KeySchema":[{"AttributeName":"p","KeyType":"HASH"},{"AttributeName":"k","KeyType":"RANGE"}]}`)
				for k := range 100 {
					must(t, h, "PutItem", fmt.Sprintf(`{"TableName":"Small","Item":{"p":{"S":"p"},"k":{"N":"%d"},"s":{"S":"x"}}}`, k))
				}
				h.SetMemory(16 << 20)
				dial := serve(t, h)
				send := func(c io.Writer, operation, body string) {
					sendHead(c, "/", "DynamoDB_20120810."+operation, len(body))
					_, _ = io.WriteString(c, body) // it may be cut off
				}
				for range 2 { // the second waits
					go send(dial(), "BatchGetItem", largeReads["BatchGetItem"])
					synctest.Wait()
				}
				if n, _ := h.PendingReplies(); n != 1 {
					t.Fatalf("%d large replies are being sent, want 1", n)
				}
				began := time.Now()
				small := dial()
				go send(small, request[0], request[1])
				status, reply := readReply(t, small)
				if after := time.Since(began); status != 200 || after > 0 || strings.Contains(reply, "Error") {
					t.Errorf("it gets %d %.200s after %v, want its reply at once", status, reply, after)
				}
			})
		})
	}
}

// A request that waits for memory does not keep the buffer of its incomplete reply: it
// is not counted then.
func TestWaitingRequestsReturnTheirBuffer(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := newHandler(t)
		fillLarge(t, h)
		h.SetMemory(5 << 20)
		var others admission.Room
		if err := others.Acquire(t.Context(), h.Slots(), 3<<20); err != nil {
			t.Fatal(err)
		}
		var a door.Reply
		done := make(chan error)
		go func() { done <- h.Execute(t.Context(), "Query", largeReads["Query"], &a) }() // of a text of 2.7 MB
		synctest.Wait()
		if kept := cap(a.Memory.Empty()); kept > buffer.Small {
			t.Errorf("it waits with a buffer of %d bytes", kept)
		}
		others.Release()
		if err := <-done; err != nil || len(a.Body) < 2<<20 {
			t.Errorf("the reply has %d bytes, %v", len(a.Body), err)
		}
	})
}
