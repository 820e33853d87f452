package queue

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// The keys of the items are those of the design, and each item expires when the
// README says. The figures are written out, so that a changed constant is found.
func TestKeysAndTimes(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		began := w.submit(s, "q", task.Submission{Key: "k"}).Created
		c := w.claim(s, "q", "w-abc")
		if got := w.keys("WORKER#w-abc"); got != "TASK#"+c.ID+"#0002" {
			w.Errorf("the claim is %s", got)
		}
		w.good(s.Complete(w.Context(), c.ID, "w-abc", c.Token, ""))
		done := w.get(s, c.ID).Updated
		w.good(s.table.Flush(w.Context()))
		if got := w.keys("TASK#" + c.ID); got != "EVENT#0001 EVENT#0002 EVENT#0003 META" {
			w.Errorf("the task has the items %s", got)
		}
		if got := w.keys("IDEM#k"); got != "IDEM" {
			w.Errorf("the key has the items %s", got)
		}
		if got := w.keys("WORKER#w-abc"); got != "" {
			w.Errorf("the claim %s is left", got)
		}
		const day = 24 * time.Hour
		for what, want := range map[string]time.Time{
			"IDEM#k IDEM": began.Add(day), "TASK#" + c.ID + " META": done.Add(7 * day), "TASK#" + c.ID + " EVENT#0001": began.Add(14 * day),
		} {
			pk, sk, _ := strings.Cut(what, " ")
			for _, i := range w.items(pk) {
				if textOf(i["SK"]) != sk {
					continue
				}
				n, _ := i["expiresAt"].(*types.AttributeValueMemberN)
				if n == nil || n.Value != strconv.FormatInt(want.Unix(), 10) {
					w.Errorf("%s expires at %+v, want %v", what, n, want)
				}
			}
		}
		if until := w.get(s, c.ID).Until; !until.Equal(began.Add(7 * day)) {
			w.Errorf("the task may wait until %v", until)
		}
	})
}

// keys returns the sort keys of a partition.
func (w *world) keys(partition string) string {
	var all []string
	for _, i := range w.items(partition) {
		all = append(all, textOf(i["SK"]))
	}
	return strings.Join(all, " ")
}

// Each limit accepts its figure and rejects one more.
func TestLimitsByOne(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	submission := func(change func(s *task.Submission, n int)) func(int) error {
		return func(n int) error {
			s := task.Submission{Type: "t"}
			change(&s, n)
			return s.Check()
		}
	}
	for name, c := range map[string]struct {
		most  int
		check func(n int) error
	}{
		"bytes of a payload": {262_144, submission(func(s *task.Submission, n int) { s.Payload = json.RawMessage(`"` + long(n-2) + `"`) })},
		"bytes of a key":     {200, submission(func(s *task.Submission, n int) { s.Key = long(n) })},
		"bytes of a type":    {100, submission(func(s *task.Submission, n int) { s.Type = long(n) })},
		"priority":           {9, submission(func(s *task.Submission, n int) { s.Priority = &n })},
		"attempts":           {100, submission(func(s *task.Submission, n int) { s.MaxAttempts = n })},
		"seconds of delay":   {2_592_000, submission(func(s *task.Submission, n int) { s.Delay = task.Duration(time.Duration(n) * time.Second) })},
		"seconds of backoff": {3600, submission(func(s *task.Submission, n int) { s.Backoff = task.Duration(time.Duration(n) * time.Second) })},
		"bytes of a result":  {4096, func(n int) error { return task.CheckResult(long(n)) }},
		"bytes of a reason":  {4096, func(n int) error { return task.CheckReason(long(n)) }},
		"seconds of a lease": {43_200, func(n int) error { return task.CheckLease(time.Duration(n) * time.Second) }},
		"short leases":       {-1, func(n int) error { return task.CheckLease(time.Duration(-n) * time.Second) }},
		"events": {9999, func(n int) error {
			_, err := task.Task{ID: "x", Status: task.Pending, Seq: n - 1}.After(task.Event{Seq: n, Type: task.Claimed})
			return err
		}},
	} {
		if err := c.check(c.most); err != nil {
			t.Errorf("%s: %d is rejected: %v", name, c.most, err)
		}
		if c.check(c.most+1) == nil {
			t.Errorf("%s: %d is accepted", name, c.most+1)
		}
	}
	if got := fmt.Sprint(maxQueues, maxWaiting, Unlimited("q").MaxPending, table.Shards); got != "1000 10000 100000 4" {
		t.Errorf("the limits of queues, waiting workers and waiting tasks, and the shards are %s", got)
	}
}

// A worker without claims is listed for 15 minutes after it was seen.
func TestWorkersAreForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{Poll: time.Second})
		w.submit(s, "q", task.Submission{})
		c := w.claim(s, "q", "w")
		w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{14*time.Minute + 50*time.Second, 1}, {2 * time.Minute, 0}} {
			time.Sleep(step.wait)
			if n := len(w.items("WORKERS")); n != step.want {
				w.Errorf("after another %v there are %d workers, want %d", step.wait, n, step.want)
			}
		}
	})
}
