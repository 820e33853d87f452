package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Server is a server that transcripts are run against.
type Server struct {
	Client   *http.Client
	Endpoint string

	// Sign signs a request.
	Sign func(r *http.Request, body []byte) error

	// Patience is how long a read may take to show a write, and a busy server
	// to answer. A local server needs none.
	Patience time.Duration
}

// Failure is a step whose answer differs from the reply in the transcript.
type Failure struct {
	Step *Step
	Why  string
	Got  Answer
}

// Run runs a transcript and returns the steps that failed. An error means
// that the server could not be reached.
func (s *Server) Run(ctx context.Context, t *Transcript) (failures []Failure, err error) {
	run := &run{Server: s, names: newNames(t, fmt.Sprintf("cf%08x-", rand.Uint32()))}
	defer func() { err = errors.Join(err, run.cleanUp(ctx)) }()
	for i := range t.Steps {
		step := &t.Steps[i]
		got, why, err := run.step(ctx, step)
		if err != nil {
			return failures, fmt.Errorf("%s:%d: %s: %w", t.Name, step.Line, step.Operation, err)
		}
		if why != nil {
			failures = append(failures, Failure{Step: step, Why: why.Error(), Got: got})
		}
	}
	return failures, nil
}

// run is one transcript on one server.
type run struct {
	*Server
	names *names
}

// step runs one step. why says how the answer differs.
func (r *run) step(ctx context.Context, s *Step) (got Answer, why, err error) {
	for wait, until := 50*time.Millisecond, time.Now().Add(r.Patience); ; wait *= 2 {
		got, err = r.send(ctx, s.Operation, s.Body, s.Headers)
		if err != nil {
			return got, nil, err
		}
		why = Compare(s.Want, got)
		if why == nil || !mayChange(s, got) || time.Now().Add(wait).After(until) {
			break
		}
		if err := sleep(ctx, wait); err != nil {
			return got, nil, err
		}
	}
	if got.Status == http.StatusOK {
		err = r.settle(ctx, s)
	}
	return got, why, err
}

// mayChange reports whether the same request may soon get another answer: an
// eventually consistent read, or a busy server.
func mayChange(s *Step, got Answer) bool {
	switch s.Operation {
	case "GetItem", "Query", "Scan", "BatchGetItem", "DescribeTable", "ListTables", "ListTagsOfResource":
		return true
	}
	return got.Status >= 500 || strings.Contains(got.Body, "ThrottlingException") || strings.Contains(got.Body, "LimitExceededException")
}

// send sends a request and reads the answer.
func (r *run) send(ctx context.Context, operation, body string, headers [][2]string) (Answer, error) {
	sent := []byte(r.names.out(body))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Endpoint, bytes.NewReader(sent))
	if err != nil {
		return Answer{}, err
	}
	target := operation
	if !strings.Contains(operation, ".") {
		target = "DynamoDB_20120810." + operation
	}
	req.Header.Set("X-Amz-Target", target)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if strings.HasPrefix(target, "AnyScaleFrontendService.") || strings.HasPrefix(target, "AmazonDAXV3.") {
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	}
	replace(req.Header, headers)
	if err := r.Sign(req, sent); err != nil {
		return Answer{}, err
	}
	replace(req.Header, headers) // including those of the signature
	resp, err := r.Client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, err
	}
	return Answer{Status: resp.StatusCode, Body: r.names.in(string(b))}, nil
}

// replace replaces headers.
func replace(header http.Header, with [][2]string) {
	for _, h := range with {
		header.Del(h[0])
		if h[1] != "" {
			header.Set(h[0], h[1])
		}
	}
}

// settleTime is how long a table may take to become active or to be deleted.
const settleTime = 15 * time.Minute

// settle waits for a table that the step created, changed or deleted.
func (r *run) settle(ctx context.Context, s *Step) error {
	switch s.Operation {
	case "CreateTable", "UpdateTable", "DeleteTable":
	default:
		return nil
	}
	m := created().FindStringSubmatch(s.Body)
	if m == nil {
		return nil
	}
	for wait, until := time.Millisecond, time.Now().Add(settleTime); time.Now().Before(until); wait = min(2*wait, 2*time.Second) {
		got, err := r.send(ctx, "DescribeTable", `{"TableName": "`+m[1]+`"}`, nil)
		if err != nil || settled(got) {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	return fmt.Errorf("table %s has not settled within %s", m[1], settleTime)
}

// settled reports whether a description shows that a table and its indexes
// are active, or that the table does not exist.
func settled(got Answer) bool {
	if got.Status != http.StatusOK {
		return true
	}
	for _, state := range []string{"CREATING", "UPDATING", "DELETING"} {
		if strings.Contains(got.Body, `"`+state+`"`) {
			return false
		}
	}
	return true
}

// cleanUp deletes the tables of the run.
func (r *run) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, table := range slices.Sorted(maps.Keys(r.names.tables)) {
		name := `{"TableName": "` + table + `"`
		got, err := r.send(ctx, "DeleteTable", name+`}`, nil)
		if err != nil {
			return fmt.Errorf("delete table %s: %w", table, err)
		}
		if strings.Contains(got.Body, "deletion protection") {
			_, err1 := r.send(ctx, "UpdateTable", name+`, "DeletionProtectionEnabled": false}`, nil)
			_, err2 := r.send(ctx, "DeleteTable", name+`}`, nil)
			if err := errors.Join(err1, err2); err != nil {
				return fmt.Errorf("delete table %s: %w", table, err)
			}
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
