package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The ceilings are this program, which is the test binary in a test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "ceiling" {
		if err := ceiling(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// folder holds stator's binary, which is built when a test needs it.
var folder string

// built builds stator once for all tests.
var built = sync.OnceValues(func() (string, error) {
	var err error
	if folder, err = os.MkdirTemp("", "stator-bench-"); err != nil {
		return "", err
	}
	w := &launcher{scratch: folder, root: "..", progress: func(string, ...any) {}}
	return w.build(context.Background(), "stator", "./cmd/stator")
})

// statorBinary returns the path of stator's binary.
func statorBinary(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Keys and TLS work with the load of bench.
func TestSecuredTargets(t *testing.T) {
	binary := statorBinary(t)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{
		"--target", "keys=stator-keys:" + binary + ",both=stator-keys-tls:" + binary, "--workload", "get,scan", "--connections", "3", "--items", "1000", "--rounds", "1",
		"--pause", "--warm", "10ms", "--slice", "100ms", "--dir", t.TempDir(),
	}, &stdout, &stderr)
	if code != 0 || strings.Contains(stdout.String(), "Exception") {
		t.Fatalf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
	for _, name := range []string{"keys", "both"} {
		if !strings.Contains(stdout.String(), name) {
			t.Errorf("%s is not in\n%s", name, &stdout)
		}
	}
}

// The load of bench does not exceed the limits of a server that throttles.
func TestThrottledTarget(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{
		"--target", "limited=stator-throttle:" + statorBinary(t), "--workload", "get,put,scan", "--connections", "3", "--items", "1000", "--rounds", "1",
		"--warm", "10ms", "--slice", "100ms", "--dir", t.TempDir(),
	}, &stdout, &stderr)
	if code != 0 || strings.Contains(stdout.String(), "Exception") || !strings.Contains(stdout.String(), "limited") {
		t.Fatalf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
}

// Every workload runs without an error against stator, signed and not, and
// against the ceilings.
func TestEveryWorkload(t *testing.T) {
	for _, sign := range []bool{false, true} {
		t.Run(fmt.Sprintf("sign=%v", sign), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report.json")
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []string{
				"--target", "stator=stator-memory:" + statorBinary(t) + ",canned,pebble", "--connections", "3", "--items", "1000", "--rounds", "1",
				"--warm", "10ms", "--slice", "100ms", "--dir", t.TempDir(), "--json", file, fmt.Sprintf("--sign=%v", sign),
			}, &stdout, &stderr)
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, &stderr)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r report
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			if want := len(workloads) + len(cannedKind.only) + len(pebbleKind.only); len(r.Figures) != want {
				t.Errorf("%d lines, want %d\n%s", len(r.Figures), want, &stdout)
			}
			for _, f := range r.Figures {
				if f.Errors > 0 || f.P50 == 0 {
					t.Errorf("%s, %s: %d errors (%s), %.1f per second, median %v us", f.Target, f.Workload, f.Errors, f.FirstError, f.OpsPerSecond, f.P50)
				}
			}
		})
	}
}

// The control: reads of a table without items are errors, however fast, and
// so is a table that does not exist.
func TestFastAndEmptyIsAnError(t *testing.T) {
	target := openStator(t, newDataset(1000, 0))
	j := job{Workload: "get", Connections: 2, Slice: 50 * time.Millisecond}
	s, err := target.driver.run(t.Context(), j)
	if err != nil || s.failed() == nil || !strings.Contains(s.First, "ResourceNotFoundException") {
		t.Errorf("without a table: %d operations, %q, %v", s.AllOps, s.First, err)
	}
	if err := target.api.makeTable(t.Context(), tableItems, createItems); err != nil {
		t.Fatal(err)
	}
	for _, workload := range []string{"get", "query", "update"} {
		j.Workload = workload
		if s, err := target.driver.run(t.Context(), j); err != nil || s.failed() == nil {
			t.Errorf("%s of an empty table: %d operations, %q, %v", workload, s.AllOps, s.First, err)
		}
	}
}

// An item has 1,024 bytes: one write unit, and two with one byte more.
func TestItemSize(t *testing.T) {
	c := newDataset(1000, 0)
	target := openStator(t, c)
	if err := target.api.makeTable(t.Context(), tableItems, createItems); err != nil {
		t.Fatal(err)
	}
	// The longer item is written last, since the size of a replaced item counts too.
	for i, units := range []string{`"CapacityUnits":1`, `"CapacityUnits":2`} {
		item := c.appendItem(nil, 999, 5)
		item = append(bytes.TrimSuffix(item, []byte(`"}}`)), strings.Repeat("x", i)+`"}}`...)
		reply, err := target.api.ask(t.Context(), "PutItem", `{"TableName":"`+tableItems+`","ReturnConsumedCapacity":"TOTAL","Item":`+string(item)+`}`)
		if err != nil || !strings.Contains(string(reply), units) {
			t.Errorf("%s, %v; want %s", reply, err, units)
		}
	}
}

// The other measurements: --cold, --grow and --ages.
func TestOtherParts(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{
		"--target", "stator=stator:" + statorBinary(t) + ",pebble", "--cold", "--cold-runs", "1", "--grow", "500,1000", "--ages", "500,1000",
		"--connections", "1", "--rounds", "1", "--warm", "0s", "--slice", "50ms", "--dir", t.TempDir(),
	}, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, &stderr)
	}
	for _, want := range []string{"AGAIN ms", "stator with 1,000", "pebble with 500", "LOAD s"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, &stdout)
		}
	}
	if strings.Contains(stdout.String(), "First errors") {
		t.Errorf("errors in\n%s", &stdout)
	}
}

// A server that cannot be started is reported with its output, and its files are
// removed.
func TestServerThatEnds(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no room >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--target", "old=stator:" + broken, "--dir", dir}, &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "exit status 3; its output: no room") {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// openStator starts stator in memory for a test.
func openStator(t *testing.T, c *dataset) *target {
	t.Helper()
	w := &launcher{scratch: t.TempDir(), root: "..", loaders: 2, progress: t.Logf}
	s, err := parseSpec("stator=stator-memory:" + statorBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	target, err := w.open(context.Background(), s, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.stop(); err != nil {
			t.Error(err)
		}
	})
	return target
}
