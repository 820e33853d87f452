package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/stator-db/stator/internal/data/keyspace"
)

// newClient makes the client of a trigger. It follows no redirects: the
// operator has said where records go.
func newClient(transport http.RoundTripper, c *Config) *http.Client {
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost = keyspace.Slots * c.Parallelism
		transport = own
	}
	return &http.Client{
		Transport:     transport,
		Timeout:       c.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// maxReply is how much of a reply is read.
const maxReply = 1 << 20

// post sends a batch and tells how many records, from the first on, were
// taken. If not all were, the error says why; it holds no secret.
func (t *trigger) post(ctx context.Context, batch []*pendingRecord) (taken int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(payload(batch)))
	if err != nil {
		return 0, withoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "stator")
	for name, value := range t.Headers {
		req.Header.Set(name, value)
	}
	res, err := t.client.Do(req)
	if err != nil {
		return 0, withoutURL(err)
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	switch {
	case res.StatusCode < 200 || res.StatusCode > 299:
		return 0, fmt.Errorf("the endpoint answered %d", res.StatusCode)
	case !t.ReportItemFailures:
		return len(batch), nil
	case err != nil:
		return 0, fmt.Errorf("the reply ended early: %w", withoutURL(err))
	}
	return takenOf(batch, reply)
}

// withoutURL is a network's error without the URL, which may hold a secret.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// takenOf reads which records failed: the first of them and all behind it come
// again. A reply that names a record which is not in the batch fails it whole.
func takenOf(batch []*pendingRecord, reply []byte) (int, error) {
	var told struct {
		Failures []struct {
			ID string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	if len(bytes.TrimSpace(reply)) == 0 {
		return len(batch), nil
	}
	if err := json.Unmarshal(reply, &told); err != nil {
		return 0, errors.New("the reply is no list of batchItemFailures")
	}
	indexes := make(map[string]int, len(batch))
	for i, r := range batch {
		indexes[r.at.Sequence()] = i
	}
	taken := len(batch)
	for _, f := range told.Failures {
		i, ok := indexes[f.ID]
		if !ok {
			return 0, errors.New("the reply names a record that is not in the batch")
		}
		taken = min(taken, i)
	}
	if taken < len(batch) {
		return taken, fmt.Errorf("the endpoint reported %d records", len(told.Failures))
	}
	return taken, nil
}
