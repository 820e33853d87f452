package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"gocloud.dev/blob"

	"github.com/stator-db/stator/apps/documents"
	"github.com/stator-db/stator/apps/documents/ingest"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/home"
)

// invoice is what the check of the documents extracts.
const invoice = `{"fields":[{"name":"number","labels":["Invoice number"],"required":true},{"name":"total","type":"amount","labels":["Total"],"required":true}]}`

// letter is what it extracts at the end.
const letter = `{"fields":[{"name":"to","labels":["Dear"],"required":true}]}`

// service is what the check of the documents uses.
type service struct {
	*documents.System
	url, session              string
	tenant, project, workflow string
}

// checkDocuments processes a batch of the API and one of the inbox, whose second part comes later, reviews and
// retries documents, and deletes a batch. The counts of a batch must be those of its documents, the usage of
// the tenant that of both, no file may be rejected or lost, and nothing of a deleted batch may be left.
func checkDocuments(ctx context.Context, r *run) (err error) {
	o := documents.Defaults()
	o.Home = home.Options{Endpoint: r.endpoint, Model: documents.Model, Log: r.log}
	o.Look, o.OCR, o.Log = 100*time.Millisecond, "", r.log
	s, err := documents.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.Store.DB = quick(s.Home.DB)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	v := &service{System: s, url: server.URL}
	stop := background(ctx, s.Process)
	defer func() { err = errors.Join(err, stop()) }()
	if err := v.register(ctx); err != nil {
		return err
	}
	return v.process(ctx)
}

type object = map[string]any

// ask sends a request until it succeeds: a read may be stale, and the SDK may give up.
func (v *service) ask(ctx context.Context, method, path string, body any) (reply object, err error) {
	text, ok := body.([]byte)
	if !ok {
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	err = until(ctx, func() (string, error) {
		r, err := http.NewRequestWithContext(ctx, method, v.url+path, bytes.NewReader(text))
		if err != nil {
			return "", err
		}
		r.Header.Set("Authorization", "Bearer "+v.session)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		if err != nil {
			return "", err
		}
		switch {
		case answer.StatusCode < 300:
			if len(b) > 0 {
				err = json.Unmarshal(b, &reply)
			}
			return "", err
		case answer.StatusCode == http.StatusNotFound || answer.StatusCode >= 500:
			return fmt.Sprintf("%s %s: %d %s", method, path, answer.StatusCode, b), nil
		}
		return "", fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, b)
	})
	return reply, err
}

// register makes a tenant with a project and a workflow.
func (v *service) register(ctx context.Context) error {
	t, err := v.ask(ctx, "POST", "/v1/tenants", object{"name": "acme", "email": "ann@acme.example", "person": "Ann", "plan": "enterprise"})
	if err != nil {
		return err
	}
	v.session, v.tenant = fmt.Sprint(t["session"]), fmt.Sprint(t["tenantId"])
	p, err := v.ask(ctx, "POST", "/v1/projects", object{"name": "invoices"})
	if err != nil {
		return err
	}
	v.project = fmt.Sprint(p["projectId"])
	w, err := v.ask(ctx, "POST", "/v1/projects/"+v.project+"/workflows", object{"name": "w", "extraction": json.RawMessage(invoice), "confidenceThreshold": 0.55, "reviewThreshold": 0.85})
	v.workflow = fmt.Sprint(w["workflowId"])
	return err
}

// good and bad are the texts of a document that succeeds and of one that fails.
func good(n int) []byte { return fmt.Appendf(nil, "Invoice number: NW-%04d\nTotal: EUR %d.50\n", n, n) }
func bad() []byte       { return []byte("Dear all, the picnic is on Sunday.\n") }

// process is the life of two batches.
func (v *service) process(ctx context.Context) error {
	inbox, err := v.drop(ctx, 0, 4)
	if err != nil {
		return err
	}
	posted, err := v.post(ctx)
	if err != nil {
		return err
	}
	if err := v.ended(ctx, inbox, table.Counts{Succeeded: 4}); err != nil {
		return err
	}
	if _, err := v.drop(ctx, 4, 7); err != nil {
		return err
	}
	if err := v.ended(ctx, posted, table.Counts{Succeeded: 3, Failed: 2}); err != nil {
		return err
	}
	if err := v.ended(ctx, inbox, table.Counts{Succeeded: 7}); err != nil {
		return err
	}
	if err := v.review(ctx, posted); err != nil {
		return err
	}
	if err := v.usage(ctx, 14); err != nil { // 7 of the inbox, 5 of the request, 2 retries
		return err
	}
	if err := v.rejected(ctx); err != nil {
		return err
	}
	return v.remove(ctx, posted, inbox)
}

