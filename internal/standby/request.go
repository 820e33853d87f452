package standby

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Targets of the requests that a standby sends.
const (
	TargetCopy    = "Stator.Copy"
	TargetChanges = "Stator.Changes"
)

// request sends a request, and passes its reply to read. It gives up when no bytes
// arrive for a while.
func (f *Follower) request(ctx context.Context, target string, content any, read func(*messageReader) error) error {
	body, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("a request of a standby cannot be encoded as JSON: %v", err))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("the server has sent nothing for %s", stallTimeout)) })
	defer stalled.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.o.Of, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if err := f.o.Sign(r, body); err != nil {
		return err
	}
	reply, err := f.o.Client.Do(r)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(reply.Body, 1<<10))
		return fmt.Errorf("the server answers %s: %s", reply.Status, bytes.TrimSpace(text))
	}
	in := bufio.NewReaderSize(&timedReader{reply.Body, stalled}, 64<<10)
	err = read(&messageReader{in})
	if err == nil {
		err = readEnd(in) // without it, the connection is not used again
	}
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// readEnd returns an error unless a reply ends here.
func readEnd(in io.Reader) error {
	switch _, err := io.ReadFull(in, make([]byte, 1)); {
	case err == nil:
		return fmt.Errorf("%w: it has more than its last message", errIncomplete)
	case errors.Is(err, io.EOF):
		return nil
	default:
		return fmt.Errorf("%w: %w", errIncomplete, err)
	}
}

// timedReader runs a timer while it waits for bytes.
type timedReader struct {
	io.Reader
	timer *time.Timer
}

func (r *timedReader) Read(b []byte) (int, error) {
	r.timer.Reset(stallTimeout)
	defer r.timer.Stop()
	return r.Reader.Read(b)
}
