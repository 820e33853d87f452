package task

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Every limit is accepted exactly, and refused one beyond. The figures are written
// out, so that a changed constant is found.
func TestLimits(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	submit := func(change func(s *Submission)) error {
		s := Submission{Type: "t"}
		change(&s)
		return s.Check()
	}
	priority := func(n int) error { return submit(func(s *Submission) { s.Priority = &n }) }
	payload := func(n int) error {
		return submit(func(s *Submission) { s.Payload = json.RawMessage(`"` + x(n-2) + `"`) })
	}
	key := func(n int) error { return submit(func(s *Submission) { s.Key = x(n) }) }
	attempts := func(n int) error { return submit(func(s *Submission) { s.MaxAttempts = n }) }
	delay := func(d time.Duration) error { return submit(func(s *Submission) { s.Delay = Duration(d) }) }
	backoff := func(d time.Duration) error { return submit(func(s *Submission) { s.Backoff = Duration(d) }) }
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	runAt := func(d time.Duration) error {
		_, err := (&Submission{RunAt: now.Add(d)}).When(now)
		return err
	}
	const day = 24 * time.Hour
	for name, l := range map[string]struct{ within, beyond error }{
		"payload":        {payload(262_144), payload(262_145)},
		"key":            {key(200), key(201)},
		"name":           {CheckName("queue", x(100)), CheckName("queue", x(101))},
		"reason":         {CheckReason(x(4096)), CheckReason(x(4097))},
		"result":         {CheckResult(x(4096)), CheckResult(x(4097))},
		"priority":       {priority(9), priority(10)},
		"least priority": {priority(0), priority(-1)},
		"attempts":       {attempts(100), attempts(101)},
		"least attempts": {attempts(1), attempts(-1)},
		"delay":          {delay(30 * day), delay(30*day + 1)},
		"time":           {runAt(30 * day), runAt(30*day + time.Millisecond)},
		"backoff":        {backoff(time.Hour), backoff(time.Hour + time.Millisecond)},
		"lease":          {CheckLease(12 * time.Hour), CheckLease(12*time.Hour + 1)},
		"shortest lease": {CheckLease(time.Second), CheckLease(time.Second - 1)},
	} {
		if l.within != nil || l.beyond == nil {
			t.Errorf("%s: within the limit %v, beyond it %v", name, l.within, l.beyond)
		}
	}
}

// The defaults are those of the README.
func TestDefaults(t *testing.T) {
	s := Submission{Type: "t"}
	if err := s.Check(); err != nil || *s.Priority != 5 || s.MaxAttempts != 5 || time.Duration(s.Backoff) != time.Second {
		t.Errorf("a plain submission becomes %+v, %v", s, err)
	}
}

// Each part of a selection is compared.
func TestSelects(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	x := Task{Status: Dead, Queue: "mail", Type: "send", Reason: "Timeout", Updated: at}
	for _, c := range []struct {
		name string
		sel  Selection
		want bool
	}{
		{"its status", Selection{Status: Dead}, true},
		{"another status", Selection{Status: Failed}, false},
		{"its queue", Selection{Status: Dead, Queue: "mail"}, true},
		{"another queue", Selection{Status: Dead, Queue: "print"}, false},
		{"its type", Selection{Status: Dead, Type: "send"}, true},
		{"another type", Selection{Status: Dead, Type: "bounce"}, false},
		{"its reason in another case", Selection{Status: Dead, Reason: "tIME"}, true},
		{"another reason", Selection{Status: Dead, Reason: "refused"}, false},
		{"its age", Selection{Status: Dead, OlderThan: Duration(time.Hour)}, true},
		{"a larger age", Selection{Status: Dead, OlderThan: Duration(time.Hour + 1)}, false},
	} {
		if got := c.sel.Selects(&x, at.Add(time.Hour)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
