package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

var errCrashed = errors.New("the server has crashed")

// crash ends a server at one of its writes: it sends no request after that. The
// write itself is not sent, or it is sent and its reply is lost.
type crash struct {
	mutex sync.Mutex
	at    int // number of the write, from 1; 0 means never
	lost  bool
	n     int
	dead  bool
	fault fault // nil, or what is wrong with the server
}

// fault handles a request of a server in another way than the server means to. It
// returns nil to let it pass.
type fault func(ctx context.Context, in any, send func(ctx context.Context, in any) error) (handled bool, err error)

func (c *crash) options(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("crash", c.handle), middleware.Before)
	})
}

func (c *crash) handle(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	var none middleware.InitializeOutput
	if c.isDead() {
		return none, middleware.Metadata{}, errCrashed
	}
	var out middleware.InitializeOutput
	var meta middleware.Metadata
	send := func(ctx context.Context, input any) error {
		last := false
		if writes(input) {
			c.mutex.Lock()
			c.n++
			last = c.n == c.at
			dead := c.dead || last && !c.lost
			c.dead = c.dead || last
			c.mutex.Unlock()
			if dead {
				return errCrashed
			}
		}
		var err error
		out, meta, err = next.HandleInitialize(ctx, middleware.InitializeInput{Parameters: input})
		if last {
			return errCrashed
		}
		return err
	}
	if c.fault != nil {
		if handled, err := c.fault(ctx, in.Parameters, send); handled {
			return middleware.InitializeOutput{Result: emptyOutput(in.Parameters)}, meta, err
		}
	}
	err := send(ctx, in.Parameters)
	return out, meta, err
}

func (c *crash) isDead() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.dead
}

func writes(in any) bool {
	switch in.(type) {
	case *dynamodb.PutItemInput, *dynamodb.UpdateItemInput, *dynamodb.DeleteItemInput, *dynamodb.BatchWriteItemInput, *dynamodb.TransactWriteItemsInput:
		return true
	}
	return false
}

func emptyOutput(in any) any {
	switch in.(type) {
	case *dynamodb.PutItemInput:
		return new(dynamodb.PutItemOutput)
	case *dynamodb.UpdateItemInput:
		return new(dynamodb.UpdateItemOutput)
	case *dynamodb.DeleteItemInput:
		return new(dynamodb.DeleteItemOutput)
	}
	return new(dynamodb.BatchWriteItemOutput)
}