// drop puts files into the inbox.
func (v *service) drop(ctx context.Context, from, to int) (keys.BatchID, error) {
	for n := from; n < to; n++ {
		name := fmt.Sprintf("%s%s/%s/%s/november/%d.txt", ingest.Inbox, v.tenant, v.project, v.workflow, n)
		if err := v.Bucket.WriteAll(ctx, name, good(n), nil); err != nil {
			return keys.BatchID{}, err
		}
	}
	tenant, project, workflow, err := v.ids()
	return keys.InboxBatchID(tenant, project, workflow, "november"), err
}

func (v *service) ids() (t keys.Tenant, p keys.ProjectID, w keys.WorkflowID, err error) {
	var errs [3]error
	t, errs[0] = keys.ParseTenant(v.tenant)
	p, errs[1] = keys.ParseID[keys.ProjectID](v.project)
	w, errs[2] = keys.ParseID[keys.WorkflowID](v.workflow)
	return t, p, w, errors.Join(errs[:]...)
}

// post makes a batch by a request, which it sends twice with the same key.
func (v *service) post(ctx context.Context) (keys.BatchID, error) {
	var files []object
	for n := range 5 {
		text := good(100 + n)
		if n > 2 {
			text = bad()
		}
		upload, err := v.ask(ctx, "POST", "/v1/uploads", text)
		if err != nil {
			return keys.BatchID{}, err
		}
		files = append(files, object{"name": fmt.Sprint(n, ".txt"), "upload": upload["upload"]})
	}
	in := object{"workflowId": v.workflow, "name": "posted", "key": "once", "documents": files}
	first, err := v.ask(ctx, "POST", "/v1/projects/"+v.project+"/batches", in)
	if err != nil {
		return keys.BatchID{}, err
	}
	again, err := v.ask(ctx, "POST", "/v1/projects/"+v.project+"/batches", in)
	if err != nil {
		return keys.BatchID{}, err
	}
	if again["batchId"] != first["batchId"] {
		return keys.BatchID{}, fmt.Errorf("one request with a key, sent twice, made the batches %v and %v", first["batchId"], again["batchId"])
	}
	return keys.ParseID[keys.BatchID](fmt.Sprint(first["batchId"]))
}

// ended waits until a batch has ended with some counts, and compares them with its documents.
func (v *service) ended(ctx context.Context, id keys.BatchID, want table.Counts) error {
	tenant, project, _, err := v.ids()
	if err != nil {
		return err
	}
	store := *v.Store
	store.DB = patient(store.DB)
	total := want.Succeeded + want.Failed + want.Review
	return until(ctx, func() (string, error) {
		b, err := store.Batch(ctx, tenant, project, id)
		if errors.Is(err, table.ErrNotFound) {
			return "the batch " + id.String() + " does not exist", nil
		}
		if err != nil {
			return "", err
		}
		counted, err := store.Recount(ctx, b)
		if err != nil {
			return "", err
		}
		if counted.Processing == 0 && counted.Succeeded+counted.Failed+counted.Review == total && counted != want {
			return "", fmt.Errorf("batch %s is %s with %+v, want %+v: %s", b.Name, b.Status, counted, want, v.why(ctx))
		}
		if b.Status == table.Processing || b.Documents != total || b.Counts != want || counted != want || b.Status != want.Verdict() {
			return fmt.Sprintf("batch %s is %s with the counts %+v of %d documents, which are %+v; want %+v", b.Name, b.Status, b.Counts, b.Documents, counted, want), nil
		}
		return "", nil
	})
}

