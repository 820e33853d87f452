package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/verify"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/standby"
)

// The X-Amz-Target of requests that DynamoDB does not have. They are
// authenticated like any other, and answered with a stream.
const (
	TargetBackup = "Stator.Backup" // a consistent backup of all tables
	TargetVerify = "Stator.Verify" // a verification of all stored data
)

// EncryptionKeyHeader is the header of a backup with the id of the key that the server encrypts its data
// with. The backup itself is not encrypted: that is left to the client.
const EncryptionKeyHeader = "X-Stator-Encryption-Key"

// EncryptedWith sets the id of the key that data is encrypted with. It is called before the first request.
func (h *Handler) EncryptedWith(key string) { h.encryptionKey = key }

func isStreamed(target []byte) bool {
	switch string(target) {
	case TargetBackup, TargetVerify, standby.TargetCopy, standby.TargetChanges:
		return true
	}
	return false
}

// answerStreamed prepares the stream that answers a request.
func (h *Handler) answerStreamed(ctx context.Context, target string, body []byte, a *door.Reply) error {
	var write func(w io.Writer) error
	contentType := "application/octet-stream"
	switch target {
	case standby.TargetCopy:
		if err := h.sending.Acquire(ctx, 0, 0); err != nil {
			return err
		}
		request := bytes.Clone(body)
		write = func(w io.Writer) error {
			defer h.sending.Release()
			return h.service.CopyForStandby(ctx, request, w)
		}
	case standby.TargetChanges:
		if err := h.following.Acquire(ctx, 0, 0); err != nil {
			return err
		}
		request := bytes.Clone(body)
		write = func(w io.Writer) error {
			defer h.following.Release()
			return h.service.ChangesForStandby(ctx, request, w)
		}
	case TargetVerify:
		request, err := readVerifyRequest(body)
		if err != nil {
			return err
		}
		if h.verifying.Load() {
			return apierror.LimitExceeded("A verification is in progress. Wait until it is complete")
		}
		write = func(w io.Writer) error { return h.verify(ctx, request.Rate, w) }
		contentType = "application/x-ndjson"
	default:
		if err := h.sending.Acquire(ctx, 0, 0); err != nil {
			return err
		}
		write = func(w io.Writer) error {
			defer h.sending.Release()
			return h.service.WriteAll(ctx, w)
		}
		if h.encryptionKey != "" {
			a.More = append(a.More, [2]string{EncryptionKeyHeader, h.encryptionKey})
		}
	}
	a.Status, a.ContentType = http.StatusOK, contentType
	a.Stream = func(w io.Writer) error { return withoutPanic(w, write) }
	return nil
}

// withoutPanic returns a panic of write as an error, so that the client does not
// take the incomplete stream for the whole.
func withoutPanic(w io.Writer, write func(io.Writer) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return write(w)
}

// VerifyRequest is the body of a request for a verification.
type VerifyRequest struct {
	Rate int `json:"rate"` // keys a second; defaults to DefaultVerifyRate
}

// DefaultVerifyRate is the rate of a verification that does not name one: it
// takes about a quarter of a processor.
const DefaultVerifyRate = 20_000

// maxVerifyRate is a rate that no machine reaches.
const maxVerifyRate = 1_000_000_000

func readVerifyRequest(body []byte) (VerifyRequest, error) {
	r := VerifyRequest{Rate: DefaultVerifyRate}
	if len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal(body, &r); err != nil {
			return r, apierror.Validation("The body of a verification must be {\"rate\": keys per second}")
		}
	}
	if r.Rate < 1 || r.Rate > maxVerifyRate {
		return r, apierror.Validation("The rate of a verification must be from 1 to %d", maxVerifyRate)
	}
	return r, nil
}

// VerifyLine is one line of the reply to a request for a verification: progress,
// or, last, the reports.
type VerifyLine struct {
	Table   string          `json:"table,omitempty"`
	Keys    int64           `json:"keys,omitempty"`
	Reports []verify.Report `json:"reports,omitempty"`
}

// progressInterval is the time between two lines of progress.
const progressInterval = time.Second

// verify verifies all stored data, and writes its progress and the reports.
func (h *Handler) verify(ctx context.Context, rate int, w io.Writer) error {
	if !h.verifying.CompareAndSwap(false, true) {
		return fmt.Errorf("another verification has begun")
	}
	defer h.verifying.Store(false)
	lines := json.NewEncoder(w)
	written := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reports, err := h.service.Verify(ctx, rate, func(table string, keys int64) {
		if time.Since(written) < progressInterval {
			return
		}
		written = time.Now()
		err := lines.Encode(VerifyLine{Table: table, Keys: keys})
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		if err != nil {
			cancel(err)
		}
	})
	if err != nil {
		return err
	}
	return lines.Encode(VerifyLine{Reports: reports})
}
