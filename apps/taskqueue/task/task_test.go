package task

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// The status after each event in each status, and which events are not possible.
func TestEvents(t *testing.T) {
	want := map[EventType]map[Status]Status{
		Claimed:           {Pending: Processing},
		Done:              {Processing: Completed},
		FailedForGood:     {Processing: Failed},
		Retry:             {Processing: Delayed},
		Released:          {Processing: Pending},
		Expired:           {Processing: Pending, Pending: Pending},
		Ready:             {Delayed: Pending},
		DeadLettered:      {Processing: Dead, Pending: Dead},
		CancelledByClient: {Pending: Cancelled, Delayed: Cancelled, Processing: Cancelled},
		Requeued:          {Failed: Pending, Dead: Pending},
	}
	for e, moves := range want {
		for _, s := range Statuses {
			after, err := Task{ID: "x", Status: s, Seq: 3}.After(Event{Seq: 4, Type: e, At: noon})
			to, ok := moves[s]
			if ok != (err == nil) || ok && after.Status != to {
				t.Errorf("%s in status %s leads to %s, %v, want %q", e, s, after.Status, err, to)
			}
			if Can(e, s) != ok {
				t.Errorf("Can(%s, %s) is %v", e, s, !ok)
			}
		}
	}
}

func TestEventsFollowEachOther(t *testing.T) {
	for _, c := range []struct {
		name  string
		event Event
	}{
		{"a missing number", Event{Seq: 3, Type: Claimed}},
		{"a repeated number", Event{Seq: 1, Type: Claimed}},
		{"a second submission", Event{Seq: 2, Type: Submitted, Detail: Detail{Born: &Born{}}}},
		{"an unknown event", Event{Seq: 2, Type: "SNEEZED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Replay("x", []Event{{Seq: 1, Type: Submitted, At: noon, Detail: Detail{Born: &Born{Queue: "q"}}}, c.event}); err == nil {
				t.Error("it is replayed without an error")
			}
		})
	}
}

// A task contains its last event: it can be derived from the task after each event,
// whatever the status before was.
func TestLastEvent(t *testing.T) {
	born := &Born{Queue: "q", Type: "t", Priority: 3, PayloadHash: "h", MaxAttempts: 4, Backoff: Duration(time.Second), Key: "k"}
	for _, e := range []Event{
		{Type: Submitted, Detail: Detail{RunAt: noon, Until: noon.Add(time.Hour), Born: born}},
		{Type: Submitted, Detail: Detail{RunAt: noon.Add(time.Minute), Until: noon.Add(time.Hour), Born: born}},
		{Type: Claimed, Detail: Detail{Worker: "w", Slot: 3}},
		{Type: Done, Detail: Detail{Worker: "had", Result: "r", Keep: 9}},
		{Type: FailedForGood, Detail: Detail{Worker: "had", Reason: "no", Keep: 9}},
		{Type: Retry, Detail: Detail{Worker: "had", Reason: "", RunAt: noon.Add(time.Minute)}},
		{Type: Released, Detail: Detail{Worker: "had"}},
		{Type: Expired, Detail: Detail{Worker: "had", Reason: "silent"}},
		{Type: Ready},
		{Type: DeadLettered, Detail: Detail{Worker: "had", Reason: "no", Keep: 9}},
		{Type: DeadLettered, Detail: Detail{Reason: "it waited too long", Keep: 9}},
		{Type: CancelledByClient, Detail: Detail{Reason: "enough", Keep: 9}},
		{Type: Requeued, Detail: Detail{Until: noon.Add(time.Hour)}},
	} {
		for _, s := range append(Statuses, "") {
			before := Task{ID: "x", Status: s, Seq: 6, Reason: "earlier", Result: "", RunAt: noon, Until: noon, Expires: 5, Last: Last{Type: Retry, Worker: "earlier"}}
			if s == Processing || s == Completed || s == Failed {
				before.Worker, before.Slot = "had", 2
			}
			e.Seq, e.At = 7, noon
			after, err := before.After(e)
			if err != nil {
				continue // not possible in this status
			}
			if got := after.LastEvent(); !reflect.DeepEqual(got, e) {
				t.Errorf("after %+v in status %q the last event is %+v", e, s, got)
			}
		}
	}
	if e := (Task{Seq: 3}).LastEvent(); e.Type != "" {
		t.Errorf("a task of an earlier version has the last event %+v", e)
	}
}

// Matches finds a task that differs from its events, whatever differs.
func TestMatchesFindsDifferences(t *testing.T) {
	payload := json.RawMessage(`{"a":1}`)
	events := []Event{
		{Seq: 1, Type: Submitted, At: noon, Detail: Detail{RunAt: noon, Until: noon.Add(time.Hour), Born: &Born{Queue: "q", Type: "t", Priority: 5, PayloadHash: HashOf(payload), MaxAttempts: 3, Backoff: Duration(time.Second)}}},
		{Seq: 2, Type: Claimed, At: noon.Add(time.Second), Detail: Detail{Worker: "w"}},
		{Seq: 3, Type: Done, At: noon.Add(2 * time.Second), Detail: Detail{Worker: "w", Result: "r", Keep: 99}},
	}
	good, err := Replay("x", events)
	if err != nil {
		t.Fatal(err)
	}
	good.Payload = payload
	if err := Matches(good, events); err != nil {
		t.Fatalf("a correct task does not match: %v", err)
	}
	for name, spoil := range map[string]func(*Task){
		"status":   func(x *Task) { x.Status = Dead },
		"worker":   func(x *Task) { x.Worker = "v" },
		"attempts": func(x *Task) { x.Attempts++ },
		"seq":      func(x *Task) { x.Seq++ },
		"payload":  func(x *Task) { x.Payload = json.RawMessage(`{"a":2}`) },
		"result":   func(x *Task) { x.Result = "" },
		"expiry":   func(x *Task) { x.Expires = 0 },
		"time":     func(x *Task) { x.Updated = noon },
	} {
		bad := good
		spoil(&bad)
		if Matches(bad, events) == nil {
			t.Errorf("a different %s is not found", name)
		}
	}
}

