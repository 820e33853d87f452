package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	exportInterval = time.Second      // a span waits for others at most
	exportTimeout  = 10 * time.Second // of an attempt
	exportAttempts = 3
	exportBackoff  = time.Second      // before the second attempt; then twice as long each
	maxReply       = 64 << 10         // bytes
	maxRetryAfter  = 30 * time.Second // that a receiver may ask for
	idleTimeout    = 90 * time.Second // of a connection
	logInterval    = time.Minute      // between two log lines about failed exports
)

// run exports spans in batches until the tracer is closed.
func (t *Tracer) run() {
	defer close(t.ended)
	for {
		var batch []*Span
		select {
		case s := <-t.queue:
			batch = append(batch, s)
		case <-t.closing:
			t.drain()
			return
		}
		due := time.NewTimer(exportInterval)
		for waiting := true; waiting && len(batch) < maxBatch; {
			select {
			case s := <-t.queue:
				batch = append(batch, s)
			case <-due.C:
				waiting = false
			case <-t.closing:
				waiting = false
			}
		}
		due.Stop()
		t.export(batch)
	}
}

// drain exports what is queued.
func (t *Tracer) drain() {
	for {
		var batch []*Span
		for more := true; more && len(batch) < maxBatch; {
			select {
			case s := <-t.queue:
				batch = append(batch, s)
			default:
				more = false
			}
		}
		if len(batch) == 0 {
			return
		}
		t.export(batch)
	}
}

// export posts a batch. It retries if the receiver may accept it later.
func (t *Tracer) export(batch []*Span) {
	body := appendRequest(nil, t.resource, batch)
	for attempt := 1; ; attempt++ {
		rejected, err := t.post(body)
		if err == nil {
			rejected = max(0, min(rejected, int64(len(batch))))
			t.exported.Add(int64(len(batch)) - rejected)
			t.failed.Add(rejected)
			return
		}
		if attempt == exportAttempts || !isTemporary(err) || !t.pause(max(exportBackoff<<(attempt-1), retryAfter(err))) {
			t.failed.Add(int64(len(batch)))
			t.warn(err, len(batch))
			return
		}
	}
}

// pause waits before another attempt. It reports false if the tracer is closed.
func (t *Tracer) pause(d time.Duration) bool {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-t.closing:
		return false
	}
}

// warn logs that spans were dropped, but not often.
func (t *Tracer) warn(err error, spans int) {
	if now := time.Now(); t.logged.IsZero() || now.Sub(t.logged) >= logInterval {
		t.logged = now
		t.o.Log.Warn("traces could not be exported: check that the receiver runs and accepts OTLP over HTTP", "endpoint", redacted(t.o.Endpoint), "spans", spans, "error", err)
	}
}

// receiverError is a reply other than 200.
type receiverError struct {
	status int
	after  time.Duration // until it may be asked again; 0 if it does not say
}

func (e *receiverError) Error() string {
	return fmt.Sprintf("the receiver answers with status %d", e.status)
}

// retryAfter returns how long a receiver wants to be left alone.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*receiverError](err); ok {
		return e.after
	}
	return 0
}

// parseRetryAfter parses the header Retry-After: seconds or a time. It is 0 if it is neither.
func parseRetryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

// isTemporary reports whether the receiver may accept the same spans later.
func isTemporary(err error) bool {
	e, ok := errors.AsType[*receiverError](err)
	if !ok {
		return true
	}
	switch e.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// post sends a request once, and returns how many of its spans were rejected.
func (t *Tracer) post(body []byte) (rejected int64, err error) {
	r, err := http.NewRequestWithContext(t.ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	reply, err := t.client.Do(r)
	if err != nil {
		if with, ok := errors.AsType[*url.Error](err); ok {
			err = with.Err // without the URL, whose query may be secret
		}
		return 0, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	if reply.StatusCode/100 != 2 {
		return 0, &receiverError{reply.StatusCode, parseRetryAfter(reply.Header.Get("Retry-After"), time.Now())}
	}
	if err != nil {
		return 0, nil // the spans were accepted
	}
	var said struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(text, &said) != nil { // many receivers reply with nothing
		return 0, nil
	}
	rejected, _ = said.PartialSuccess.RejectedSpans.Int64()
	return rejected, nil
}
