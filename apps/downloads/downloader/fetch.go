package downloader

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/seal"
	"github.com/stator-db/stator/apps/downloads/upstream"
)

// Errors of a transfer that can be recovered from.
var (
	errUnknown = errors.New("the file's metadata must be fetched again")
	errExpired = errors.New("the URL has expired")
	errChanged = errors.New("the file changed during the transfer")
	errWrong   = errors.New("the contents differ from the upstream's list")
)

const (
	maxRenewals = 3  // renewals of the URL in one claim
	maxWrong    = 2  // complete transfers with wrong contents
	maxRequests = 60 // requests for one file in one claim
)

// download downloads a claimed file into the bucket. If it returns nil, the file is
// complete and verified; otherwise the bucket is unchanged.
func (d *Downloader) download(ctx context.Context, h *hold) error {
	if err := named(h.job); err != nil {
		return fatal{err}
	}
	if h.job.Tries > 1 {
		// Leftovers cost storage only, and a policy may forbid to list them in S3.
		if err := d.Bucket.Tidy(ctx, h.job.Object()); err != nil && ctx.Err() == nil {
			d.Log.Warn("what an earlier claim left in the bucket is not removed", "file", h.job.FileID, "error", err)
		}
	}
	t := &transfer{Downloader: d, job: h.job, received: &h.received}
	defer func() {
		t.object.Abort()
		h.job.Events = t.events.String()
	}()
	if len(h.job.SHA256) > 0 {
		if err := t.begin(ctx); err != nil {
			return err
		}
	}
	if err := t.all(ctx); err != nil {
		return err
	}
	// The claim must still hold. It is released after a whole lease without a
	// heartbeat, so one that was confirmed within a third of it does.
	if err := h.beat(ctx, d.Jobs, d.Lease/3); err != nil {
		return err
	}
	return t.object.Commit()
}

// transfer is a download in progress.
type transfer struct {
	*Downloader
	job    *ledger.Job
	key    []byte
	stream cipher.Stream
	object *Object
	sum    hash.Hash
	offset int64  // bytes written to the object
	etag   string // ETag of the file that they are from

	received *atomic.Int64 // the offset, for others
	events   events
}

// events are what went wrong during a transfer that was recovered from.
type events struct{ interrupted, renewed, wrong int }

func (e *events) String() string {
	var all []string
	for _, x := range []struct {
		n    int
		what string
	}{{e.interrupted, "interrupted"}, {e.renewed, "URL renewed"}, {e.wrong, "wrong contents"}} {
		switch {
		case x.n == 1:
			all = append(all, x.what)
		case x.n > 1:
			all = append(all, fmt.Sprintf("%s %d times", x.what, x.n))
		}
	}
	return strings.Join(all, ", ")
}

// begin starts at the first byte.
func (t *transfer) begin(ctx context.Context) error {
	if err := t.sane(t.job); err != nil {
		return fatal{err}
	}
	key, err := seal.Unwrap(t.Key, t.job.EncryptedAESKey)
	if err != nil {
		return fatal{err}
	}
	stream, err := seal.Stream(key, t.job.EncodedAESIV)
	if err != nil {
		return fatal{err}
	}
	t.object.Abort()
	object, err := t.Bucket.Create(ctx, t.job.Object())
	if err != nil {
		return err
	}
	t.key, t.stream, t.object, t.sum, t.offset, t.etag = key, stream, object, sha256.New(), 0, ""
	return nil
}

