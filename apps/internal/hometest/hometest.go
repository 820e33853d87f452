// Package hometest opens tables for a test of an application, and fails the test
// if the application scans them.
package hometest

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/internal/home"
)

// Start opens an embedded stator in memory with the tables of a model. It fails the
// test at its end if the server has received a scan.
func Start(t testing.TB, model []byte) *home.Home {
	t.Helper()
	return StartWith(t, home.Options{Model: model})
}

// StartWith is Start with options, such as a folder or a clock.
func StartWith(t testing.TB, o home.Options) *home.Home {
	t.Helper()
	h, err := home.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open the tables: %v", err)
	}
	t.Cleanup(func() {
		NoScan(t, h.Stator.Client(), "http://stator.invalid")
		if err := h.Close(); err != nil {
			t.Errorf("close the tables: %v", err)
		}
	})
	return h
}

// NoScan fails a test if a stator has received a scan since its start, or a PartiQL
// statement that is one. The client reaches the stator at the URL.
func NoScan(t testing.TB, client *http.Client, url string) {
	t.Helper()
	for _, s := range shapes(t, client, url) {
		if s.Operation == "Scan" {
			t.Errorf("table %[2]s received %[1]d requests of %[3]s", s.Requests, s.Table, s.Operation)
		}
	}
}

type shape struct {
	Operation, Table, Index, Form string
	Requests                      int64
}

func shapes(t testing.TB, client *http.Client, url string) []shape {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url+"/shapes", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Date", time.Now().UTC().Format("20060102T150405Z"))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=app/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := client.Do(r)
	if err != nil {
		t.Fatalf("read the server's request counts: %v", err)
	}
	defer answer.Body.Close()
	var reply struct{ Shapes []shape }
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("read the server's request counts: status %d, %v", answer.StatusCode, err)
	}
	return reply.Shapes
}

// Model reads an application's model.
func Model(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
