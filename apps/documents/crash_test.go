package documents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// invoiceOf returns the n-th invoice of a tenant, and its expected status.
func invoiceOf(tenant, n int) (name string, data []byte, want table.Status) {
	text := fmt.Sprintf("Northwind\nInvoice number: NW-%d%05d\nDate: 2026-11-07\nBill to: Somebody\nTotal: EUR %d.50\n", tenant, n, n)
	name = fmt.Sprintf("%05d.txt", n)
	switch {
	case n%10 == 3:
		return name, fmt.Appendf(nil, "Invoice no NW-%d%05d\nDate\n7.11.2026\nCustomer Somebody\nTotal\nabout three hundred\n", tenant, n), table.ReviewRequired
	case n%10 == 7:
		return name, []byte("Dear all, the picnic is on Sunday.\n"), table.Failed
	case n%50 == 9:
		return fmt.Sprintf("%05d.pdf", n), pdfOf(text), table.Succeeded
	case n%10 == 5:
		return fmt.Sprintf("%05d.csv", n), fmt.Appendf(nil, "Invoice number,Date,Customer,Total\nNW-%d%05d,2026-11-07,Somebody,%d.50\n", tenant, n, n), table.Succeeded
	}
	return name, []byte(text), table.Succeeded
}

// Documents of three tenants, half of them sent to the API and half put into the
// bucket, many twice, are processed by processors that are killed repeatedly. At
// the end each document exists once, has the expected status, and is counted once.
func TestCrashes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1))
	folder := t.TempDir()
	s := start(t, func(o *Options) {
		hurried(o)
		o.Home.DynamoDB = "127.0.0.1:0"
		o.Bucket = folder
	})
	do := orders{Endpoint: "http://" + s.Home.Address, Bucket: folder}
	children := []*child{spawn(t, do), spawn(t, do)}

	want := make(map[table.Status]int)
	var batches []string
	var again []func()
	for tenant := range 3 {
		c, project, workflow := s.newTenant(fmt.Sprintf("tenant%d", tenant), fmt.Sprintf("ann@tenant%d.example", tenant))
		var documents []object
		for n := range *perTenant {
			name, data, status := invoiceOf(tenant, n)
			want[status]++
			if n%2 == 0 {
				documents = append(documents, object{"name": name, "upload": c.upload(data)})
				continue
			}
			put := func() {
				s.drop(inbox(c, project, workflow, fmt.Sprintf("folder%d", n%4/2))+name, data)
			}
			put()
			if chance.IntN(3) == 0 {
				again = append(again, put)
			}
		}
		// Two clients send the same request concurrently.
		ids := make([]string, 2)
		var both sync.WaitGroup
		for i := range ids {
			both.Go(func() {
				for {
					status, text := c.request("POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": "sent", "key": "one", "documents": documents})
					var answer object
					if json.Unmarshal([]byte(text), &answer) == nil && status == 200 {
						ids[i] = answer.str("batchId")
						return
					}
					if status != 409 && status != 503 {
						t.Errorf("%d %s", status, text)
						return
					}
				}
			})
		}
		both.Wait()
		if ids[0] != ids[1] {
			t.Errorf("one request created two batches, %s and %s", ids[0], ids[1])
		}
		batches = append(batches, ids[0])
		for f := range 2 {
			batches = append(batches, inboxBatch(c, project, workflow, fmt.Sprintf("folder%d", f)))
		}
	}

	kills, left := 0, -1
	for round := 0; left != 0; round++ {
		if len(again) > 0 {
			n := chance.IntN(min(20, len(again))) + 1
			for _, put := range again[:n] {
				put()
			}
			again = again[n:]
		}
		// One more pass, concurrently with the children.
		if err := s.Ingest.Pass(t.Context()); err != nil {
			t.Logf("a concurrent pass: %v", err)
		}
		time.Sleep(time.Duration(100+chance.IntN(500)) * time.Millisecond)
		left = s.left(batches, len(again))
		if left > 0 && round%2 == 0 && kills < 4+*perTenant/50 {
			i := chance.IntN(len(children))
			children[i].kill()
			children[i] = spawn(t, do)
			kills++
		}
	}
	t.Logf("%d kills, %d documents", kills, 3**perTenant)
	if kills < 2 {
		t.Errorf("only %d processors were killed with work left: too few", kills)
	}
	for _, c := range children {
		c.kill()
	}

	got := make(map[table.Status]int)
	var entries, failed int64
	names := make(map[string]bool)
	for _, id := range batches {
		b := s.batchOf(id)
		entries += s.consistent(b)
		if b.Failed > 0 {
			failed++
		}
		for _, d := range s.documentsOf(b) {
			got[d.Status]++
			names[d.Tenant.String()+d.Name] = true
			if d.Status == table.Succeeded {
				s.readRight(d)
			}
		}
	}
	for status, n := range want {
		if got[status] != n {
			t.Errorf("%d documents are %s, want %d", got[status], status, n)
		}
	}
	if len(names) != 3**perTenant {
		t.Errorf("%d different documents, want %d", len(names), 3**perTenant)
	}
	if all := s.entries("GSI2"); all != entries {
		t.Errorf("GSI2 has %d entries, want %d", all, entries)
	}
	if all := s.entries("GSI3"); all != int64(len(batches))+failed { // and the clearing of failed items
		t.Errorf("GSI3 has %d entries, want %d batches and %d jobs", all, len(batches), failed)
	}
}

