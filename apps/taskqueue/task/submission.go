package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of submissions.
const (
	MaxPayload  = 256 << 10
	MaxResult   = 4 << 10
	MaxReason   = 4 << 10
	MaxKey      = 200
	MaxName     = 100
	MaxAttempts = 100
	MaxDelay    = 30 * 24 * time.Hour
	MaxBackoff  = time.Hour
	MinLease    = time.Second
	MaxLease    = 12 * time.Hour
	MaxPriority = 9
)

// Submission is a client's request to store a task.
type Submission struct {
	Key         string          `json:"key,omitempty"` // the same key gives the same task
	Type        string          `json:"type"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	Priority    *int            `json:"priority,omitempty"` // 0 to 9, 9 first; defaults to 5
	Delay       Duration        `json:"delay,omitempty"`
	RunAt       time.Time       `json:"runAt,omitzero"`
	MaxAttempts int             `json:"maxAttempts,omitempty"` // defaults to 5
	Backoff     Duration        `json:"backoff,omitempty"`     // delay of the first retry; defaults to 1 s, and doubles each time
}

// Fault is an error in a client's request.
type Fault struct {
	Field, Message string
}

func (f *Fault) Error() string { return f.Field + " " + f.Message }

func fault(field, format string, args ...any) error {
	return &Fault{field, fmt.Sprintf(format, args...)}
}

// Check fills in defaults and validates the submission.
func (s *Submission) Check() error {
	if s.Priority == nil {
		s.Priority = new(int)
		*s.Priority = 5
	}
	if s.MaxAttempts == 0 {
		s.MaxAttempts = 5
	}
	if s.Backoff == 0 {
		s.Backoff = Duration(time.Second)
	}
	s.Backoff = Duration(time.Duration(s.Backoff).Round(time.Millisecond))
	if len(s.Payload) == 0 {
		s.Payload = json.RawMessage("null")
	}
	if err := CheckName("type", s.Type); err != nil {
		return err
	}
	if s.Key != "" {
		if err := checkText("key", s.Key, MaxKey); err != nil {
			return err
		}
	}
	var small bytes.Buffer
	if err := json.Compact(&small, s.Payload); err != nil {
		return fault("payload", "is not JSON: %v", err)
	}
	s.Payload = small.Bytes()
	switch {
	case len(s.Payload) > MaxPayload:
		return fault("payload", "has %d bytes, more than the limit of %d; store large data elsewhere and submit its location", len(s.Payload), MaxPayload)
	case !utf8.Valid(s.Payload):
		return fault("payload", "is not UTF-8")
	case *s.Priority < 0 || *s.Priority > MaxPriority:
		return fault("priority", "is %d, but must be 0 to %d", *s.Priority, MaxPriority)
	case s.MaxAttempts < 1 || s.MaxAttempts > MaxAttempts:
		return fault("maxAttempts", "is %d, but must be 1 to %d", s.MaxAttempts, MaxAttempts)
	case s.Delay < 0 || time.Duration(s.Delay) > MaxDelay:
		return fault("delay", "is %v, but must be 0 to %v", time.Duration(s.Delay), MaxDelay)
	case s.Delay != 0 && !s.RunAt.IsZero():
		return fault("delay", "and runAt exclude each other: set one of them")
	case s.Backoff < 0 || time.Duration(s.Backoff) > MaxBackoff:
		return fault("backoff", "is %v, but must be 0 to %v", time.Duration(s.Backoff), MaxBackoff)
	}
	return nil
}

// When returns when the task may run, if it is submitted now.
func (s *Submission) When(now time.Time) (time.Time, error) {
	now = now.UTC().Truncate(time.Millisecond)
	if s.RunAt.IsZero() {
		return now.Add(time.Duration(s.Delay).Truncate(time.Millisecond)), nil
	}
	if s.RunAt.After(now.Add(MaxDelay)) {
		return now, fault("runAt", "is %s, but must be within %v from now", Format(s.RunAt), MaxDelay)
	}
	if s.RunAt.Before(now) {
		return now, nil
	}
	return s.RunAt.UTC().Truncate(time.Millisecond), nil
}

// Hash returns a hash of the submission: two submissions with the same key must
// have the same hash.
func (s *Submission) Hash(queue string) string {
	content, err := json.Marshal([]any{queue, s.Type, s.Payload, *s.Priority, s.Delay, s.RunAt.UTC(), s.MaxAttempts, s.Backoff})
	if err != nil {
		panic(fmt.Sprintf("a checked submission cannot be encoded: %v", err))
	}
	return HashOf(content)
}

// HashOf returns a short hash of some bytes.
func HashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// CheckName validates a name of a queue, type or worker: it must be safe in a key,
// a path and a page.
func CheckName(field, name string) error {
	if name == "" {
		return fault(field, "is missing")
	}
	if len(name) > MaxName {
		return fault(field, "has %d characters, more than the limit of %d", len(name), MaxName)
	}
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", r) {
			return fault(field, "is %q, but must consist of letters, digits, '_', '-' and '.'", name)
		}
	}
	if name == "." || name == ".." {
		return fault(field, "is %q, which has another meaning in a path", name)
	}
	return nil
}

// CheckReason validates the length and encoding of a reason.
func CheckReason(s string) error { return checkText("reason", s, MaxReason) }

// CheckResult validates the length and encoding of a result.
func CheckResult(s string) error { return checkText("result", s, MaxResult) }

func checkText(field, s string, most int) error {
	if len(s) > most {
		return fault(field, "has %d bytes, more than the limit of %d", len(s), most)
	}
	if !utf8.ValidString(s) {
		return fault(field, "is not UTF-8")
	}
	return nil
}

// CheckLease validates a lease.
func CheckLease(d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return fault("lease", "is %v, but must be %v to %v", d, MinLease, MaxLease)
	}
	return nil
}

// Duration is a time.Duration that is text in JSON, such as "1m30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf(`%q is not a duration such as "1m30s"`, text)
	}
	*d = Duration(v)
	return nil
}

// Wait returns how long to wait before a task is retried: it doubles with each
// attempt up to MaxBackoff, and is reduced by up to a quarter at random (chance is
// from 0 to 1), so that tasks that failed together are not retried together.
func Wait(first time.Duration, attempts int, chance float64) time.Duration {
	d := first
	for i := 1; i < attempts && d < MaxBackoff; i++ {
		d *= 2
	}
	d = min(d, MaxBackoff)
	return (d - time.Duration(float64(d)*chance/4)).Truncate(time.Millisecond)
}
