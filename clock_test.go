package stator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock/clocktest"
	"github.com/stator-db/stator/internal/logtest"
)

// A step of the wall clock is reported in the log and by the health check, which stays
// healthy, and requests are served. The control is a clock that is not checked.
func TestStepIsReported(t *testing.T) {
	for _, step := range []time.Duration{26 * time.Hour, -2 * time.Hour} {
		for _, checked := range []bool{true, false} {
			system, log := clocktest.New(), new(logtest.Log)
			o := Options{Now: system.Now, Log: log.Logger()}
			if checked {
				o.Elapsed = system.Elapsed
			}
			d, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			send := func(method, path, target, body string) (int, string) {
				r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
				r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+target)
				r.Header.Set("Content-Type", "application/x-amz-json-1.0")
				r.Header.Set("X-Amz-Date", "20260101T000000Z")
				r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=any")
				w := httptest.NewRecorder()
				d.Handler().ServeHTTP(w, r)
				return w.Code, w.Body.String()
			}
			request := func(target, body string) {
				t.Helper()
				if code, reply := send(http.MethodPost, "/", target, body); code != http.StatusOK {
					t.Errorf("step %v, checked %v: %s: %d %s", step, checked, target, code, reply)
				}
			}
			healthy := func(reported bool) {
				t.Helper()
				code, reply := send(http.MethodGet, "/healthz", "", "")
				if code != http.StatusOK || !strings.HasPrefix(reply, "ok\n") || strings.Contains(reply, "the wall clock was stepped by") != reported {
					t.Errorf("step %v, checked %v: the health check returns %d %q", step, checked, code, reply)
				}
			}
			request("CreateTable", `{"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`)
			healthy(false)
			system.Pass(time.Second)
			system.Step(step)
			request("PutItem", `{"TableName": "Orders", "Item": {"id": {"S": "a"}}}`)
			request("GetItem", `{"TableName": "Orders", "Key": {"id": {"S": "a"}}}`)
			healthy(checked)
			if _, text := send(http.MethodGet, "/metrics", "", ""); strings.Contains(text, "\nstator_clock_step_seconds 0\n") == checked {
				t.Errorf("step %v, checked %v: the metrics are %s", step, checked, text)
			}
			if strings.Contains(log.String(), "the wall clock was stepped") != checked {
				t.Errorf("step %v, checked %v: the log is %s", step, checked, log.String())
			}
			system.Step(-step)
			healthy(false)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
