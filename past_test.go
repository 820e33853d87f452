package stator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// sendTo sends a request to a server, and returns the status and the body of its reply.
func sendTo(t *testing.T, h http.Handler, target, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if err := signTest(r, nil); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// The past is read and undone on an encrypted folder, after a restart too, and by several
// servers on TiKV. An item is compared with the restore of its table to the same second.
func TestPastOnEngines(t *testing.T) {
	open := func(o Options) *DB {
		d, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	o := Options{Dir: t.TempDir(), EncryptionKey: keyFile(t)}
	encrypted := open(o)
	t.Run("encrypted", func(t *testing.T) {
		checkPast(t, func() http.Handler { return encrypted.Handler() }, func() {
			if err := encrypted.Close(); err != nil {
				t.Fatal(err)
			}
			encrypted = open(o)
		})
	})
	if err := encrypted.Close(); err != nil {
		t.Error(err)
	}
}

// checkPast checks the operations on the past. server returns the server for a request.
func checkPast(t *testing.T, server func() http.Handler, restart func()) {
	send := func(target, body string) string {
		t.Helper()
		if !strings.Contains(target, ".") {
			target = "DynamoDB_20120810." + target
		}
		status, reply := sendTo(t, server(), target, body)
		if status != http.StatusOK {
			t.Fatalf("%s %s: %s", target, body, reply)
		}
		return reply
	}
	send("CreateTable", `{"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}`)
	send("UpdateContinuousBackups", `{"TableName":"Orders","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`)
	item := func(v string) string { return `{"id":{"S":"a"},"v":{"S":"` + v + `"}}` }
	put := func(v string) { t.Helper(); send("PutItem", `{"TableName":"Orders","Item":`+item(v)+`}`) }
	// history returns the numbers and the seconds of the changes, the newest first.
	history := func() (numbers []string, seconds []int64) {
		t.Helper()
		var reply struct {
			Changes []struct {
				SequenceNumber string
				At             float64
			}
		}
		if err := json.Unmarshal([]byte(send("Stator.ItemHistory", `{"TableName":"Orders","Key":{"id":{"S":"a"}}}`)), &reply); err != nil {
			t.Fatal(err)
		}
		for _, c := range reply.Changes {
			numbers, seconds = append(numbers, c.SequenceNumber), append(seconds, int64(c.At))
		}
		return numbers, seconds
	}
	put("first")
	_, first := history()
	// The second change is in a later second than the first.
	past := func(target, members string) string {
		for deadline := time.Now().Add(time.Minute); ; {
			status, reply := sendTo(t, server(), target, `{"TableName":"Orders",`+members+`}`)
			if status == http.StatusOK {
				return reply
			}
			if !strings.Contains(reply, "what is kept is from") || time.Now().After(deadline) {
				t.Fatal(reply)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	asOf := fmt.Sprintf(`"AsOf":%d`, first[0])
	want := `"Item":` + item("first")
	if got := past("Stator.GetItemAt", `"Key":{"id":{"S":"a"}},`+asOf); !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
	put("second")
	restart()
	if got := past("Stator.GetItemAt", `"Key":{"id":{"S":"a"}},`+asOf); !strings.Contains(got, want) {
		t.Errorf("after a change: %s", got)
	}
	if got := past("Stator.ScanAt", asOf); !strings.Contains(got, item("first")) || !strings.Contains(got, `"Count":1`) {
		t.Errorf("a scan has %s", got)
	}
	send("RestoreTableToPointInTime", fmt.Sprintf(`{"SourceTableName":"Orders","TargetTableName":"Restored","RestoreDateTime":%d}`, first[0]))
	for !strings.Contains(send("DescribeTable", `{"TableName":"Restored"}`), `"TableStatus":"ACTIVE"`) {
		time.Sleep(time.Millisecond)
	}
	if got := send("GetItem", `{"TableName":"Restored","Key":{"id":{"S":"a"}}}`); !strings.Contains(got, want) {
		t.Errorf("a restore has %s", got)
	}
	numbers, _ := history()
	if len(numbers) != 2 {
		t.Fatalf("the changes are %v", numbers)
	}
	change := `{"TableName":"Orders","Key":{"id":{"S":"a"}},"SequenceNumber":"` + numbers[0] + `"`
	var plan struct{ PlanId string }
	if err := json.Unmarshal([]byte(send("Stator.UndoChanges", change+"}")), &plan); err != nil {
		t.Fatal(err)
	}
	if got := send("Stator.UndoChanges", change+`,"Confirm":"`+plan.PlanId+`"}`); !strings.Contains(got, `"Executed":true`) {
		t.Errorf("the undo: %s", got)
	}
	if got := send("GetItem", `{"TableName":"Orders","Key":{"id":{"S":"a"}},"ConsistentRead":true}`); !strings.Contains(got, want) {
		t.Errorf("after the undo: %s", got)
	}
}
