package trigger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/protocol/api"
)

// withLetters starts a trigger whose endpoint has rejected items a to e, and accepts them from then
// on.
func (w *triggerTest) withLetters(dead string) {
	w.Helper()
	none := 0
	w.answers(func(delivery) (int, string) { return http.StatusBadRequest, "" })
	w.start(Config{StartingPosition: TrimHorizon, MaxRetries: &none, BatchSize: 1, DeadLetter: dead})
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		w.put(id, 1)
	}
	time.Sleep(time.Second)
	w.answers(nil)
}

// letters returns all dead letters, read in pages of two.
func (w *triggerTest) letters() (all []api.DeadLetter) {
	w.Helper()
	for token := ""; ; {
		page, next, err := w.triggers.DeadLetters(w.Context(), "t", token, 2)
		if err != nil {
			w.Fatal(err)
		}
		if all = append(all, page...); next == "" {
			return all
		}
		token = next
	}
}

func (w *triggerTest) replay(in api.ReplayDeadLetters) *api.ReplayDeadLettersReply {
	w.Helper()
	name := "t"
	in.TriggerName = &name
	reply, err := w.triggers.Replay(w.Context(), &in)
	if err != nil {
		w.Fatal(err)
	}
	return reply
}

// describe returns the only trigger, and the sums of its parts.
func (w *triggerTest) describe() (d api.TriggerDescription, sum api.TriggerPart) {
	w.Helper()
	page, next, err := w.triggers.Describe(w.Context(), "", 1)
	if err != nil || len(page) != 1 || next != "" {
		w.Fatalf("%v, %q, %v", page, next, err)
	}
	for _, p := range page[0].Parts {
		sum.RecordsBehind += p.RecordsBehind
		sum.RecordsDelivered += p.RecordsDelivered
		sum.RecordsGivenUp += p.RecordsGivenUp
		sum.ConsecutiveErrors = max(sum.ConsecutiveErrors, p.ConsecutiveErrors)
		if p.LastError != "" {
			sum.LastError = p.LastError
		}
		if o := p.OldestRecordAt; o != nil {
			sum.OldestRecordAt = o
		}
	}
	return page[0], sum
}

var yes = true

// One letter is replayed, then all. What the endpoint accepts is removed from the file; what it
// rejects stays. Records that are given up meanwhile are kept.
func TestReplay(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		dead := filepath.Join(t.TempDir(), "dead.jsonl")
		other := `{"trigger":"t2","time":"2026-11-15T12:00:00Z","condition":"RetryAttemptsExhausted","attempts":1,"record":{}}` + "\nnot JSON\n"
		if err := os.WriteFile(dead, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		w.withLetters(dead)
		all := w.letters()
		if len(all) != 5 || all[0].Condition != exhausted || all[0].Attempts != 1 || all[0].Error != "the endpoint answered 400" || all[0].GivenUpAt == nil {
			t.Fatalf("the letters are %+v", all)
		}
		if d, sum := w.describe(); *d.DeadLetters != 5 || !*d.DeadLettersCounted || sum.RecordsGivenUp != 5 || sum.RecordsDelivered != 0 || sum.ConsecutiveErrors != 0 {
			t.Errorf("the trigger is %+v, %+v", d, sum)
		}
		third := all[2]
		_, before, err := w.triggers.DeadLetters(t.Context(), "t", "", 2)
		if err != nil {
			t.Fatal(err)
		}

		got := w.replay(api.ReplayDeadLetters{DeadLetterIds: []string{third.DeadLetterId, "none"}})
		if got.Replayed != 1 || got.Rejected != 0 || len(got.NotFound) != 1 || got.NotFound[0] != "none" || got.NextToken != "" {
			t.Errorf("the reply is %+v", got)
		}
		posted := w.requests()[len(w.requests())-1].records
		if len(posted) != 1 || recordOf(w, deadLetter{Record: json.RawMessage(third.Record)}) != posted[0].value() {
			t.Errorf("%+v was posted, want %s", posted, third.Record)
		}
		if got := w.letters(); len(got) != 4 {
			t.Errorf("%d letters remain, want 4", len(got))
		}
		if _, _, err := w.triggers.DeadLetters(t.Context(), "t", before, 2); err == nil || !strings.Contains(err.Error(), "not valid any more") {
			t.Errorf("the token of a page before the removal gives %v", err)
		}

		rejected := w.letters()[1]
		value := recordOf(w, deadLetter{Record: json.RawMessage(rejected.Record)})
		w.answers(func(d delivery) (int, string) {
			if d.has(value) {
				return http.StatusTeapot, ""
			}
			return http.StatusOK, ""
		})
		got = w.replay(api.ReplayDeadLetters{All: &yes})
		if got.Replayed != 3 || got.Rejected != 1 || got.Failed[0] != (api.FailedReplay{DeadLetterId: rejected.DeadLetterId, Error: "the endpoint answered 418"}) || got.NextToken != "" {
			t.Errorf("the reply is %+v", got)
		}
		if d, _ := w.describe(); *d.DeadLetters != 1 {
			t.Errorf("%d letters are counted, want 1", *d.DeadLetters)
		}
		w.answers(func(delivery) (int, string) { return http.StatusBadRequest, "" })
		w.put("f", 1)
		time.Sleep(time.Second)
		if got := w.letters(); len(got) != 2 || got[0].DeadLetterId != rejected.DeadLetterId {
			t.Errorf("the letters are %+v", got)
		}
		text, err := os.ReadFile(dead)
		if err != nil || !bytes.HasPrefix(text, []byte(other)) {
			t.Errorf("lines of others were changed: %s, %v", text, err)
		}
	})
}

