package queue

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// oneOfEach submits a task for each status to a queue and leads it there.
func (w *world) oneOfEach(s *Service, queue string) map[task.Status]task.Task {
	w.Helper()
	ids := make(map[task.Status]string)
	nine := 9
	lead := func(status task.Status, in task.Submission, do func(c task.Claim) error) {
		in.Type, in.Payload = strings.ToLower(string(status)), text("payload")
		ids[status] = w.submit(s, queue, in).ID
		time.Sleep(10 * time.Millisecond) // ids of one millisecond have no order
		if do != nil {
			w.good(do(w.claim(s, queue, "w-"+queue)))
		}
	}
	fail := func(never bool) func(task.Claim) error {
		return func(c task.Claim) error {
			_, err := s.Fail(w.Context(), c.ID, c.Worker, c.Token, Failure{Reason: "no route to " + c.Type, Never: never})
			return err
		}
	}
	lead(task.Completed, task.Submission{Key: "key-" + queue}, func(c task.Claim) error { return s.Complete(w.Context(), c.ID, c.Worker, c.Token, "sent") })
	lead(task.Failed, task.Submission{}, fail(true))
	lead(task.Dead, task.Submission{MaxAttempts: 1}, fail(false))
	lead(task.Delayed, task.Submission{Backoff: task.Duration(time.Hour)}, fail(false))
	lead(task.Cancelled, task.Submission{}, func(c task.Claim) error {
		_, err := s.Cancel(w.Context(), c.ID, "not needed")
		return err
	})
	lead(task.Processing, task.Submission{Priority: &nine, MaxAttempts: 7}, func(task.Claim) error { return nil })
	lead(task.Pending, task.Submission{Priority: new(int)}, nil)
	tasks := make(map[task.Status]task.Task)
	for status, id := range ids {
		tasks[status] = w.get(s, id)
		if tasks[status].Status != status {
			w.Fatalf("task is %s, want %s", tasks[status].Status, status)
		}
	}
	return tasks
}

// A list shows of each task all that Get does, except for the payload, whatever its
// status, and whether it is a list of one queue or of all.
func TestListsShowWhatGetDoes(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		mail, print := w.oneOfEach(s, "mail"), w.oneOfEach(s, "print")
		for _, status := range task.Statuses {
			a, b := mail[status], print[status]
			a.Payload, b.Payload = nil, nil
			for _, x := range []struct {
				queue string
				want  []task.Task
			}{{"mail", []task.Task{a}}, {"print", []task.Task{b}}, {"", []task.Task{b, a}}} {
				page, err := s.List(w.Context(), task.Selection{Status: status, Queue: x.queue}, "", 10)
				if err != nil || !reflect.DeepEqual(page.Tasks, x.want) || page.Next != "" {
					t.Errorf("the %s tasks of queue %q are %+v, %v, want %+v", status, x.queue, page, err, x.want)
				}
			}
		}
		// The properties by name, so that Get cannot leave them out either.
		page, err := s.List(w.Context(), task.Selection{Status: task.Processing, Queue: "mail"}, "", 10)
		w.good(err)
		if p := page.Tasks[0]; p.Type != "processing" || p.Priority != 9 || p.Attempts != 1 || p.MaxAttempts != 7 || p.Worker != "w-mail" {
			t.Errorf("the task in PROCESSING is %+v", p)
		}
		for _, status := range []task.Status{task.Dead, task.Failed, task.Delayed} {
			page, err := s.List(w.Context(), task.Selection{Status: status, Queue: "mail"}, "", 10)
			w.good(err)
			if want := "no route to " + strings.ToLower(string(status)); page.Tasks[0].Reason != want {
				t.Errorf("the reason of the %s task is %q, want %q", status, page.Tasks[0].Reason, want)
			}
		}
		workers, err := s.Workers(w.Context())
		w.good(err)
		for _, v := range workers {
			if len(v.Tasks) != 1 || v.Tasks[0].Type != "processing" || v.Tasks[0].Priority != 9 || v.Tasks[0].Attempts != 1 {
				t.Errorf("worker %s has %+v", v.ID, v.Tasks)
			}
		}
	})
}

// allPages reads all pages of a list.
func (w *world) allPages(s *Service, sel task.Selection, limit int) (ids []string) {
	w.Helper()
	for next := ""; ; {
		page, err := s.List(w.Context(), sel, next, limit)
		w.good(err)
		if len(page.Tasks) > limit {
			w.Fatalf("a page has %d tasks, more than %d", len(page.Tasks), limit)
		}
		for _, t := range page.Tasks {
			ids = append(ids, t.ID)
		}
		if next = page.Next; next == "" {
			return ids
		}
		if len(ids) > len(w.ids) {
			w.Fatalf("the pages do not end: %v", ids)
		}
	}
}

