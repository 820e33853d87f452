// Package upstream asks the provider's API which files a day has.
//
// The API has two requests. GET /v1/days/DATE/files lists a day, in pages; GET
// /v1/days/DATE/files/ENTITY tells one file anew, with a URL that has not
// expired. What comes back is checked here, since it is somebody else's.
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

// File is what the API tells of a file.
type File struct {
	Entity string `json:"entity"`
	URL    string `json:"url"`    // pre-signed; expires
	Key    string `json:"key"`    // base64: the AES key, wrapped with RSA-OAEP
	IV     string `json:"iv"`     // base64
	Size   int64  `json:"size"`   // of the plain text
	SHA256 string `json:"sha256"` // hex, of the plain text
}

// Page is a part of a day's list.
type Page struct {
	Ready bool   `json:"ready"` // whether the day is complete; if not, ask later
	Files []File `json:"files"`
	Next  string `json:"next,omitempty"` // what to ask for the next page with
}

// MaxFiles is how many files of a day are taken.
const MaxFiles = 20_000

const (
	maxPage = 8 << 20 // bytes of one answer
	maxURL  = 4 << 10 // bytes of a URL
	maxKey  = 2 << 10 // bytes of a wrapped key: RSA of 8,192 bits and more
)

// ErrNotReady says that the day's files are not there yet.
var ErrNotReady = errors.New("the upstream has not published the day yet")

// ErrGone says that the upstream does not know the file.
var ErrGone = errors.New("the upstream does not have the file")

// Refusal is an answer that asking again does not mend.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

// Client asks an upstream.
type Client struct {
	URL   string       // of the API, such as https://api.example.com
	Token string       // sent as a bearer token; none if empty
	HTTP  *http.Client // has a timeout
}

// List is all files of a day as the upstream tells them, unchecked.
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
			return nil, &Refusal{fmt.Sprintf("the upstream's list of %s does not end: page %.40q leads nowhere", date, next)}
		}
		next = page.Next
	}
}

// Ask is what the upstream tells of one file now.
func (c *Client) Ask(ctx context.Context, date, entity string) (File, error) {
	var f File
	if err := c.get(ctx, "/v1/days/"+url.PathEscape(date)+"/files/"+url.PathEscape(entity), &f); err != nil {
		return File{}, fmt.Errorf("ask anew for %s of %s: %w", entity, date, err)
	}
	if f.Entity != entity {
		return File{}, &Refusal{fmt.Sprintf("asked for %s, the upstream tells of %.80q", entity, f.Entity)}
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
		return fmt.Errorf("the upstream answers %s", answer.Status)
	default:
		return &Refusal{fmt.Sprintf("the upstream answers %s: is the token right?", answer.Status)}
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxPage+1))
	if err != nil {
		return fmt.Errorf("read the upstream's answer: %w", err)
	}
	if len(body) > maxPage {
		return &Refusal{fmt.Sprintf("the upstream's answer has more than %d bytes", maxPage)}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &Refusal{fmt.Sprintf("the upstream's answer is not the JSON that is expected: %v", err)}
	}
	return nil
}

// Job is a file as a job of a batch. The error tells what of the file cannot be
// taken; it names no secrets.
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

// checkURL keeps the downloader from being sent to where it has no business: a
// file of its own, or, by an API behind TLS, a host without it.
func (c *Client) checkURL(text string) error {
	u, err := url.Parse(text)
	api, _ := url.Parse(c.URL)
	switch {
	case len(text) > maxURL:
		return fmt.Errorf("the URL has %d bytes, more than %d", len(text), maxURL)
	case err != nil || u.Host == "" || u.User != nil:
		return errors.New("the URL is none of a file on the web")
	case u.Scheme == "https", u.Scheme == "http" && api != nil && api.Scheme == "http":
		return nil
	}
	return fmt.Errorf("the URL's scheme is %.20q, not https", u.Scheme)
}
