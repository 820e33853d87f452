// Package stand is an upstream for tests and the demo: it lists files for a day and
// serves them encrypted, and misbehaves on request.
package stand

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/seal"
	"github.com/stator-db/stator/apps/downloads/upstream"
	"github.com/stator-db/stator/apps/internal/web"
)

// Options configure an upstream.
type Options struct {
	Key    *rsa.PublicKey // the key for which files are encrypted
	Seed   string         // the same seed gives the same files
	Files  int            // files of each day that Day does not set
	Size   int            // approximate size of a file, in bytes
	Expiry time.Duration  // lifetime of URLs; defaults to 30 min
	Page   int            // files per page; defaults to 500
	Pause  time.Duration  // between the pieces of a slow file
	Pace   time.Duration  // how long each file takes at least; defaults to no limit
	Hold   chan struct{}  // if not nil, no file is served until it is closed
	Now    func() time.Time
}

// credential makes URLs as long as those of S3 with a session's credentials.
const credential = "&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20260228%2Feu-central-1%2Fs3%2Faws4_request&X-Amz-SignedHeaders=host&x-id=GetObject&versionId=3HL4kqtJvjV"

// Stand is an upstream. It implements http.Handler.
type Stand struct {
	Options
	mux http.ServeMux

	mutex  sync.Mutex
	days   map[string]day
	faults map[string]*fault // by entity, or by the date of a list
	active map[string]int    // downloads in progress, by file id
	served map[string]Served
}

type day struct {
	files int
	extra []upstream.File
}

// Served counts the requests of clients for one file.
type Served struct {
	Starts  int // requests for its first byte
	Resumes int // requests for a later byte
	AtOnce  int // maximum of concurrent requests
}

// New returns an upstream.
func New(o Options) *Stand {
	if o.Expiry == 0 {
		o.Expiry = 30 * time.Minute
	}
	if o.Page == 0 {
		o.Page = 500
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Stand{Options: o, days: map[string]day{}, faults: map[string]*fault{}, active: map[string]int{}, served: map[string]Served{}}
	s.mux.HandleFunc("GET /v1/days/{date}/files", s.list)
	s.mux.HandleFunc("GET /v1/days/{date}/files/{entity}", s.describe)
	s.mux.HandleFunc("GET /files/{date}/{entity}", s.serve)
	s.mux.HandleFunc("PUT /control/days/{date}", s.controlDay)
	s.mux.HandleFunc("PUT /control/faults/{name}", s.controlFault)
	return s
}

func (s *Stand) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Day sets how many files a day has, and additional entries of its list.
func (s *Stand) Day(date string, files int, extra ...upstream.File) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.days[date] = day{files, extra}
}

// Counts returns the counts of a file.
func (s *Stand) Counts(id string) Served {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.served[id]
}

var entities = []string{"accounts", "balances", "cards", "customers", "fees", "holdings", "loans", "payments", "positions", "transactions"}

// Entity returns the name of a day's n-th file, counted from 0.
func Entity(n int) string {
	if n < len(entities) {
		return entities[n]
	}
	return fmt.Sprintf("%s-%04d", entities[n%len(entities)], n)
}

func (s *Stand) hash(parts ...string) []byte {
	h := sha256.New()
	for _, p := range append([]string{s.Seed}, parts...) {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return h.Sum(nil)
}

// Plain returns the plain text of the file of an entity and a day.
func (s *Stand) Plain(date, entity string) []byte {
	sum := s.hash("text", date, entity)
	text := make([]byte, s.Size/2+int(sum[0])*s.Size/256)
	keystream(sum, sum[:16]).XORKeyStream(text, text)
	return text
}

func keystream(key, iv []byte) cipher.Stream {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(fmt.Sprintf("a hash is not a key: %v", err))
	}
	return cipher.NewCTR(block, iv)
}

func (s *Stand) key(date, entity string) (key, iv []byte) {
	return s.hash("key", date, entity), s.hash("iv", date, entity)[:aes.BlockSize]
}