// Pages of any size have each task once, newest first, over all queues, in the
// index and among the claims.
func TestListPages(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		var pending, running []string
		for i := range 9 {
			id := w.submit(s, fmt.Sprintf("q%d", i%3), task.Submission{}).ID
			time.Sleep(10 * time.Millisecond)
			if i%2 == 0 {
				_, err := s.ClaimTask(w.Context(), id, fmt.Sprintf("w%d", i%4), span)
				w.good(err)
				running = append([]string{id}, running...)
				continue
			}
			pending = append([]string{id}, pending...)
		}
		for limit := 1; limit <= 6; limit++ {
			if got := w.allPages(s, task.Selection{Status: task.Pending}, limit); !reflect.DeepEqual(got, pending) {
				t.Errorf("pending tasks by pages of %d are %v, want %v", limit, got, pending)
			}
			if got := w.allPages(s, task.Selection{Status: task.Processing}, limit); !reflect.DeepEqual(got, running) {
				t.Errorf("running tasks by pages of %d are %v, want %v", limit, got, running)
			}
		}
	})
}

// Each part of a selection leaves out what it should, and nothing else.
func TestSelection(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		dead := func(queue, kind, reason string) string {
			in := w.submit(s, queue, task.Submission{Type: kind, MaxAttempts: 1})
			c := w.claim(s, queue, "w")
			_, err := s.Fail(w.Context(), c.ID, c.Worker, c.Token, Failure{Reason: reason})
			w.good(err)
			return in.ID
		}
		old := dead("mail", "send", "Timeout after 30 s")
		time.Sleep(time.Minute)
		mail := dead("mail", "send", "timeout after 10 s")
		other := dead("mail", "bounce", "refused")
		print := dead("print", "send", "timeout")
		for _, x := range []struct {
			name string
			sel  task.Selection
			want []string
		}{
			{"all", task.Selection{}, []string{old, mail, other, print}},
			{"a queue", task.Selection{Queue: "mail"}, []string{old, mail, other}},
			{"a type", task.Selection{Type: "send"}, []string{old, mail, print}},
			{"a reason in any case", task.Selection{Reason: "TIMEOUT"}, []string{old, mail, print}},
			{"an age", task.Selection{OlderThan: task.Duration(time.Minute)}, []string{old}},
			{"an age that none has", task.Selection{OlderThan: task.Duration(2 * time.Minute)}, nil},
			{"all of them", task.Selection{Queue: "mail", Type: "send", Reason: "timeout", OlderThan: task.Duration(time.Minute)}, []string{old}},
		} {
			x.sel.Status = task.Dead
			got := w.allPages(s, x.sel, 2)
			if !sameSet(got, x.want) {
				t.Errorf("%s: %v, want %v", x.name, got, x.want)
			}
		}
	})
}

func sameSet(a, b []string) bool {
	in := make(map[string]bool)
	for _, x := range a {
		in[x] = true
	}
	for _, x := range b {
		if !in[x] {
			return false
		}
	}
	return len(in) == len(b) && len(a) == len(b)
}

