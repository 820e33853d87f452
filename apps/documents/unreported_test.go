package documents

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
)

// hold claims the jobs of a kind that are due, so that others are executed before
// them.
func (s *system) hold(kind string) {
	s.t.Helper()
	for shard := range keys.JobShards {
		jobs, err := s.Store.DueJobs(s.t.Context(), shard)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, j := range jobs {
			if j.Kind != kind {
				continue
			}
			if ok, err := s.Store.Claim(s.t.Context(), &j, "test", time.Minute); err != nil || !ok {
				s.t.Fatal(ok, err)
			}
		}
	}
}

// After the deletion of a tenant nothing is sent or processed, even if other jobs are
// executed before those of the deletion.
func TestNoReportsOfADeletedTenant(t *testing.T) {
	hooked := &receiver{down: true}
	server := httptest.NewServer(hooked)
	defer server.Close()
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now, o.PrivateHooks = now.Now, now.Now, true })
	c, ids := furnished(s, "acme", "ann@acme.example")
	in := "/v1" + fill(inProject, ids)
	must[object](c, "PUT", in+"/reporting", object{"webhook": server.URL})
	must[object](c, "POST", "/v1"+fill(inBatch, ids)+"/documents/"+ids["failed"]+"/retry", nil)
	s.passes()
	if hooked.calls != 1 {
		t.Fatalf("%d calls", hooked.calls)
	}
	work := must[object](c, "POST", in+"/batches", object{"workflowId": ids["workflow"], "name": "b", "documents": []object{{"name": "a.txt", "upload": ids["upload"]}}}).str("batchId")
	hooked.down = false
	now.Pass(11 * time.Second)
	must[object](c, "DELETE", "/v1/tenants/"+c.tenant+"?name=acme", nil)
	s.hold(table.JobDelete)
	s.passes()
	if len(hooked.received) > 0 {
		t.Errorf("the webhook gets %s", hooked.received)
	}
	if b := s.batchOf(work); b.Status != table.Processing {
		t.Errorf("a batch of the tenant is processed: %s", b.Status)
	}
	s.later(now)
	for trace := range s.traces(c.tenant, "acme") {
		t.Errorf("there is %s", trace)
	}
}

// A report that is still to be sent when a batch is processed again is not sent: the
// end of that makes a new one.
func TestNoReportOfABatchInProcessing(t *testing.T) {
	hooked := &receiver{down: true}
	server := httptest.NewServer(hooked)
	defer server.Close()
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now, o.PrivateHooks = now.Now, now.Now, true })
	c, ids := furnished(s, "acme", "ann@acme.example")
	must[object](c, "PUT", "/v1"+fill(inProject, ids)+"/reporting", object{"webhook": server.URL})
	retry := "/v1" + fill(inBatch, ids) + "/documents/" + ids["failed"] + "/retry"
	must[object](c, "POST", retry, nil)
	s.passes()
	if hooked.calls != 1 {
		t.Fatalf("%d calls", hooked.calls)
	}
	hooked.down = false
	must[object](c, "POST", retry, nil)
	s.hold(table.JobWork)
	now.Pass(11 * time.Second)
	s.passes()
	if len(hooked.received) > 0 {
		t.Errorf("the webhook gets %s", hooked.received)
	}
	now.Pass(time.Minute)
	s.passes()
	if len(hooked.received) != 1 || strings.Contains(hooked.received[0], `"status":"PROCESSING"`) {
		t.Errorf("after the end the webhook gets %s", hooked.received)
	}
}
