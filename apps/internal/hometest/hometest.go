// Package hometest opens tables for a test of an application, and fails the test
// if the application scans them. It saves what the application requested, for
// `stator model drift --traffic`.
package hometest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	smithyhttp "github.com/aws/smithy-go/transport/http"

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

// Examine returns a client by which a test examines tables. Its requests are no traffic of
// the application: the stator does not count them.
func Examine(client *dynamodb.Client) *dynamodb.Client {
	return dynamodb.New(client.Options(), dynamodb.WithAPIOptions(smithyhttp.AddHeaderValue("X-Stator-Uncounted", "true")))
}

// NoScan fails a test if a stator has received a scan since its start, or a PartiQL
// statement that is one. The client reaches the stator at the URL. It also saves the
// traffic of the stator.
func NoScan(t testing.TB, client *http.Client, url string) {
	t.Helper()
	text := counts(t, client, url)
	if err := save(t.Name(), text); err != nil {
		t.Errorf("save the traffic of the test: %v", err)
	}
	var reply struct{ Shapes []shape }
	if err := json.Unmarshal(text, &reply); err != nil {
		t.Fatalf("read the server's request counts: %v", err)
	}
	for _, s := range reply.Shapes {
		if s.Operation == "Scan" {
			t.Errorf("table %[2]s received %[1]d requests of %[3]s", s.Requests, s.Table, s.Operation)
		}
	}
}

type shape struct {
	Operation, Table, Index, Form string
	Requests                      int64
}

// counts returns the request counts of a stator.
func counts(t testing.TB, client *http.Client, url string) []byte {
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
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("read the server's request counts: status %d, %v", answer.StatusCode, err)
	}
	return text
}

// TrafficFolder is the environment variable with the folder in which the traffic of all
// tests is saved, in one folder for each application.
const TrafficFolder = "APPS_TRAFFIC"

var (
	saved   atomic.Int64
	unusual sync.Map // names of tests
)

// Unusual declares that a test's requests say nothing about the model: they are unusually
// large, contain a fault on purpose, or are sent once after an upgrade. The traffic of the test
// is not saved.
func Unusual(t testing.TB) { unusual.Store(t.Name(), true) }

// save saves the traffic of a test, if the environment asks for it.
func save(test string, text []byte) error {
	folder := os.Getenv(TrafficFolder)
	if _, without := unusual.Load(test); without || folder == "" {
		return nil
	}
	here, err := os.Getwd() // the package's folder
	if err != nil {
		return err
	}
	application, ok := applicationOf(here)
	if !ok {
		return nil
	}
	folder = filepath.Join(folder, application)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%d-%d.json", strings.NewReplacer("/", "-", `\`, "-").Replace(test), os.Getpid(), saved.Add(1))
	return os.WriteFile(filepath.Join(folder, name), text, 0o644)
}

// applicationOf returns the application that a package of this module belongs to.
func applicationOf(folder string) (string, bool) {
	_, inside, ok := strings.Cut(filepath.ToSlash(folder), "/apps/")
	application, _, _ := strings.Cut(inside, "/")
	return application, ok && application != "internal"
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