func textOf(v types.AttributeValue) string {
	s, _ := v.(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

// putsAt reports whether a request puts an item whose partition key begins so.
func putsAt(in any, prefix string) bool {
	p, ok := in.(*dynamodb.PutItemInput)
	return ok && strings.HasPrefix(textOf(p.Item["PK"]), prefix)
}

func updatesTask(in any) bool {
	u, ok := in.(*dynamodb.UpdateItemInput)
	return ok && textOf(u.Key["SK"]) == "META"
}

// swapped makes a server send a put after another request instead of before it.
func swapped(first func(any) bool, second func(any) bool) fault {
	var held any
	return func(ctx context.Context, in any, send func(context.Context, any) error) (bool, error) {
		switch {
		case first(in):
			held = in
			return true, nil
		case second(in) && held != nil:
			after := held
			held = nil
			if err := send(ctx, in); err != nil {
				return true, err
			}
			return true, send(ctx, after)
		}
		return false, nil
	}
}

// dropped makes a server believe that it has sent a request.
func dropped(which func(any) bool) fault {
	return func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
		return which(in), nil
	}
}

// life is one way a task goes. It returns the id of the task if its submission was
// acknowledged. All errors are those of a client whose server crashes.
type life func(ctx context.Context, s *Service, queue string) (id string)

func submitted(ctx context.Context, s *Service, queue string) string {
	t, _, err := s.Submit(ctx, queue, task.Submission{Type: "t", Key: "key-" + queue, MaxAttempts: 3, Backoff: task.Duration(time.Second)})
	if err != nil {
		return ""
	}
	return t.ID
}

func claimed(ctx context.Context, s *Service, queue string, then func(task.Claim)) string {
	id := submitted(ctx, s, queue)
	if c, ok, err := s.Claim(ctx, queue, "w", span, 3*time.Second); ok && err == nil {
		then(c)
	}
	return id
}

var lives = map[string]life{
	"complete": func(ctx context.Context, s *Service, queue string) string {
		return claimed(ctx, s, queue, func(c task.Claim) {
			s.Heartbeat(ctx, c.ID, "w", c.Token)
			s.Complete(ctx, c.ID, "w", c.Token, "r")
		})
	},
	"complete in a queue with a limit": func(ctx context.Context, s *Service, queue string) string {
		s.SetQueue(ctx, task.Queue{Name: queue, MaxPending: 10, MaxRunning: 1})
		return claimed(ctx, s, queue, func(c task.Claim) { s.Complete(ctx, c.ID, "w", c.Token, "r") })
	},
	"retry": func(ctx context.Context, s *Service, queue string) string {
		return claimed(ctx, s, queue, func(c task.Claim) {
			s.Fail(ctx, c.ID, "w", c.Token, Failure{Reason: "no"})
			time.Sleep(3 * time.Second)
		})
	},
	"release": func(ctx context.Context, s *Service, queue string) string {
		return claimed(ctx, s, queue, func(c task.Claim) { s.Release(ctx, c.ID, "w", c.Token) })
	},
	"cancel": func(ctx context.Context, s *Service, queue string) string {
		return claimed(ctx, s, queue, func(c task.Claim) { s.Cancel(ctx, c.ID, "enough") })
	},
	"cancel before the claim": func(ctx context.Context, s *Service, queue string) string {
		id := submitted(ctx, s, queue)
		s.Cancel(ctx, id, "enough")
		return id
	},
	"expire": func(ctx context.Context, s *Service, queue string) string {
		return claimed(ctx, s, queue, func(task.Claim) { time.Sleep(span + 2*time.Second) })
	},
	"fail and requeue": func(ctx context.Context, s *Service, queue string) string {
		return claimed(ctx, s, queue, func(c task.Claim) {
			s.Fail(ctx, c.ID, "w", c.Token, Failure{Reason: "no", Never: true})
			s.Requeue(ctx, c.ID)
		})
	},
}

// live lets one server go through a life and crash on the way. It returns the id
// that the client got, and whether the server crashed.
func (w *world) live(c *crash, queue string, do life) (id string, crashed bool) {
	w.Helper()
	s := New(Options{Table: &table.Table{DB: dynamodb.New(w.home.DB.Options(), c.options), Streams: w.home.Streams}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	starting, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	if s.Started(starting) == nil { // it may crash while it starts
		id = do(ctx, s, queue)
		time.Sleep(200 * time.Millisecond) // what follows the last reply
	}
	crashed = c.isDead()
	cancel()
	<-ended
	return id, crashed
}

// items reads the items of a partition, as they are.
func (w *world) items(partition string) (all []map[string]types.AttributeValue) {
	w.Helper()
	out, err := hometest.Examine(w.home.DB).Query(context.Background(), &dynamodb.QueryInput{
		TableName: aws.String(table.Name), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("PK = :pk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": &types.AttributeValueMemberS{Value: partition}},
	})
	w.good(err)
	return out.Items
}

// tasksOf returns all tasks of a queue. It scans, so that it also finds a task that is
// in no index and has no claim.
func (w *world) tasksOf(queue string) (all []task.Task) {
	w.Helper()
	pages := dynamodb.NewScanPaginator(hometest.Examine(w.home.DB), &dynamodb.ScanInput{
		TableName: aws.String(table.Name), ConsistentRead: aws.Bool(true), FilterExpression: aws.String("SK = :meta AND #queue = :queue"),
		ExpressionAttributeNames:  map[string]string{"#queue": "queue"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":meta": &types.AttributeValueMemberS{Value: "META"}, ":queue": &types.AttributeValueMemberS{Value: queue}},
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(context.Background())
		w.good(err)
		for _, i := range out.Items {
			t, ok, err := w.table.Get(context.Background(), textOf(i["taskId"]))
			w.good(err)
			if ok {
				all = append(all, t)
			}
		}
	}
	return all
}

// promises returns what does not hold at any moment: every event but the last has
// its item, and a task in PROCESSING has its claim.
func (w *world) promises(queue string) (broken []string) {
	w.Helper()
	for _, t := range w.tasksOf(queue) {
		events := 0
		for _, i := range w.items("TASK#" + t.ID) {
			if strings.HasPrefix(textOf(i["SK"]), "EVENT#") {
				events++
			}
		}
		if events < t.Seq-1 {
			broken = append(broken, fmt.Sprintf("task %s has %d events and is at %d", t.ID, events, t.Seq))
		}
		if t.Status != task.Processing {
			continue
		}
		held := false
		for c, err := range w.table.Claims(context.Background(), t.Worker) {
			w.good(err)
			held = held || c.Task == t.ID && c.Seq == t.Seq
		}
		if !held {
			broken = append(broken, fmt.Sprintf("task %s is in PROCESSING, and no claim of it expires", t.ID))
		}
	}
	return broken
}

// recover lets another server and a client go on after the crash, and returns what
// is wrong in the end.
func (w *world) recover(queue, id string) (wrong []string) {
	w.Helper()
	s, stop := w.serverUntil(Options{Poll: 500 * time.Millisecond})
	again := submitted(w.Context(), s, queue)
	if again == "" || id != "" && again != id {
		wrong = append(wrong, fmt.Sprintf("the submission was answered with %q, and its repetition with %q", id, again))
	}
	for idle := 0; idle < 2; {
		c, ok, err := s.Claim(w.Context(), queue, "other", span, 20*time.Second)
		w.good(err)
		if !ok {
			idle++
			continue
		}
		w.good(s.Complete(w.Context(), c.ID, "other", c.Token, ""))
	}
	stop()
	found := w.tasksOf(queue)
	if len(found) != 1 {
		wrong = append(wrong, fmt.Sprintf("one key has %d tasks", len(found)))
	}
	for _, t := range found {
		if !t.Status.Final() {
			wrong = append(wrong, fmt.Sprintf("task %s is %s for good", t.ID, t.Status))
		}
		if err := w.replay(t.ID); err != nil {
			wrong = append(wrong, err.Error())
		}
		w.ids = append(w.ids, t.ID)
	}
	for _, worker := range []string{"w", "other"} {
		for c, err := range w.table.Claims(context.Background(), worker) {
			w.good(err)
			if c.Queue == queue {
				wrong = append(wrong, fmt.Sprintf("a claim of task %s is left", c.Task))
			}
		}
	}
	for range w.items("QUEUE#" + queue) {
		wrong = append(wrong, "a slot is left")
	}
	return append(wrong, w.promises(queue)...)
}

// A server crashes at each of its writes, before the write and after it. The promises
// hold at that moment. Another server continues: no acknowledged task is lost, a
// repeated submission finds it, each task ends and equals the replay of its events,
// and no claim or slot is left.
func TestCrashAtEveryWrite(t *testing.T) {
	for name, do := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				for at := 1; ; at++ {
					ended := true
					for _, lost := range []bool{false, true} {
						queue := fmt.Sprintf("q%d%v", at, lost)
						id, crashed := w.live(&crash{at: at, lost: lost}, queue, do)
						for _, b := range w.promises(queue) {
							w.Errorf("crash at write %d, which is sent %v: %s", at, lost, b)
						}
						for _, b := range w.recover(queue, id) {
							w.Errorf("crash at write %d, which is sent %v: %s", at, lost, b)
						}
						ended = ended && !crashed
					}
					if ended {
						if at < 7 {
							w.Errorf("the life has only %d writes", at-1)
						}
						return
					}
				}
			})
		})
	}
}