// all sends requests until the file is complete and verified.
func (t *transfer) all(ctx context.Context) error {
	var idle, renewals, wrong int
	var farthest int64
	for request := 1; ; request++ {
		err := errUnknown
		if t.object != nil {
			err = t.some(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if t.offset > farthest {
			farthest, idle = t.offset, 0
		}
		var refusal fatal
		switch {
		case errors.As(err, &refusal):
			return err
		case errors.Is(err, errExpired), errors.Is(err, errUnknown):
			if renewals == maxRenewals {
				return fmt.Errorf("%w, although it was renewed %d times", err, maxRenewals)
			}
			if err = t.renew(ctx); err == nil {
				renewals++
				t.events.renewed++
				continue
			}
			if errors.Is(err, upstream.ErrGone) || errors.Is(err, ledger.ErrLost) || errors.As(err, &refusal) {
				return err
			}
		case errors.Is(err, errWrong), errors.Is(err, errChanged):
			t.events.wrong++
			if wrong++; wrong > maxWrong {
				return err
			}
			if err := t.begin(ctx); err != nil {
				return err
			}
		default:
			t.events.interrupted++
		}
		if t.object != nil && t.object.broken {
			if err := t.begin(ctx); err != nil {
				return err
			}
		}
		if idle++; idle >= t.Attempts || request >= maxRequests {
			return fmt.Errorf("given up after %d requests: %w", request, err)
		}
		t.Log.Debug("a transfer is interrupted", "file", t.job.FileID, "at", t.offset, "error", err)
		wait := min(t.Backoff<<min(idle-1, 10), 30*time.Second)
		if err := pause(ctx, wait/2+rand.N(wait/2+1)); err != nil {
			return err
		}
	}
}

// renew gets a new URL from the upstream. The bytes received so far are kept if
// they belong to the same file with the same encryption.
func (t *transfer) renew(ctx context.Context) error {
	f, err := t.Upstream.Ask(ctx, t.job.DownloadDate, t.job.Entity)
	if err != nil {
		return err
	}
	fresh, err := t.Upstream.Job(f, t.job.BatchID, t.job.DownloadDate)
	if err != nil {
		return fatal{err}
	}
	same := fresh.EncodedAESIV == t.job.EncodedAESIV && fresh.Size == t.job.Size && bytes.Equal(fresh.SHA256, t.job.SHA256)
	if err := t.Jobs.Renew(ctx, t.job, fresh); err != nil {
		return err
	}
	t.Meter.Recovered("renewed")
	key, err := seal.Unwrap(t.Key, t.job.EncryptedAESKey)
	if err != nil {
		return fatal{err}
	}
	if t.object != nil && same && bytes.Equal(key, t.key) {
		return nil
	}
	return t.begin(ctx)
}

// some sends one request for the missing bytes, and writes what it receives. It
// returns nil when the file is complete and verified.
func (t *transfer) some(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.job.PresignedURL, nil)
	if err != nil {
		return fatal{errors.New("the URL is invalid")}
	}
	if t.offset > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", t.offset))
		if t.etag != "" {
			r.Header.Set("If-Range", t.etag)
		}
		t.Meter.Recovered("resumed")
	}
	answer, err := t.HTTP.Do(r)
	if err != nil {
		return plain(err)
	}
	defer answer.Body.Close()
	if err := t.place(ctx, answer); err != nil {
		return err
	}
	if n := answer.ContentLength; n >= 0 && t.offset+n > t.job.Size {
		return fmt.Errorf("%w: the reply has %d bytes, %d were listed", errWrong, t.offset+n, t.job.Size)
	}
	if err := t.take(&watched{Reader: answer.Body, stall: t.Stall, cancel: cancel}); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			return cause
		}
		return plain(err)
	}
	if !bytes.Equal(t.sum.Sum(nil), t.job.SHA256) {
		return fmt.Errorf("%w: the SHA-256 of %d bytes differs", errWrong, t.offset)
	}
	return nil
}

// place makes sure that the reply's body continues where the object ends.
func (t *transfer) place(ctx context.Context, answer *http.Response) error {
	etag := answer.Header.Get("ETag")
	if strings.HasPrefix(etag, "W/") {
		etag = "" // a weak ETag does not identify the bytes
	}
	switch s := answer.StatusCode; {
	case s == http.StatusOK && t.offset == 0:
	case s == http.StatusOK && etag == t.etag: // the server ignores Range
		if _, err := io.CopyN(io.Discard, answer.Body, t.offset); err != nil {
			return plain(err)
		}
		answer.ContentLength = -1
	case s == http.StatusOK:
		if err := t.begin(ctx); err != nil {
			return err
		}
	case s == http.StatusPartialContent:
		from, _, _ := strings.Cut(strings.TrimPrefix(answer.Header.Get("Content-Range"), "bytes "), "-")
		if n, err := strconv.ParseInt(from, 10, 64); err != nil || n != t.offset {
			return fmt.Errorf("%w: asked for bytes from %d, got %.60q", errChanged, t.offset, answer.Header.Get("Content-Range"))
		}
	case s == http.StatusUnauthorized, s == http.StatusForbidden, s == http.StatusNotFound, s == http.StatusGone:
		return fmt.Errorf("%w: the reply is %s", errExpired, answer.Status)
	case s == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%w: there are no bytes from %d on", errChanged, t.offset)
	default:
		return fmt.Errorf("the reply is %s", answer.Status)
	}
	t.etag = etag
	return nil
}

// take decrypts the body into the object. If it has fewer bytes than listed, the
// rest is requested again; more bytes are an error.
func (t *transfer) take(from io.Reader) error {
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if t.offset+int64(n) > t.job.Size {
			return fmt.Errorf("%w: more than the %d bytes that were listed", errWrong, t.job.Size)
		}
		t.stream.XORKeyStream(piece[:n], piece[:n])
		t.sum.Write(piece[:n])
		if _, err := t.object.Write(piece[:n]); err != nil {
			return err
		}
		t.offset += int64(n)
		t.received.Store(t.offset)
		switch {
		case errors.Is(err, io.EOF) && t.offset == t.job.Size:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the file ends after %d of %d bytes", t.offset, t.job.Size)
		case err != nil:
			return err
		}
	}
}

var errStalled = errors.New("the transfer has stalled")

// watched cancels a request whose body receives nothing for too long.
type watched struct {
	io.Reader
	stall  time.Duration
	cancel context.CancelCauseFunc
}

func (w *watched) Read(b []byte) (int, error) {
	t := time.AfterFunc(w.stall, func() { w.cancel(errStalled) })
	defer t.Stop()
	return w.Reader.Read(b)
}

// plain removes the URL from an error: it gives access to the file.
func plain(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		return withURL.Err
	}
	return err
}