func TestSubmissionsAreChecked(t *testing.T) {
	ten := 10
	for _, c := range []struct {
		name, field string
		s           Submission
	}{
		{"no type", "type", Submission{}},
		{"a type with a slash", "type", Submission{Type: "a/b"}},
		{"a type that is a path", "type", Submission{Type: ".."}},
		{"a long type", "type", Submission{Type: strings.Repeat("a", 101)}},
		{"broken JSON", "payload", Submission{Type: "t", Payload: json.RawMessage(`{"a":`)}},
		{"a large payload", "payload", Submission{Type: "t", Payload: json.RawMessage(`"` + strings.Repeat("a", MaxPayload) + `"`)}},
		{"no UTF-8", "payload", Submission{Type: "t", Payload: json.RawMessage("\"\xff\"")}},
		{"a high priority", "priority", Submission{Type: "t", Priority: &ten}},
		{"many attempts", "maxAttempts", Submission{Type: "t", MaxAttempts: 101}},
		{"negative attempts", "maxAttempts", Submission{Type: "t", MaxAttempts: -1}},
		{"a negative delay", "delay", Submission{Type: "t", Delay: -1}},
		{"a delay of years", "delay", Submission{Type: "t", Delay: Duration(MaxDelay + 1)}},
		{"delay and time", "delay", Submission{Type: "t", Delay: 1, RunAt: noon}},
		{"a long back-off", "backoff", Submission{Type: "t", Backoff: Duration(2 * time.Hour)}},
		{"a long key", "key", Submission{Type: "t", Key: strings.Repeat("k", 201)}},
		{"a key that is not UTF-8", "key", Submission{Type: "t", Key: "\xff"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f *Fault
			if err := c.s.Check(); !errors.As(err, &f) || f.Field != c.field {
				t.Errorf("it is %v, want a fault of %s", err, c.field)
			}
		})
	}
	s := Submission{Type: "t"}
	if err := s.Check(); err != nil || *s.Priority != 5 || s.MaxAttempts != 5 || string(s.Payload) != "null" {
		t.Errorf("a plain submission becomes %+v, %v", s, err)
	}
}

func TestWhen(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Submission
		want time.Time
	}{
		{"at once", Submission{}, noon},
		{"later", Submission{Delay: Duration(time.Minute)}, noon.Add(time.Minute)},
		{"at a time", Submission{RunAt: noon.Add(time.Hour)}, noon.Add(time.Hour)},
		{"at a time in the past", Submission{RunAt: noon.Add(-time.Hour)}, noon},
	} {
		if got, err := c.s.When(noon); err != nil || !got.Equal(c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if _, err := (&Submission{RunAt: noon.Add(MaxDelay + time.Hour)}).When(noon); err == nil {
		t.Error("a time too far ahead is accepted")
	}
}

// Two submissions have the same hash only if they are equal.
func TestHash(t *testing.T) {
	base := Submission{Type: "t", Payload: json.RawMessage(`{"a": 1}`)}
	same := Submission{Type: "t", Payload: json.RawMessage(`{ "a":1 }`)}
	other := Submission{Type: "t", Payload: json.RawMessage(`{"a":2}`)}
	for _, s := range []*Submission{&base, &same, &other} {
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if base.Hash("q") != same.Hash("q") {
		t.Error("white space changes the hash")
	}
	if base.Hash("q") == other.Hash("q") || base.Hash("q") == base.Hash("p") {
		t.Error("other content or another queue has the same hash")
	}
}

func TestIDsHoldTheirTime(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		id := NewID(noon)
		if at, err := CreatedAt(id); err != nil || !at.Equal(noon) || seen[id] {
			t.Fatalf("%s: %v, %v, seen before: %v", id, at, err, seen[id])
		}
		seen[id] = true
	}
	for _, bad := range []string{"", "x", "../../etc/passwd", strings.ToUpper(NewID(noon)), "00000000-0000-4000-8000-000000000000", NewID(noon) + "0", strings.ReplaceAll(NewID(noon), "-", "")} {
		if _, err := CreatedAt(bad); err == nil {
			t.Errorf("%q is accepted as an id", bad)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add("2.0.q")
	f.Add("7.12.a.b")
	f.Add("-1.0.q")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParseToken(s)
		if err == nil && k.Seq > 0 {
			if again, err := ParseToken(k.String()); err != nil || again != k {
				t.Errorf("%q is read as %+v, which is written as %q", s, k, k)
			}
		}
	})
}

func TestWaitDoublesWithinBounds(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		first := time.Duration(r.Int64N(int64(MaxBackoff)))
		attempts := r.IntN(MaxAttempts) + 1
		full := Wait(first, attempts, 0)
		if got := Wait(first, attempts, r.Float64()); got > full || got < full*3/4-time.Millisecond || full > MaxBackoff {
			t.Fatalf("seed %d: after %d attempts from %v the wait is %v of %v", seed, attempts, first, got, full)
		}
	}
	if a, b := Wait(time.Second, 1, 0), Wait(time.Second, 4, 0); a != time.Second || b != 8*time.Second {
		t.Errorf("first and fourth wait are %v and %v", a, b)
	}
}