func (s *Stand) list(w http.ResponseWriter, r *http.Request) {
	date := r.PathValue("date")
	if ledger.CheckDate(date) != nil {
		http.NotFound(w, r)
		return
	}
	switch s.take(date, "") {
	case "notready":
		web.Write(w, http.StatusOK, upstream.Page{})
		return
	case "badjson":
		w.Write([]byte(`{"ready": true, "files": [{"entity":`))
		return
	case "unavailable":
		http.Error(w, "try later", http.StatusServiceUnavailable)
		return
	}
	s.mutex.Lock()
	d, ok := s.days[date]
	s.mutex.Unlock()
	if !ok {
		d.files = s.Files
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("page"))
	page := upstream.Page{Ready: true, Files: []upstream.File{}}
	for n := from; n < d.files && n < from+s.Page; n++ {
		f, err := s.file(r, date, Entity(n))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		page.Files = append(page.Files, f)
	}
	if from+s.Page < d.files {
		page.Next = strconv.Itoa(from + s.Page)
	} else {
		page.Files = append(page.Files, d.extra...)
	}
	web.Write(w, http.StatusOK, page)
}

func (s *Stand) describe(w http.ResponseWriter, r *http.Request) {
	f, err := s.file(r, r.PathValue("date"), r.PathValue("entity"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	web.Write(w, http.StatusOK, f)
}

// file returns the API's current description of a file.
func (s *Stand) file(r *http.Request, date, entity string) (upstream.File, error) {
	key, iv := s.key(date, entity)
	text := sha256.Sum256(s.Plain(date, entity))
	f := upstream.File{
		Entity: entity,
		IV:     base64.StdEncoding.EncodeToString(iv),
		Size:   int64(len(s.Plain(date, entity))),
		SHA256: hex.EncodeToString(text[:]),
	}
	expires := strconv.FormatInt(s.Now().Add(s.Expiry).UnixMilli(), 10)
	f.URL = fmt.Sprintf("http://%s/files/%s/%s?expires=%s&signature=%s%s", r.Host, date, entity, expires, s.sign(date, entity, expires), credential)
	switch s.take(entity, onList) {
	case "forgedkey":
		f.Key = base64.StdEncoding.EncodeToString(s.hash("forged", entity))
		return f, nil
	case "forgedsum":
		f.SHA256 = hex.EncodeToString(s.hash("forged", entity))
	}
	wrapped, err := seal.Wrap(s.Key, key)
	f.Key = wrapped
	return f, err
}

func (s *Stand) sign(date, entity, expires string) string {
	mac := hmac.New(sha256.New, s.hash("signing key"))
	fmt.Fprintf(mac, "%s/%s/%s", date, entity, expires)
	return hex.EncodeToString(mac.Sum(nil))
}

// serve serves a pre-signed URL.
func (s *Stand) serve(w http.ResponseWriter, r *http.Request) {
	date, entity := r.PathValue("date"), r.PathValue("entity")
	expires := r.URL.Query().Get("expires")
	at, _ := strconv.ParseInt(expires, 10, 64)
	if !hmac.Equal([]byte(r.URL.Query().Get("signature")), []byte(s.sign(date, entity, expires))) || s.Now().UnixMilli() >= at {
		http.Error(w, "Request has expired", http.StatusForbidden)
		return
	}
	defer s.count(ledger.FileID(entity, date), r.Header.Get("Range"))()
	if s.Hold != nil {
		select {
		case <-s.Hold:
		case <-r.Context().Done():
			return
		}
	}
	key, iv := s.key(date, entity)
	body := s.Plain(date, entity)
	keystream(key, iv).XORKeyStream(body, body)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+hex.EncodeToString(iv)+`"`)
	s.misbehave(w, r, s.take(entity, onFile), body)
}

func (s *Stand) count(id, from string) (done func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.active[id]++
	c := s.served[id]
	if from == "" || from == "bytes=0-" {
		c.Starts++
	} else {
		c.Resumes++
	}
	c.AtOnce = max(c.AtOnce, s.active[id])
	s.served[id] = c
	return func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.active[id]--
	}
}
