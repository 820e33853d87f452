// Command mutate changes the figures and conditions of the task queue one at a time,
// and reports whether a test finds each change. It runs in the folder apps, and
// leaves the files as they are.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// mutant is a change of a file that a test must find. from occurs once in the file.
type mutant struct {
	file, from, to string
	pkg, tests     string // which tests are run
}

var mutants = []mutant{
	// The limits of requests.
	{"task/submission.go", "MaxPayload  = 256 << 10", "MaxPayload  = 256<<10 + 1", "task", "TestLimits"},
	{"task/submission.go", "MaxResult   = 4 << 10", "MaxResult   = 4<<10 + 1", "task", "TestLimits"},
	{"task/submission.go", "MaxReason   = 4 << 10", "MaxReason   = 4<<10 - 1", "task", "TestLimits"},
	{"task/submission.go", "MaxKey      = 200", "MaxKey      = 201", "task", "TestLimits"},
	{"task/submission.go", "MaxName     = 100", "MaxName     = 99", "task", "TestLimits"},
	{"task/submission.go", "MaxAttempts = 100", "MaxAttempts = 101", "task", "TestLimits"},
	{"task/submission.go", "MaxDelay    = 30 * 24 * time.Hour", "MaxDelay    = 31 * 24 * time.Hour", "task", "TestLimits"},
	{"task/submission.go", "MaxBackoff  = time.Hour", "MaxBackoff  = 2 * time.Hour", "task", "TestLimits"},
	{"task/submission.go", "MinLease    = time.Second", "MinLease    = time.Second - time.Millisecond", "task", "TestLimits"},
	{"task/submission.go", "MaxLease    = 12 * time.Hour", "MaxLease    = 13 * time.Hour", "task", "TestLimits"},
	{"task/submission.go", "MaxPriority = 9", "MaxPriority = 10", "task", "TestLimits"},
	{"task/submission.go", "*s.Priority = 5", "*s.Priority = 4", "task", "TestDefaults"},
	{"task/submission.go", "s.MaxAttempts = 5", "s.MaxAttempts = 6", "task", "TestDefaults"},
	{"task/submission.go", "s.Backoff = Duration(time.Second)", "s.Backoff = Duration(2 * time.Second)", "task", "TestDefaults"},
	{"front/api.go", "usualLease = 30 * time.Second", "usualLease = 31 * time.Second", "front", "TestDefaults"},
	{"front/api.go", "maxWait    = time.Minute", "maxWait    = 2 * time.Minute", "front", "TestLimits"},
	{"front/api.go", `number(r, "limit", 50)`, `number(r, "limit", 51)`, "front", "TestDefaults"},
	{"queue/view.go", "q.MaxPending > 10_000_000", "q.MaxPending > 10_000_001", "front", "TestLimits"},
	{"queue/view.go", "q.MaxRunning > 1000", "q.MaxRunning > 1001", "front", "TestLimits"},
	{"queue/queue.go", "MaxPending: 100_000", "MaxPending: 100_001", "front", "TestDefaults"},

	// Lists, counts and bulk changes.
	{"queue/list.go", "MaxPage = 1000", "MaxPage = 1001", "front", "TestLimits"},
	{"queue/list.go", "BulkPage = 200", "BulkPage = 201", "queue", "TestBulk"},
	{"queue/list.go", "p >= before", "p > before", "queue", "TestListPages"},
	{"queue/list.go", "if in.DryRun {", "if false {", "queue", "TestBulk"},
	{"queue/list.go", `page.Next = table.Place(&found[i])`, `page.Next = ""`, "queue", "TestListPages"},
	{"queue/count.go", "MaxCount   = 10_000_000", "MaxCount   = 10_000_001", "front", "TestLimits"},
	{"queue/count.go", "countAgain = 5 * time.Second", "countAgain = 6 * time.Second", "queue", "TestBroken"},
	{"queue/count.go", "countStale = time.Minute", "countStale = 61 * time.Second", "queue", "TestBroken"},
	{"queue/count.go", "e == task.FailedForGood || e == task.Requeued", "e == task.FailedForGood", "queue", "TestBroken"},
	{"task/lists.go", "now.Sub(t.Updated) >= time.Duration(s.OlderThan)", "now.Sub(t.Updated) > time.Duration(s.OlderThan)", "task", "TestSelects"},
	{"task/lists.go", "t.Status == s.Status &&", "true &&", "task", "TestSelects"},
	{"task/lists.go", `(s.Type == "" || t.Type == s.Type)`, "true", "task", "TestSelects"},
	{"task/lists.go", `strings.ToLower(s.Reason))`, `s.Reason)`, "task", "TestSelects"},

	// The statuses of the document: each transition that is left out, and one too many.
	{"task/event.go", "Claimed:           {Pending},", "Claimed:           {Pending, Delayed},", "task", "Test"},
	{"task/event.go", "Done:              {Processing},", "Done:              {Processing, Pending},", "task", "Test"},
	{"task/event.go", "FailedForGood:     {Processing},", "FailedForGood:     {Processing, Dead},", "task", "Test"},
	{"task/event.go", "Retry:             {Processing},", "Retry:             {},", "task", "Test"},
	{"task/event.go", "Released:          {Processing},", "Released:          {},", "task", "Test"},
	{"task/event.go", "Expired:           {Processing},", "Expired:           {},", "task", "Test"},
	{"task/event.go", "Ready:             {Delayed},", "Ready:             {Delayed, Pending},", "task", "Test"},
	{"task/event.go", "DeadLettered:      {Pending, Processing},", "DeadLettered:      {Processing},", "task", "Test"},
	{"task/event.go", "CancelledByClient: {Pending, Delayed, Processing},", "CancelledByClient: {Pending, Delayed},", "task", "Test"},
	{"task/event.go", "Requeued:          {Failed, Dead},", "Requeued:          {Failed, Dead, Cancelled},", "task", "Test"},
	{"task/event.go", "= 4           // width", "= 5           // width", "task", "TestNumber"},
	{"task/event.go", "const MaxSeq = 9999", "const MaxSeq = 10000", "task", "TestNumber"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	from := flag.Int("from", 1, "number of the first change")
	flag.Parse()
	survived := 0
	for i, m := range mutants {
		if i+1 < *from {
			continue
		}
		began := time.Now()
		outcome, err := m.run(ctx)
		if err != nil {
			fmt.Fprintf(os.Stderr, "mutate: %s: %v\n", m.file, err)
			os.Exit(1)
		}
		if outcome != "found" {
			survived++
		}
		fmt.Printf("%2d/%d  %-8s  %5.1f s  %s: %s -> %s\n", i+1, len(mutants), outcome, time.Since(began).Seconds(), m.file, m.from, m.to)
	}
	if survived > 0 {
		fmt.Printf("%d of %d changes are not found by a test\n", survived, len(mutants))
		os.Exit(1)
	}
}

// changed returns the file with the change.
func (m mutant) changed(root string) (path string, text []byte, err error) {
	path, err = filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", nil, err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	if n := strings.Count(string(old), m.from); n != 1 {
		return "", nil, fmt.Errorf("%q occurs %d times", m.from, n)
	}
	return path, []byte(strings.Replace(string(old), m.from, m.to, 1)), nil
}

// run runs the tests with the change: the outcome is "found", "survived" or "broken"
// if it does not compile.
func (m mutant) run(ctx context.Context) (string, error) {
	path, text, err := m.changed("taskqueue")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: file}})
	if err != nil {
		return "", err
	}
	for name, b := range map[string][]byte{file: text, overlay: replace} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			return "", err
		}
	}
	out, err := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout", "2m", "-overlay", overlay, "-run", m.tests, "./taskqueue/"+m.pkg).CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return "survived", nil
	case strings.Contains(string(out), "--- FAIL"), strings.Contains(string(out), "test timed out"):
		return "found", nil
	}
	return "broken", nil
}