// why returns the reasons of documents that did not succeed.
func (v *service) why(ctx context.Context) (all []string) {
	found, err := items(ctx, v.Store.DB, table.Name)
	if err != nil {
		return []string{err.Error()}
	}
	for _, it := range found {
		if reason := keyText(it, "reason"); reason != "" {
			all = append(all, reason)
		}
	}
	return all
}

func keyText(it map[string]types.AttributeValue, name string) string {
	v, _ := it[name].(*types.AttributeValueMemberS)
	if v == nil {
		return ""
	}
	return v.Value
}

// review accepts a failed document, and retries another one, which fails again; then the workflow is changed
// so that it succeeds.
func (v *service) review(ctx context.Context, id keys.BatchID) error {
	found, err := items(ctx, v.Store.DB, table.Name)
	if err != nil {
		return err
	}
	path := "/v1/projects/" + v.project + "/batches/" + id.String() + "/documents/"
	var failed []string
	for _, it := range found {
		if keyText(it, "documentId") != "" && keyText(it, "batchId") == id.String() && keyText(it, "status") == string(table.Failed) {
			failed = append(failed, keyText(it, "documentId"))
		}
	}
	if len(failed) != 2 {
		return fmt.Errorf("the failed documents are %v", failed)
	}
	if _, err := v.ask(ctx, "POST", path+failed[0]+"/review", object{"approve": true, "fields": object{"number": "NW-1", "total": "1.00"}}); err != nil {
		return err
	}
	if err := v.ended(ctx, id, table.Counts{Succeeded: 4, Failed: 1}); err != nil {
		return err
	}
	if _, err := v.ask(ctx, "POST", path+failed[1]+"/retry", object{}); err != nil {
		return err
	}
	if err := v.ended(ctx, id, table.Counts{Succeeded: 4, Failed: 1}); err != nil {
		return err
	}
	if _, err := v.ask(ctx, "PUT", "/v1/projects/"+v.project+"/workflows/"+v.workflow, object{"name": "letters", "extraction": json.RawMessage(letter), "confidenceThreshold": 0.1, "reviewThreshold": 0.2}); err != nil {
		return err
	}
	if _, err := v.ask(ctx, "POST", path+failed[1]+"/retry", object{}); err != nil {
		return err
	}
	return v.ended(ctx, id, table.Counts{Succeeded: 5})
}

// usage compares the documents that the tenant has used, and the batches of its project.
func (v *service) usage(ctx context.Context, want int) error {
	found, err := items(ctx, v.Store.DB, table.Name)
	if err != nil {
		return err
	}
	for _, it := range found {
		if keyText(it, "SK") == "USAGE#"+time.Now().UTC().Format("2006-01") {
			if n, ok := it["documents"].(*types.AttributeValueMemberN); !ok || n.Value != fmt.Sprint(want) {
				return fmt.Errorf("the tenant has used %v documents, want %d", it["documents"], want)
			}
		}
		if n, ok := it["batchCount"].(*types.AttributeValueMemberN); ok && n.Value != "2" {
			return fmt.Errorf("the project has %s batches, want 2", n.Value)
		}
	}
	return nil
}

// rejected fails if a file was rejected.
func (v *service) rejected(ctx context.Context) error {
	list := v.Bucket.List(&blob.ListOptions{Prefix: ingest.Rejected})
	for {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if strings.HasSuffix(o.Key, ".why.txt") {
			text, err := v.Bucket.ReadAll(ctx, o.Key)
			return errors.Join(fmt.Errorf("the file %s was rejected: %s", o.Key, text), err)
		}
	}
}

// remove deletes a batch, and waits until nothing of it is left but its deletion, and all of the other one.
func (v *service) remove(ctx context.Context, id, other keys.BatchID) error {
	if _, err := v.ask(ctx, "DELETE", "/v1/projects/"+v.project+"/batches/"+id.String(), nil); err != nil {
		return err
	}
	err := until(ctx, func() (string, error) {
		found, err := items(ctx, v.Store.DB, table.Name)
		if err != nil {
			return "", err
		}
		for _, it := range found {
			if keyText(it, "documentId") != "" && keyText(it, "batchId") == id.String() {
				return fmt.Sprintf("the document %s of a deleted batch is left", keyText(it, "name")), nil
			}
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	return v.ended(ctx, other, table.Counts{Succeeded: 7})
}