// The controls: servers that write in another order, or leave a write out, are found.
func TestCrashFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func() fault
		life  string
		want  string
	}{
		{"the claim after the task", func() fault { return swapped(func(in any) bool { return putsAt(in, "WORKER#") }, updatesTask) }, "complete", "no claim of it expires"},
		{"the key after the task", func() fault {
			return swapped(func(in any) bool { return putsAt(in, "IDEM#") }, func(in any) bool { return putsAt(in, "TASK#") })
		}, "complete", "one key has 2 tasks"},
		{"no events", func() fault {
			return dropped(func(in any) bool {
				b, ok := in.(*dynamodb.BatchWriteItemInput)
				return ok && b.RequestItems[table.Name][0].PutRequest != nil
			})
		}, "complete", "has 0 events"},
		{"claims that are not deleted", func() fault {
			return dropped(func(in any) bool {
				b, ok := in.(*dynamodb.BatchWriteItemInput)
				return ok && b.RequestItems[table.Name][0].DeleteRequest != nil
			})
		}, "complete", "a claim of task"},
		{"slots that are not freed", func() fault {
			return dropped(func(in any) bool { _, ok := in.(*dynamodb.DeleteItemInput); return ok })
		}, "complete in a queue with a limit", "a slot is left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				for at := 0; at < 15; at++ {
					queue := fmt.Sprintf("q%d", at)
					id, _ := w.live(&crash{at: at, fault: c.fault()}, queue, lives[c.life])
					wrong := w.promises(queue)
					if c.want == "a claim of task" || c.want == "a slot is left" { // the second server would repair it
						for range w.items("WORKER#w") {
							wrong = append(wrong, "a claim of task")
						}
						for range w.items("QUEUE#" + queue) {
							wrong = append(wrong, "a slot is left")
						}
					} else {
						wrong = append(wrong, w.recover(queue, id)...)
					}
					if strings.Contains(strings.Join(wrong, "\n"), c.want) {
						w.ids = nil // their history is wrong
						w.submit(w.server(Options{}), "control", task.Submission{})
						return
					}
				}
				w.Errorf("no crash shows that %q", c.want)
			})
		})
	}
}