// Counts equal the tasks, in total, by queue and by status; a count that stops at
// its limit says so.
func TestCounts(t *testing.T) {
	inWorld(t, func(w *world) {
		registry := prometheus.NewRegistry()
		s := w.server(Options{Metrics: registry})
		w.oneOfEach(s, "mail")
		w.oneOfEach(s, "print")
		for range 8 {
			w.submit(s, "mail", task.Submission{})
		}
		time.Sleep(time.Second) // the stream delivers the claims
		counts, err := s.Count(w.Context(), "", task.Statuses, UsualCount)
		w.good(err)
		for _, status := range task.Statuses {
			mail, total := 1, 2
			if status == task.Pending {
				mail, total = 9, 10
			}
			if counts.Total[status] != total || counts.Queues[0].Queue != "mail" || counts.Queues[0].Tasks[status] != mail || counts.Queues[1].Tasks[status] != 1 {
				t.Errorf("%s: %+v", status, counts)
			}
		}
		if len(counts.More) > 0 {
			t.Errorf("complete counts say that there are more %v", counts.More)
		}
		counts, err = s.Count(w.Context(), "mail", []task.Status{task.Pending, task.Dead}, 4)
		w.good(err)
		if n := counts.Total[task.Pending]; n > 4 || !reflect.DeepEqual(counts.More, []task.Status{task.Pending}) || len(counts.Queues) != 1 {
			t.Errorf("a count of up to 4 is %+v", counts)
		}
		w.refused(func() error { _, err := s.Count(w.Context(), "unknown", task.Statuses, 1); return err }(), NotFound)
		want := `
# HELP taskqueue_tasks Tasks of a queue by status: PENDING, DELAYED and PROCESSING as this server knows them, DEAD and FAILED as counted in the index, up to 10,000.
# TYPE taskqueue_tasks gauge
taskqueue_tasks{queue="mail",status="DEAD"} 1
taskqueue_tasks{queue="mail",status="DELAYED"} 0
taskqueue_tasks{queue="mail",status="FAILED"} 1
taskqueue_tasks{queue="mail",status="PENDING"} 9
taskqueue_tasks{queue="mail",status="PROCESSING"} 1
taskqueue_tasks{queue="print",status="DEAD"} 1
taskqueue_tasks{queue="print",status="DELAYED"} 0
taskqueue_tasks{queue="print",status="FAILED"} 1
taskqueue_tasks{queue="print",status="PENDING"} 1
taskqueue_tasks{queue="print",status="PROCESSING"} 1
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "taskqueue_tasks"); err != nil {
			t.Error(err)
		}
	})
}

// The count of dead letters on pages and in metrics follows the events within
// seconds, and is not repeated while nothing changes.
func TestBrokenCountsAreRefreshed(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		count := func() int {
			c, err := s.Broken(w.Context())
			w.good(err)
			return c.Total[task.Dead] + c.Total[task.Failed]
		}
		if n := count(); n != 0 {
			t.Fatalf("an empty table has %d broken tasks", n)
		}
		in := w.submit(s, "q", task.Submission{MaxAttempts: 1})
		c := w.claim(s, "q", "w")
		_, err := s.Fail(w.Context(), c.ID, c.Worker, c.Token, Failure{Reason: "no"})
		w.good(err)
		time.Sleep(5 * time.Second)
		if n := count(); n != 1 {
			t.Errorf("after a task has died %d are counted", n)
		}
		counted := s.broken.at
		time.Sleep(59 * time.Second)
		count()
		if !s.broken.at.Equal(counted) {
			t.Error("without any change the tasks were counted again")
		}
		time.Sleep(time.Second)
		count()
		if s.broken.at.Equal(counted) {
			t.Error("after a minute the tasks were not counted again: expired ones would stay in the count")
		}
		_, err = s.Requeue(w.Context(), in.ID)
		w.good(err)
		time.Sleep(4 * time.Second)
		if n := count(); n != 1 {
			t.Error("the tasks were counted again within five seconds")
		}
		time.Sleep(time.Second)
		if n := count(); n != 0 {
			t.Errorf("after the requeue %d are counted", n)
		}
	})
}

// A bulk request changes the selected tasks in steps and no others; a dry run
// changes none.
func TestBulk(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		const n = 230 // a step changes 200
		for i := range n {
			w.submit(s, "mail", task.Submission{Type: []string{"send", "bounce"}[i%2], MaxAttempts: 1})
		}
		for range n {
			c := w.claim(s, "mail", "w")
			_, err := s.Fail(w.Context(), c.ID, c.Worker, c.Token, Failure{Reason: "down"})
			w.good(err)
		}
		run := func(what task.Change, in task.BulkRequest) (total task.BulkReply, steps int) {
			for {
				reply, err := s.Bulk(w.Context(), what, in)
				w.good(err)
				if reply.Matched > 200 {
					t.Errorf("a step changes %d tasks", reply.Matched)
				}
				total.Matched += reply.Matched
				total.Changed += reply.Changed
				total.Skipped += reply.Skipped
				total.Tasks = append(total.Tasks, reply.Tasks...)
				steps++
				if in.Next = reply.Next; in.Next == "" {
					return total, steps
				}
			}
		}
		count := func(status task.Status) int {
			c, err := s.Count(w.Context(), "", []task.Status{status}, UsualCount)
			w.good(err)
			return c.Total[status]
		}
		dry := task.BulkRequest{Selection: task.Selection{Status: task.Dead}, DryRun: true}
		if total, steps := run(task.RequeueTasks, dry); total.Matched != n || total.Changed != 0 || count(task.Dead) != n || steps != 2 || len(total.Tasks) != n {
			t.Fatalf("a dry run of %d steps matches %d and changes %d of %d", steps, total.Matched, total.Changed, n)
		}
		some := task.BulkRequest{Selection: task.Selection{Status: task.Dead, Type: "send"}}
		total, _ := run(task.RequeueTasks, some)
		if total.Matched != n/2 || total.Changed != n/2 || count(task.Dead) != n/2 || count(task.Pending) != n/2 {
			t.Fatalf("of %d tasks %+v are requeued", n/2, total)
		}
		for _, x := range total.Tasks {
			if x.Type != "send" || x.Status != task.Pending || x.Attempts != 0 {
				t.Errorf("a requeued task is %+v", x)
			}
		}
		if total, _ := run(task.CancelTasks, task.BulkRequest{Selection: task.Selection{Status: task.Pending, Queue: "mail"}, Note: "no longer"}); total.Changed != n/2 || count(task.Cancelled) != n/2 || total.Tasks[0].Reason != "no longer" {
			t.Errorf("cancelled: %d of %d", total.Changed, n/2)
		}
		for what, status := range map[task.Change]task.Status{task.RequeueTasks: task.Pending, task.CancelTasks: task.Completed} {
			if _, err := s.Bulk(w.Context(), what, task.BulkRequest{Selection: task.Selection{Status: status}}); err == nil {
				t.Errorf("%s of %s tasks is accepted", what, status)
			}
		}
	})
}

// metered counts the read units of requests.
type metered struct {
	mutex sync.Mutex
	units float64
}

func (m *metered) add(c *types.ConsumedCapacity) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if c != nil {
		m.units += *c.CapacityUnits
	}
}

// options makes requests return their units, and adds them up.
func (m *metered) options(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("units", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			switch p := in.Parameters.(type) {
			case *dynamodb.QueryInput:
				p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			case *dynamodb.BatchGetItemInput:
				p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
			}
			out, meta, err := next.HandleInitialize(ctx, in)
			switch r := out.Result.(type) {
			case *dynamodb.QueryOutput:
				m.add(r.ConsumedCapacity)
			case *dynamodb.BatchGetItemOutput:
				for i := range r.ConsumedCapacity {
					m.add(&r.ConsumedCapacity[i])
				}
			}
			return out, meta, err
		}), middleware.After)
	})
}

// A list and a count cost what the README says.
func TestUnitsOfLists(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		for range 200 {
			w.submit(s, "mail", task.Submission{Payload: text(strings.Repeat("x", 300))})
		}
		var m metered
		s = New(Options{Table: &table.Table{DB: dynamodb.New(w.home.DB.Options(), m.options)}})
		s.knowQueue(Unlimited("mail"))
		page, err := s.List(w.Context(), task.Selection{Status: task.Pending, Queue: "mail"}, "", 50)
		w.good(err)
		t.Logf("a page of %d tasks costs %v read units", len(page.Tasks), m.units)
		if m.units < 25+4*0.5 || m.units > 25+4*3 {
			t.Errorf("a page of %d tasks costs %v read units", len(page.Tasks), m.units)
		}
		m.units = 0
		_, err = s.Count(w.Context(), "mail", []task.Status{task.Pending}, UsualCount)
		w.good(err)
		bytes := m.units * 2 * 4096 / 200
		t.Logf("counting 200 tasks costs %v read units, %.0f bytes a task", m.units, bytes)
		if bytes < 200 || bytes > 450 {
			t.Errorf("counting 200 tasks costs %v read units, %.0f bytes a task", m.units, bytes)
		}
		m.units = 0
		_, err = s.Count(w.Context(), "mail", broken, UsualCount)
		w.good(err)
		if m.units != 4 {
			t.Errorf("counting the broken tasks of a queue without any costs %v read units, want 4", m.units)
		}
	})
}

// A requeue extends the time for which the earlier events are kept; it does not make
// them happen again on the page and in the metrics.
func TestRequeueRepeatsNoEvents(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		in := w.submit(s, "q", task.Submission{MaxAttempts: 1})
		c := w.claim(s, "q", "w")
		_, err := s.Fail(w.Context(), c.ID, c.Worker, c.Token, Failure{Reason: "no"})
		w.good(err)
		time.Sleep(time.Minute) // the extended time differs
		_, err = s.Requeue(w.Context(), in.ID)
		w.good(err)
		time.Sleep(time.Second)
		var got []task.EventType
		for _, r := range s.Recent() {
			got = append([]task.EventType{r.Type}, got...)
		}
		if want := []task.EventType{task.Submitted, task.Claimed, task.DeadLettered, task.Requeued}; !reflect.DeepEqual(got, want) {
			t.Errorf("the recent events are %v, want %v", got, want)
		}
	})
}
