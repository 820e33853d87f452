package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/virtualtime"
)

func openLog(t *testing.T, o Options) *Log {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func records(t *testing.T, path string) (found []Record) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		found = append(found, r)
	}
	return found
}

func TestRecordsAreAppended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	for i := range 2 {
		l := openLog(t, Options{Path: path})
		l.Record(&Record{EventName: fmt.Sprint("Op", i), RequestID: "R"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if r := records(t, path); len(r) != 2 || r[1].EventName != "Op1" {
		t.Errorf("got %v", r)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v: %v", info.Mode(), err)
	}
}

// A line that a crash has cut does not damage the next record.
func TestCutLineIsEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(`{"eventName":"Cut`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, Options{Path: path})
	l.Record(&Record{EventName: "Next"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if lines := strings.Split(string(text), "\n"); len(lines) != 3 || !strings.Contains(lines[1], `"Next"`) {
		t.Errorf("got %q", text)
	}
}

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := openLog(t, Options{Path: path, MaxBytes: 1000, Keep: 2})
	for i := range 50 {
		l.Record(&Record{EventName: fmt.Sprintf("Op%02d", i)})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(path + "*")
	if len(files) != 3 {
		t.Fatalf("there are %q", files)
	}
	var names []string
	for _, name := range []string{path + ".2", path + ".1", path} {
		if info, _ := os.Stat(name); info.Size() > 1000 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
		for _, r := range records(t, name) {
			names = append(names, r.EventName)
		}
	}
	for i, name := range names {
		if want := fmt.Sprintf("Op%02d", 50-len(names)+i); name != want {
			t.Fatalf("got %q, want %s at %d", names, want, i)
		}
	}
}

// faultyFile is a file whose writes wait or fail if a test says so.
type faultyFile struct {
	mu     sync.Mutex
	text   bytes.Buffer
	fails  bool
	resume chan struct{} // a write waits until it is closed; nil does not wait
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if f.resume != nil {
		<-f.resume
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails {
		return 0, errors.New("no space left on device")
	}
	return f.text.Write(p)
}
func (f *faultyFile) Sync() error  { return nil }
func (f *faultyFile) Close() error { return nil }

func (f *faultyFile) set(fails bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = fails
}

// dropped returns the sums of the records of a file and of what it says was dropped.
func (f *faultyFile) sums(t *testing.T) (written, dropped int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for line := range bytes.Lines(f.text.Bytes()) {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if r.EventType == "AuditGap" {
			dropped += int(r.AdditionalEventData["dropped"].(float64))
		} else {
			written++
		}
	}
	return written, dropped
}

// A disk that does not answer delays a request by the bound, and no longer; each record is
// written or counted as dropped.
func TestSlowFile(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := &faultyFile{resume: make(chan struct{})}
		l := openLog(t, Options{queue: 4, wait: 50 * time.Millisecond, open: func(string) (file, error) { return f, nil }})
		start := time.Now()
		for range 20 {
			l.Record(&Record{EventName: "PutItem"})
		}
		if took := time.Since(start); took > 20*50*time.Millisecond {
			t.Errorf("the requests waited %v", took)
		}
		close(f.resume)
		time.Sleep(3 * time.Second)
		written, dropped := f.sums(t)
		if dropped == 0 || written+dropped != 20 {
			t.Errorf("%d written, %d dropped", written, dropped)
		}
		if l.written.Load() != int64(written) || l.dropped.Load() != int64(dropped) {
			t.Errorf("the counters are %d and %d, want %d and %d", l.written.Load(), l.dropped.Load(), written, dropped)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What cannot be written is counted, and written down when there is space again.
func TestFullDisk(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := &faultyFile{}
		l := openLog(t, Options{open: func(string) (file, error) { return f, nil }})
		send := func() {
			for range 10 {
				l.Record(&Record{EventName: "PutItem"})
				time.Sleep(300 * time.Millisecond)
			}
		}
		send()
		f.set(true)
		send()
		f.set(false)
		time.Sleep(2 * time.Second)
		send()
		time.Sleep(2 * time.Second)
		written, dropped := f.sums(t)
		if written != 20 || dropped != 10 {
			t.Errorf("%d written, %d dropped; want 20 and 10", written, dropped)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A disk that stays full is reported once, and so is that there is space again.
func TestFailuresAreReportedOnce(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f, reports := new(faultyFile), new(logtest.Log)
		l := openLog(t, Options{open: func(string) (file, error) { return f, nil }, Log: reports.Logger()})
		for range 2 {
			for _, full := range []bool{true, false} {
				f.set(full)
				for range 20 {
					l.Record(&Record{EventName: "PutItem"})
					time.Sleep(500 * time.Millisecond)
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for _, want := range []string{"cannot be written", "is written again"} {
			if n := strings.Count(reports.String(), want); n != 2 {
				t.Errorf("%q is reported %d times, want 2:\n%s", want, n, reports)
			}
		}
	})
}

// A large member, which a client can make at will, does not hide the others, nor the fork.
func TestLargeMembersAreOmitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := openLog(t, Options{Path: path})
	put := func(members map[string]any) {
		text, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		l.Record(&Record{EventName: "PutPrincipal", RequestParameters: text, AdditionalEventData: map[string]any{"fork": "f"}})
	}
	put(map[string]any{"principalArn": "arn:aws:iam::000000000000:user/a", "policies": []string{strings.Repeat(" ", maxRecord)}})
	many := make(map[string]any)
	for i := range maxRecord {
		many[strconv.Itoa(i)] = 1
	}
	put(many)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := records(t, path)
	if len(r) != 2 || string(r[0].RequestParameters) != `{"policies":"too large","principalArn":"arn:aws:iam::000000000000:user/a"}` || r[0].AdditionalEventData["fork"] != "f" {
		t.Errorf("got %+v", r)
	}
	if len(r) == 2 && string(r[1].RequestParameters) != `{"omitted":"too large"}` {
		t.Errorf("many members: %.100s", r[1].RequestParameters)
	}
}

func TestLargeParametersAreOmitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := openLog(t, Options{Path: path})
	large, _ := json.Marshal(strings.Repeat("a", maxRecord))
	l.Record(&Record{EventName: "PutItem", RequestParameters: large})
	l.Record(&Record{EventName: "PutItem", UserAgent: strings.Repeat("a", maxRecord)})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := records(t, path)
	if len(r) != 2 || string(r[0].RequestParameters) != `{"omitted":"too large"}` || len(r[1].UserAgent) != 256 {
		t.Errorf("got %v", r)
	}
}
