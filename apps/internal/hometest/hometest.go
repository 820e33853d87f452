// Package hometest opens tables for a test of an application, whose policy applies to
// its requests, and fails the test if the application scans them. It saves what the application
// requested, for `stator model drift --traffic`.
package hometest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/stator-db/stator"
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
	Guard(t, &o)
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
// the application: the stator does not count them, and the application's policy does not
// apply to them.
func Examine(client *dynamodb.Client) *dynamodb.Client {
	return dynamodb.New(Administrator(client).Options(), dynamodb.WithAPIOptions(smithyhttp.AddHeaderValue("X-Stator-Uncounted", "true")))
}

// Administrator returns a client that signs with the key of an administrator, for what an
// operator does.
func Administrator(client *dynamodb.Client) *dynamodb.Client {
	return dynamodb.New(client.Options(), func(o *dynamodb.Options) { o.Credentials = administrator })
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
	// The context of the test is done when its cleanup runs.
	key, err := administrator.Retrieve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	empty := sha256.Sum256(nil)
	if err := v4.NewSigner().SignHTTP(context.Background(), key, r, hex.EncodeToString(empty[:]), "dynamodb", stator.DefaultRegion, time.Now()); err != nil {
		t.Fatal(err)
	}
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
	application, _, err := application()
	if err != nil || application == "" {
		return err
	}
	folder = filepath.Join(folder, application)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%d-%d.json", strings.NewReplacer("/", "-", `\`, "-").Replace(test), os.Getpid(), saved.Add(1))
	return os.WriteFile(filepath.Join(folder, name), text, 0o644)
}

// application returns the application that is being tested, with its folder; "" for a
// package that belongs to none.
func application() (name, folder string, err error) {
	here, err := os.Getwd() // the package's folder
	if err != nil {
		return "", "", err
	}
	root, inside, ok := strings.Cut(filepath.ToSlash(here), "/apps/")
	name, _, _ = strings.Cut(inside, "/")
	if !ok || name == "internal" {
		return "", "", nil
	}
	return name, filepath.FromSlash(root + "/apps/" + name), nil
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
