package migrate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/virtualtime"
)

// Throttled requests are repeated until they succeed, others for a limited time.
func TestClientRepeats(t *testing.T) {
	throttled := &apierror.Error{Code: "ProvisionedThroughputExceededException", Status: 400}
	conflict := &apierror.Error{Code: "TransactionConflictException", Status: 400}
	limit := &apierror.Error{Code: "LimitExceededException", Status: 400}
	lost := errors.New("no reply")
	for _, c := range []struct {
		name      string
		failure   error
		lasts     time.Duration
		operation string
		control   bool // it is sent for package apply
		succeeds  bool
	}{
		{"throttled for an hour", throttled, time.Hour, "PutItem", false, true},
		{"a change of a table that is throttled", throttled, time.Hour, "UpdateTable", true, true},
		{"too many requests of streams", limit, time.Hour, "DescribeStream", false, true},
		{"too many tables", limit, time.Hour, "CreateTable", false, false},
		{"no reply for a while", lost, 30 * time.Second, "PutItem", false, true},
		{"no reply for long", lost, time.Hour, "PutItem", false, false},
		{"a transaction of the application", conflict, 30 * time.Second, "UpdateItem", false, true},
		{"a description without reply", lost, 30 * time.Second, "DescribeTable", true, true},
		{"a change of a table without reply", lost, time.Second, "CreateTable", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				began := time.Now()
				send := func(context.Context, string, any) ([]byte, error) {
					if time.Since(began) < c.lasts {
						return nil, c.failure
					}
					return []byte("{}"), nil
				}
				client := &endpointClient{retry: time.Minute, tables: send, streams: send}
				var err error
				var ignored any
				switch {
				case c.control:
					_, err = client.send(t.Context(), c.operation, nil)
				case c.operation == "DescribeStream":
					err = client.askStreams(t.Context(), c.operation, nil, &ignored)
				default:
					err = client.ask(t.Context(), c.operation, nil, &ignored)
				}
				if (err == nil) != c.succeeds {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
			})
		})
	}
}

// A write that was sent ends when the lease does, and not when the process is stopped.
func TestClientFinishesWrites(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause error
		takes time.Duration
	}{
		{"stopped", context.Canceled, 5 * time.Second},
		{"without a lease", fmt.Errorf("%w: no reply", errLost), time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				client := &endpointClient{retry: time.Minute, tables: func(ctx context.Context, _ string, _ any) ([]byte, error) {
					select {
					case <-time.After(5 * time.Second):
						return []byte("{}"), nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}}
				ctx, cancel := context.WithCancelCause(t.Context())
				began := time.Now()
				time.AfterFunc(time.Second, func() { cancel(c.cause) })
				reply, err := client.write(ctx, "PutItem", make(map[string]any), expression{})
				if took := time.Since(began); took != c.takes || (err == nil) != errors.Is(c.cause, context.Canceled) || reply.doubtful != (err != nil) {
					t.Errorf("after %s: %+v, %v", took, reply, err)
				}
			})
		})
	}
}

// Requests at the end of a process, which nothing cancels, do not go on for ever.
func TestClientEndsWithoutCancel(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		client := &endpointClient{retry: time.Minute, tables: func(context.Context, string, any) ([]byte, error) {
			return nil, &apierror.Error{Code: "ThrottlingException", Status: 400}
		}}
		var ignored any
		if err := client.ask(context.WithoutCancel(t.Context()), "UpdateItem", nil, &ignored); !isThrottled(err) {
			t.Error(err)
		}
	})
}
