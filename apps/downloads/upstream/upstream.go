// Package upstream is the client of the provider's API, which lists the files of a
// day.
//
// The API has two requests. GET /v1/days/DATE/files lists a day, in pages; GET
// /v1/days/DATE/files/ENTITY describes one file again, with a URL that has not
// expired. Replies are validated here, since they are not trusted.
package upstream

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
)

// File is the API's description of a file.
type File struct {
	Entity string `json:"entity"`
	URL    string `json:"url"`    // pre-signed; expires
	Key    string `json:"key"`    // base64: the AES key, wrapped with RSA-OAEP
	IV     string `json:"iv"`     // base64
	Size   int64  `json:"size"`   // of the plain text
	SHA256 string `json:"sha256"` // hex, of the plain text
}

// Page is a page of a day's list.
type Page struct {
	Ready bool   `json:"ready"` // whether the day is complete; if not, retry later
	Files []File `json:"files"`
	Next  string `json:"next,omitempty"` // parameter of the next page
}

// MaxFiles is the maximum number of files of a day.
const MaxFiles = 20_000

const (
	maxPage = 8 << 20 // bytes of one reply
	maxURL  = 4 << 10 // bytes of a URL
	maxKey  = 2 << 10 // bytes of a wrapped key: RSA of 8,192 bits and more
)

// ErrNotReady is returned when the day's files have not been published yet.
var ErrNotReady = errors.New("the upstream has not published the day yet")

// ErrGone is returned when the upstream does not have the file.
var ErrGone = errors.New("the upstream does not have the file")

// Refusal is an error that a retry does not fix.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

// Client sends requests to an upstream.
type Client struct {
	URL   string       // of the API, such as https://api.example.com
	Token string       // sent as a bearer token; none if empty
	HTTP  *http.Client // has a timeout
}

// List returns all files of a day as listed by the upstream, not validated.
func (c *Client) List(ctx context.Context, date string) ([]File, error) {
	var files []File
	for next := ""; ; {
		var page Page
		path := "/v1/days/" + url.PathEscape(date) + "/files"
		if next != "" {
			path += "?page=" + url.QueryEscape(next)
		}
		if err := c.get(ctx, path, &page); err != nil {
			if errors.Is(err, ErrGone) {
				err = ErrNotReady
			}
			return nil, fmt.Errorf("list the files of %s: %w", date, err)
		}
		if !page.Ready {
			return nil, fmt.Errorf("list the files of %s: %w", date, ErrNotReady)
		}
		if files = append(files, page.Files...); len(files) > MaxFiles {
			return nil, &Refusal{fmt.Sprintf("the upstream lists more than %d files for %s", MaxFiles, date)}
		}
		if page.Next == "" {
			return files, nil
		}
		if page.Next == next || len(page.Files) == 0 {
			return nil, &Refusal{fmt.Sprintf("the upstream's list of %s does not end at page %.40q", date, next)}
		}
		next = page.Next
	}
}

// Ask returns the upstream's current description of one file.
func (c *Client) Ask(ctx context.Context, date, entity string) (File, error) {
	var f File
	if err := c.get(ctx, "/v1/days/"+url.PathEscape(date)+"/files/"+url.PathEscape(entity), &f); err != nil {
		return File{}, fmt.Errorf("get %s of %s again: %w", entity, date, err)
	}
	if f.Entity != entity {
		return File{}, &Refusal{fmt.Sprintf("the upstream was asked for %s and returns %.80q", entity, f.Entity)}
	}
	return f, nil
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return err
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch s := answer.StatusCode; {
	case s == http.StatusOK:
	case s == http.StatusNotFound:
		return ErrGone
	case s >= 500 || s == http.StatusTooManyRequests || s == http.StatusRequestTimeout || s == http.StatusTooEarly:
		return fmt.Errorf("the upstream replies %s", answer.Status)
	default:
		return &Refusal{fmt.Sprintf("the upstream replies %s: is the token right?", answer.Status)}
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxPage+1))
	if err != nil {
		return fmt.Errorf("read the upstream's reply: %w", err)
	}
	if len(body) > maxPage {
		return &Refusal{fmt.Sprintf("the upstream's reply has more than %d bytes", maxPage)}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &Refusal{fmt.Sprintf("the upstream's reply is not the expected JSON: %v", err)}
	}
	return nil
}

// Job returns a file as a job of a batch. The error says what is invalid; it
// discloses no secrets.
func (c *Client) Job(f File, batch, date string) (ledger.Job, error) {
	if err := ledger.CheckEntity(f.Entity); err != nil {
		return ledger.Job{}, err
	}
	sum, err := hex.DecodeString(f.SHA256)
	switch {
	case err != nil || len(sum) != 32:
		return ledger.Job{}, fmt.Errorf("%s: the SHA-256 %.80q is not 64 hex digits", f.Entity, f.SHA256)
	case f.Size < 0:
		return ledger.Job{}, fmt.Errorf("%s: the size is %d", f.Entity, f.Size)
	case len(f.Key) > maxKey:
		return ledger.Job{}, fmt.Errorf("%s: the wrapped key has %d bytes, more than %d", f.Entity, len(f.Key), maxKey)
	}
	if raw, err := base64.StdEncoding.DecodeString(f.IV); err != nil || len(raw) != 16 {
		return ledger.Job{}, fmt.Errorf("%s: the IV is not 16 bytes in base64", f.Entity)
	}
	if err := c.checkURL(f.URL); err != nil {
		return ledger.Job{}, fmt.Errorf("%s: %w", f.Entity, err)
	}
	return ledger.Job{
		FileID: ledger.FileID(f.Entity, date), BatchID: batch, Entity: f.Entity, DownloadDate: date,
		PresignedURL: f.URL, EncryptedAESKey: f.Key, EncodedAESIV: f.IV, Size: f.Size, SHA256: sum,
	}, nil
}

// checkURL rejects URLs that the downloader must not use: local files, and, if the
// API uses TLS, hosts without it.
func (c *Client) checkURL(text string) error {
	u, err := url.Parse(text)
	api, _ := url.Parse(c.URL)
	switch {
	case len(text) > maxURL:
		return fmt.Errorf("the URL has %d bytes, more than %d", len(text), maxURL)
	case err != nil || u.Host == "" || u.User != nil:
		return errors.New("the URL is not an HTTP URL of a file")
	case u.Scheme == "https", u.Scheme == "http" && api != nil && api.Scheme == "http":
		return nil
	}
	return fmt.Errorf("the URL's scheme is %.20q, not https", u.Scheme)
}
