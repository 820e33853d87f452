package trial

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"time"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/extract/layout"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/documents/workflow"
	"github.com/stator-db/stator/apps/internal/virtualtime"
)

func request(t *testing.T, tenant keys.Tenant) Request {
	t.Helper()
	d := workflow.Definition{Name: "W", Extraction: json.RawMessage(`{"fields":[{"name":"total","required":true}]}`), ConfidenceThreshold: 0.5, ReviewThreshold: 0.9}
	w, problems := d.Check([]string{"builtin"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	plan, _ := table.PlanOf("free")
	return Request{Tenant: tenant, User: keys.NewID[keys.UserID](), Plan: plan, Workflow: w, File: extract.File{Name: "a.txt", Data: []byte("total: 5")}, Page: 1}
}

func tenants(n int) []keys.Tenant {
	var all []keys.Tenant
	for range n {
		all = append(all, keys.NewTenant())
	}
	return all
}

// A tenant has a number of trials a minute, as its plan allows, and others at the same
// time; each minute it has them again.
func TestRate(t *testing.T) {
	now := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	x := new(extract.Builtin)
	trials := &Trials{Extractors: map[string]extract.Extractor{"builtin": x}, Reader: x, Now: func() time.Time { return now }}
	ids := tenants(2)
	run := func(id keys.Tenant, plan string) error {
		t.Helper()
		leave, err := trials.Enter(id)
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		r := request(t, id)
		r.Plan, _ = table.PlanOf(plan)
		_, err = trials.Run(t.Context(), r)
		return err
	}
	for range 2 {
		for i := range 30 {
			if err := run(ids[0], "free"); err != nil {
				t.Fatalf("trial %d: %v", i+1, err)
			}
		}
		if err := run(ids[0], "free"); !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), "30 a minute") {
			t.Errorf("%v", err)
		}
		if err := run(ids[1], "free"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		now = now.Add(time.Minute)
	}
	leave, err := trials.Enter(ids[1])
	if err != nil || len(trials.tenants) != 1 {
		t.Errorf("%d tenants are kept, %v", len(trials.tenants), err)
	}
	leave()
}

// A tenant runs four trials at the same time, and all tenants eight.
func TestAtTheSameTime(t *testing.T) {
	trials := &Trials{Now: time.Now}
	var leaves []func()
	for _, id := range tenants(2) {
		for range perTenant {
			leave, err := trials.Enter(id)
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		if _, err := trials.Enter(id); !errors.Is(err, ErrTooMany) {
			t.Errorf("%v", err)
		}
	}
	third := tenants(1)[0]
	if _, err := trials.Enter(third); !errors.Is(err, ErrTooMany) || len(leaves) != 8 {
		t.Errorf("%v after %d", err, len(leaves))
	}
	leaves[0]()
	if _, err := trials.Enter(third); err != nil {
		t.Error(err)
	}
}

// broken is an extractor that fails, or never ends.
type broken struct{ err error }

func (b broken) Extract(ctx context.Context, f extract.File, e extract.Extraction) (extract.Result, error) {
	if b.err != nil {
		return extract.Result{}, b.err
	}
	<-ctx.Done()
	return extract.Result{}, ctx.Err()
}

func (b broken) Read(context.Context, extract.File) (layout.Document, error) {
	return layout.Document{}, b.err
}

// Errors that the document or a service causes are outcomes, and so is a trial that
// takes too long. A request that is cancelled ends.
func TestErrors(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			err    error
			status table.Status
			reason string
			took   time.Duration
		}{
			"unreadable": {&extract.Unreadable{Reason: "the file is empty"}, table.Failed, "the file is empty", 0},
			"down":       {errors.New("503"), table.Processing, "would be tried again: 503", 0},
			"endless":    {nil, table.Processing, "longer than 30s", 30 * time.Second},
		} {
			trials := &Trials{Extractors: map[string]extract.Extractor{"builtin": broken{c.err}}, Reader: broken{c.err}, Now: time.Now}
			r := request(t, tenants(1)[0])
			leave, err := trials.Enter(r.Tenant)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			o, err := trials.Run(t.Context(), r)
			if err != nil || o.Status != c.status || !strings.Contains(o.Reason, c.reason) || time.Since(began) != c.took {
				t.Errorf("%s: %+v, %v after %v", name, o, err, time.Since(began))
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := trials.Run(ctx, r); c.err == nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
			leave()
		}
	})
}

// The files of four persons are kept for five minutes, each for its person alone.
func TestMemos(t *testing.T) {
	now := time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)
	trials := &Trials{Now: func() time.Time { return now }}
	ids := tenants(2)
	user := keys.NewID[keys.UserID]()
	first := trials.memo(ids[0], user)
	if trials.memo(ids[0], user) != first {
		t.Error("the memo of a person is not found")
	}
	if trials.memo(ids[1], user) == first || trials.memo(ids[0], keys.NewID[keys.UserID]()) == first {
		t.Error("a memo is shared")
	}
	now = now.Add(5 * time.Minute)
	if trials.memo(ids[0], user) != first {
		t.Error("a memo is not kept for five minutes")
	}
	now = now.Add(5*time.Minute + time.Millisecond)
	if trials.memo(ids[0], user) == first || len(trials.memos) != 1 {
		t.Error("a memo is kept for longer than five minutes")
	}
	for range 5 {
		trials.memo(ids[0], keys.NewID[keys.UserID]())
	}
	if len(trials.memos) != 4 {
		t.Errorf("%d memos are kept", len(trials.memos))
	}
}