// left returns how much work is left: unfinished batches, files in the inbox, files
// still to be put there.
func (s *system) left(batches []string, toPut int) int {
	s.t.Helper()
	left := toPut
	for _, text := range batches {
		id, err := keys.ParseID[keys.BatchID](text)
		if err != nil {
			s.t.Fatal(err)
		}
		b, err := s.Store.FindBatch(s.t.Context(), id)
		if errors.Is(err, table.ErrNotFound) || err == nil && b.Status == table.Processing {
			left++
		} else if err != nil {
			s.t.Fatal(err)
		}
	}
	files := s.Bucket.List(nil)
	for {
		f, err := files.Next(s.t.Context())
		if errors.Is(err, io.EOF) {
			return left
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.HasPrefix(f.Key, "inbox/") {
			left++
		}
	}
}

// readRight checks that a document's number is the one in its file.
func (s *system) readRight(d table.Document) {
	s.t.Helper()
	r, err := s.Machine.Results.Load(s.t.Context(), d)
	if err != nil {
		s.t.Error(err)
		return
	}
	n, _, _ := strings.Cut(d.Name, ".")
	if len(r.Fields) == 0 || !strings.HasSuffix(r.Fields[0].Value, n) {
		s.t.Errorf("document %s was read as %+v", d.Name, r.Fields)
	}
}

// inboxBatch returns the id of the batch of a folder in the inbox.
func inboxBatch(c *client, project, workflow, folder string) string {
	return keys.DeriveID[keys.BatchID](c.tenant, "inbox", project, workflow, folder).String()
}

// The whole service, with embedded tables, is killed repeatedly while documents are
// sent and processed. All acknowledged requests persist.
func TestServerKilled(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 2))
	folder := t.TempDir()
	do := orders{Data: folder + "/data"}
	server := spawn(t, do)
	c := &remote{t: t, server: &server}
	var tenant, project, workflow, batch object
	c.until("POST", "/v1/tenants", object{"name": "Acme", "email": "ann@acme.example", "person": "Ann"}, &tenant)
	c.session = tenant.str("session")
	c.until("POST", "/v1/projects", object{"name": "Invoices"}, &project)
	path := "/v1/projects/" + project.str("projectId")
	c.until("POST", path+"/workflows", object{"name": "Invoices", "extraction": json.RawMessage(demoExtraction), "confidenceThreshold": 0.55, "reviewThreshold": 0.85}, &workflow)

	kills := 0
	kill := func() {
		server.kill()
		server = spawn(t, do)
		kills++
	}
	want := make(map[string]int)
	var documents []object
	for n := range 120 {
		name, data, status := invoiceOf(1, n)
		want[string(status)]++
		var upload object
		c.until("POST", "/v1/uploads", data, &upload)
		documents = append(documents, object{"name": name, "upload": upload.str("upload")})
		if n == 60 {
			kill()
		}
	}
	killed := make(chan struct{})
	go func() { // while the batch is being created
		defer close(killed)
		time.Sleep(time.Duration(chance.IntN(20)) * time.Millisecond)
		server.Process.Kill()
	}()
	in := object{"workflowId": workflow.str("workflowId"), "name": "sent", "key": "one", "documents": documents}
	c.once("POST", path+"/batches", in, nil)
	<-killed
	kill()
	c.until("POST", path+"/batches", in, &batch)
	path += "/batches/" + batch.str("batchId")
	kill()
	for batch.str("status") == "PROCESSING" {
		time.Sleep(20 * time.Millisecond)
		c.until("GET", path, nil, &batch)
		if kills < 6 && chance.IntN(3) == 0 {
			kill()
		}
	}
	kill()
	got := make(map[string]int)
	for next := ""; ; {
		var page struct {
			Items []object
			Next  string
		}
		c.until("GET", path+"/documents?cursor="+strings.ReplaceAll(next, "#", "%23"), nil, &page)
		for _, d := range page.Items {
			got[d.str("status")]++
		}
		if next = page.Next; next == "" {
			break
		}
	}
	for status, n := range want {
		if got[status] != n {
			t.Errorf("%d documents are %s, want %d", got[status], status, n)
		}
	}
	c.until("GET", path, nil, &batch)
	if batch.str("documentCount") != "120" || batch.str("succeeded") != fmt.Sprint(want["SUCCEEDED"]) || batch.str("failed") != fmt.Sprint(want["FAILED"]) {
		t.Errorf("the batch has %v, want %v", batch, want)
	}
	c.until("GET", "/v1/projects/"+project.str("projectId"), nil, &project)
	if project.str("batchCount") != "1" {
		t.Errorf("the project has %v batches", project["batchCount"])
	}
	hometest.NoScan(t, http.DefaultClient, "http://"+server.address.DynamoDB)
}

// remote sends requests to a server that may be killed.
type remote struct {
	t       *testing.T
	server  **child
	session string
}

// until sends a request until it succeeds.
func (c *remote) until(method, path string, body, into any) {
	c.t.Helper()
	for try := range 100 {
		status, text := c.once(method, path, body, into)
		if status == 200 {
			return
		}
		if status >= 400 && status != 409 && status < 500 || try == 99 {
			c.t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *remote) once(method, path string, body, into any) (int, string) {
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		in = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			c.t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, (*c.server).address.URL+path, in)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.session)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode == 200 && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}