// A server stops for longer than a lease between a claim and its task, and then goes
// on. Another server has ended the claim meanwhile, so the task is not updated. The
// control: without the event that the other server writes first, it is in PROCESSING without a
// claim.
func TestClaimThatComesTooLate(t *testing.T) {
	for _, fenced := range []bool{true, false} {
		inWorld(t, func(w *world) {
			going := make(chan struct{})
			release := going // of the first claim
			fence := dropped(func(in any) bool {
				u, ok := in.(*dynamodb.UpdateItemInput)
				return ok && !fenced && textOf(u.ExpressionAttributeValues[":last"]) == string(task.Expired)
			})
			stalls, ends := &crash{fault: func(ctx context.Context, in any, send func(context.Context, any) error) (bool, error) {
				if u, ok := in.(*dynamodb.UpdateItemInput); ok && textOf(u.ExpressionAttributeValues[":last"]) == string(task.Claimed) && release != nil {
					held := release
					release = nil
					<-held
				}
				return fence(ctx, in, send)
			}}, &crash{fault: fence}
			slow, other := w.serverWith(stalls), w.serverWith(ends)
			in := w.submit(slow, "q", task.Submission{Key: "key-q"})
			result := make(chan error)
			go func() {
				_, err := slow.ClaimTask(w.Context(), in.ID, "w", span)
				result <- err
			}()
			time.Sleep(2 * span)
			if n := len(w.items("WORKER#w")); n != 0 {
				w.Fatalf("%d claims are left", n)
			}
			close(going)
			err := <-result
			broken := w.promises("q")
			if !fenced {
				if err != nil || len(broken) == 0 {
					w.Errorf("without the fence the late claim returns %v, and the promises are %v", err, broken)
				}
				time.Sleep(time.Second) // until the event of the late claim is written
				return
			}
			w.refused(err, Conflict)
			if len(broken) > 0 {
				w.Error(broken)
			}
			c := w.claim(other, "q", "v")
			w.good(other.Complete(w.Context(), c.ID, "v", c.Token, ""))
		})
	}
}

// serverWith starts a server whose requests pass through a crash.
func (w *world) serverWith(c *crash) *Service {
	w.Helper()
	s, stop := w.start(Options{Table: &table.Table{DB: dynamodb.New(w.home.DB.Options(), c.options), Streams: w.home.Streams}})
	w.Cleanup(stop)
	return s
}

// A submission whose task was done and has expired is not executed again by a late
// repetition, however long keys are kept. A submission that stored its key and no
// task is.
func TestLateRepetitions(t *testing.T) {
	for _, c := range []struct {
		after time.Duration // keep is 100 s, and a task may wait as long
		keep  time.Duration // of the server that gets the repetition
		done  bool
		want  string
	}{
		{179 * time.Second, 0, false, "new"},
		{181 * time.Second, 0, false, "refused"}, // its events may have expired as well: nothing tells
		{150 * time.Second, 0, true, "refused"},
		{150 * time.Second, time.Hour, true, "refused"},
		{50 * time.Second, 0, true, "found"},
	} {
		inWorld(t, func(w *world) {
			o := Options{Keep: 100 * time.Second, MaxAge: 100 * time.Second, KeepKey: time.Hour, Poll: time.Second}
			s, stop := w.serverUntil(o)
			id := ""
			if c.done {
				id = w.submit(s, "q", task.Submission{Key: "key-q"}).ID
				claim := w.claim(s, "q", "w")
				w.good(s.Complete(w.Context(), claim.ID, "w", claim.Token, ""))
				w.ids = nil
			} else {
				w.live(&crash{at: 3}, "q", lives["complete"]) // after the queue and the key
				for _, i := range w.items("IDEM#key-q") {
					id = textOf(i["taskId"])
				}
			}
			if c.keep != 0 {
				stop()
				o.Keep = c.keep
				s, stop = w.serverUntil(o)
			}
			defer stop()
			time.Sleep(c.after)
			in := task.Submission{Type: "t", Key: "key-q", MaxAttempts: 3, Backoff: task.Duration(time.Second)}
			if c.done {
				in = task.Submission{Type: "t", Key: "key-q"}
			}
			got, isNew, err := s.Submit(w.Context(), "q", in)
			if c.want == "refused" {
				w.refused(err, NotFound)
				w.submit(s, "other", task.Submission{})
				return
			}
			w.good(err)
			if got.ID != id || isNew != (c.want == "new") {
				w.Errorf("after %v the key gives %s, new %v, want %s %s", c.after, got.ID, isNew, c.want, id)
			}
			w.ids = append(w.ids, got.ID)
		})
	}
}
