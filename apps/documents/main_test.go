package documents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/ingest"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/hometest"
)

var perTenant = flag.Int("documents", 100, "documents per tenant in TestCrashes")

func TestMain(m *testing.M) {
	extract.ChildMain()
	childMain()
	flag.Parse()
	os.Exit(m.Run())
}

// clock is a clock that a test sets.
type clock struct{ passed atomic.Int64 }

func (c *clock) Now() time.Time {
	return time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC).Add(time.Duration(c.passed.Load()))
}
func (c *clock) Pass(d time.Duration) { c.passed.Add(int64(d)) }

// system is a whole service in a test, without background work.
type system struct {
	*System
	t   *testing.T
	url string
}

func start(t *testing.T, change func(*Options)) *system {
	t.Helper()
	o := Defaults()
	if testing.Verbose() {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if change != nil {
		change(&o)
	}
	hometest.Guard(t, &o.Home)
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		server.Close()
		hometest.NoScan(t, s.Home.Stator.Client(), "http://stator.invalid")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &system{s, t, server.URL}
}

// passes does all work that is due.
func (s *system) passes() {
	s.t.Helper()
	if err := s.Ingest.Pass(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	for {
		n, err := s.Runner.Pass(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// client sends requests with a session.
type client struct {
	s       *system
	session string
	tenant  string
}

// request sends one and returns status and body.
func (c *client) request(method, path string, body any) (int, string) {
	c.s.t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	case []byte:
		in = bytes.NewReader(b)
	default:
		text, err := json.Marshal(body)
		if err != nil {
			c.s.t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	kind := ""
	if text, ok := body.(string); ok && !strings.HasPrefix(text, "{") {
		kind = "application/x-www-form-urlencoded"
	}
	return c.send(method, path, kind, in)
}

func (c *client) send(method, path, kind string, in io.Reader) (int, string) {
	c.s.t.Helper()
	ctx, cancel := context.WithTimeout(c.s.t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.s.url+path, in)
	if err != nil {
		c.s.t.Fatal(err)
	}
	if c.session != "" {
		r.Header.Set("Authorization", "Bearer "+c.session)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	answer, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		c.s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	if answer.Header.Get("Content-Type") == "text/event-stream" {
		return answer.StatusCode, ""
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.s.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// must sends a request that must succeed, and decodes the reply.
func must[T any](c *client, method, path string, body any) T {
	c.s.t.Helper()
	var into T
	status, text := c.request(method, path, body)
	if status >= 300 {
		c.s.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &into); err != nil {
			c.s.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return into
}

type object map[string]any

func (o object) str(name string) string { return fmt.Sprint(o[name]) }

// newTenant creates a tenant with a project and a workflow for invoices.
func (s *system) newTenant(name, email string) (c *client, project, workflow string) {
	s.t.Helper()
	c = &client{s: s}
	t := must[object](c, "POST", "/v1/tenants", object{"name": name, "email": email, "person": name + " Ann", "plan": "enterprise"})
	c.session, c.tenant = t.str("session"), t.str("tenantId")
	project = must[object](c, "POST", "/v1/projects", object{"name": name + " project"}).str("projectId")
	workflow = must[object](c, "POST", "/v1/projects/"+project+"/workflows", object{
		"name": name + " workflow", "extraction": json.RawMessage(demoExtraction), "confidenceThreshold": 0.55, "reviewThreshold": 0.85,
	}).str("workflowId")
	return c, project, workflow
}

func (c *client) upload(data []byte) string {
	c.s.t.Helper()
	return must[object](c, "POST", "/v1/uploads", data).str("upload")
}

// inbox returns the folder of a tenant's batch in the inbox.
func inbox(c *client, project, workflow, folder string) string {
	return ingest.Inbox + c.tenant + "/" + project + "/" + workflow + "/" + folder + "/"
}

func (s *system) drop(name string, data []byte) {
	s.t.Helper()
	if err := s.Bucket.WriteAll(s.t.Context(), name, data, nil); err != nil {
		s.t.Fatal(err)
	}
}

// tenantOf returns the tenant of a client, for access to the table.
func tenantOf(t testing.TB, c *client) keys.Tenant {
	t.Helper()
	tenant, err := keys.ParseTenant(c.tenant)
	if err != nil {
		t.Fatal(err)
	}
	return tenant
}

// batchOf finds a batch by its id alone.
func (s *system) batchOf(id string) table.Batch {
	s.t.Helper()
	v, err := keys.ParseID[keys.BatchID](id)
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := s.Store.FindBatch(s.t.Context(), v)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// documentsOf returns all documents of a batch.
func (s *system) documentsOf(b table.Batch) []table.Document {
	s.t.Helper()
	var all []table.Document
	for cursor := ""; ; {
		page, err := s.Store.Documents(s.t.Context(), b, cursor, 500)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// consistent checks the counts of a batch, and that GSI2 has exactly its interesting
// documents; it returns the number of these entries.
func (s *system) consistent(b table.Batch) (entries int64) {
	s.t.Helper()
	var counted table.Counts
	byStatus := make(map[table.Status]map[keys.DocumentID]bool)
	for _, d := range s.documentsOf(b) {
		*counted.Of(d.Status)++
		if byStatus[d.Status] == nil {
			byStatus[d.Status] = make(map[keys.DocumentID]bool)
		}
		byStatus[d.Status][d.ID] = true
	}
	if counted != b.Counts || counted.Processing+counted.Succeeded+counted.Failed+counted.Review != b.Documents {
		s.t.Errorf("batch %s has the counts %+v of %d, but its documents are %+v", b.Name, b.Counts, b.Documents, counted)
	}
	for _, status := range []table.Status{table.Processing, table.Failed, table.ReviewRequired} {
		found := 0
		for cursor := ""; ; {
			page, err := s.Store.DocumentsIn(s.t.Context(), b, status, cursor, 500)
			if err != nil {
				s.t.Fatal(err)
			}
			for _, d := range page.Items {
				found++
				if !byStatus[status][d.ID] {
					s.t.Errorf("GSI2 has document %s with the wrong status %s", d.Name, status)
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if found != len(byStatus[status]) {
			s.t.Errorf("GSI2 has %d documents of %s as %s, want %d", found, b.Name, status, len(byStatus[status]))
		}
		entries += int64(found)
	}
	if b.Status.Interesting() {
		entries++
	}
	return entries
}

// entries returns the number of entries of an index.
func (s *system) entries(index string) int64 {
	s.t.Helper()
	reports, err := s.Home.Stator.Verify(s.t.Context(), func(string, int64) {})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range reports {
		if r.Table == table.Name {
			if r.Faults > 0 {
				s.t.Errorf("%d faults in the table: %v", r.Faults, r.First)
			}
			return r.Entries[index]
		}
	}
	s.t.Fatal(errors.New("the table does not exist"))
	return 0
}
