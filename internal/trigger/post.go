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

// newClient returns the client of a trigger. It does not follow redirects: records
// go only to the URL that the operator has configured.
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

// maxReply is how many bytes of a reply are read.
const maxReply = 1 << 20

// post sends a batch and returns how many records, from the first on, were
// accepted. If not all were, the error gives the reason; it contains no secrets.
func (t *trigger) post(ctx context.Context, batch []*pendingRecord) (accepted int, err error) {
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
	return acceptedOf(batch, reply)
}

// withoutURL is a network error without the URL, which may contain a secret.
func withoutURL(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		return withURL.Err
	}
	return err
}

// acceptedOf decodes which records failed: the first of them and all later ones are
// sent again. A reply that names a record which is not in the batch fails the whole
// batch.
func acceptedOf(batch []*pendingRecord, reply []byte) (int, error) {
	var report struct {
		Failures []struct {
			ID string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	if len(bytes.TrimSpace(reply)) == 0 {
		return len(batch), nil
	}
	if err := json.Unmarshal(reply, &report); err != nil {
		return 0, errors.New("the reply is not a list of batchItemFailures")
	}
	indexes := make(map[string]int, len(batch))
	for i, r := range batch {
		indexes[r.at.Sequence()] = i
	}
	accepted := len(batch)
	for _, f := range report.Failures {
		i, ok := indexes[f.ID]
		if !ok {
			return 0, errors.New("the reply names a record that is not in the batch")
		}
		accepted = min(accepted, i)
	}
	if accepted < len(batch) {
		return accepted, fmt.Errorf("the endpoint reported %d failed records", len(report.Failures))
	}
	return accepted, nil
}