// A replay ends when the endpoint rejects one record after the other, and continues where it ended.
func TestReplayEndsAndContinues(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		dead := filepath.Join(t.TempDir(), "dead.jsonl")
		w.withLetters(dead)
		file := w.triggers.all[0].dead
		for i := range maxRejected + 3 {
			line := fmt.Sprintf(`{"trigger":"t","condition":"RecordAgeExceeded","attempts":0,"record":{"n":%d,"eventSourceARN":"arn:aws:dynamodb:us-east-1:000000000000:table/Orders/stream/x"}}`, i)
			if _, err := file.file.WriteString(line + "\n"); err != nil {
				t.Fatal(err)
			}
		}
		accepted := 0
		w.answers(func(d delivery) (int, string) {
			if accepted++; accepted <= 2 {
				return http.StatusOK, ""
			}
			return http.StatusInternalServerError, ""
		})
		got := w.replay(api.ReplayDeadLetters{All: &yes})
		if got.Replayed != 2 || got.Rejected != maxRejected || got.NextToken == "" {
			t.Fatalf("the reply is %+v", got)
		}
		w.answers(nil)
		got = w.replay(api.ReplayDeadLetters{All: &yes, NextToken: &got.NextToken})
		if got.Replayed != 6 || got.NextToken != "" {
			t.Errorf("the reply is %+v", got)
		}
		if got := w.letters(); len(got) != maxRejected {
			t.Errorf("%d letters remain, want %d", len(got), maxRejected)
		}
		// A request begins no further record after ten seconds.
		w.takes = 4 * time.Second
		if got := w.replay(api.ReplayDeadLetters{All: &yes}); got.Replayed != 3 || got.NextToken == "" {
			t.Errorf("the reply is %+v", got)
		}
	})
}

// The time of a replay is that of the system: it does not end because a test advances the clock.
func TestReplayWhileTheClockIsAdvanced(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.withLetters(filepath.Join(t.TempDir(), "dead.jsonl"))
		w.answers(func(delivery) (int, string) {
			w.skip(time.Minute)
			return http.StatusOK, ""
		})
		if got := w.replay(api.ReplayDeadLetters{All: &yes}); got.Replayed != 5 || got.NextToken != "" {
			t.Errorf("the reply is %+v", got)
		}
	})
}

// A file that was moved is not replaced, and what it has is not posted.
func TestReplayOfAMovedFile(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		dead := filepath.Join(t.TempDir(), "dead.jsonl")
		w.withLetters(dead)
		before := len(w.requests())
		if err := os.Rename(dead, dead+".1"); err != nil {
			t.Fatal(err)
		}
		name := "t"
		if _, err := w.triggers.Replay(t.Context(), &api.ReplayDeadLetters{TriggerName: &name, All: &yes}); err == nil || !strings.Contains(err.Error(), "was moved or replaced") {
			t.Errorf("the replay gives %v", err)
		}
		if n := len(w.requests()); n != before {
			t.Errorf("%d records were posted", n-before)
		}
		if _, _, err := w.triggers.DeadLetters(t.Context(), "other", "", 1); err == nil || !strings.Contains(err.Error(), "Trigger: other not found") {
			t.Errorf("another trigger gives %v", err)
		}
	})
}

// A trigger shows how far behind it is, and why.
func TestDescribe(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.answers(func(delivery) (int, string) { return http.StatusBadGateway, "" })
		w.start(Config{StartingPosition: TrimHorizon, URL: "http://endpoint.invalid/secret"})
		w.put("a", 1)
		w.put("a", 2)
		first := time.Now()
		time.Sleep(10 * time.Second)
		d, sum := w.describe()
		if d.State != stateRetrying || d.Endpoint != "http://endpoint.invalid" || d.DeadLetters != nil || len(d.Parts) != 4 {
			t.Errorf("the trigger is %+v", d)
		}
		if sum.RecordsBehind != 2 || !sum.OldestRecordAt.Equal(first) || sum.ConsecutiveErrors < 5 || sum.LastError != "the endpoint answered 502" {
			t.Errorf("the parts have %+v", sum)
		}
		w.answers(nil)
		time.Sleep(time.Minute)
		d, sum = w.describe()
		if d.State != stateActive || sum.RecordsBehind != 0 || sum.ConsecutiveErrors != 0 || sum.RecordsDelivered != 2 || sum.LastError == "" {
			t.Errorf("the trigger is %+v, %+v", d, sum)
		}
		w.do("UpdateTable", `{"TableName": "Orders", "StreamSpecification": {"StreamEnabled": false}}`)
		if d, _ := w.describe(); d.State != stateNoStream {
			t.Errorf("the state is %s", d.State)
		}
	})
}

// Lines that are too long or not complete are not letters, and offsets count all bytes.
func TestScanLines(t *testing.T) {
	long := strings.Repeat("x", maxLetterLine)
	text := "one\n" + long + "\n" + strings.Repeat("y", 100<<10) + "\n\nlast\nopen"
	var sizes []int64
	var lines []string
	ended := false
	err := scanLines(strings.NewReader(text), func(line []byte, size int64) bool {
		sizes = append(sizes, size)
		lines = append(lines, string(line))
		return true
	}, &ended)
	if err != nil || !ended || len(lines) != 5 || lines[0] != "one" || lines[1] != "" || len(lines[2]) != 100<<10 || lines[4] != "last" || sizes[1] != maxLetterLine+1 || sizes[3] != 1 {
		t.Errorf("%d lines of sizes %v, %v, %v", len(lines), sizes, ended, err)
	}
}
