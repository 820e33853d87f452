package table

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// The units of a batch of the model's size are those that the README says: of the
// requests that the document describes, by the model, and as the server reports them.
func TestUnits(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	w := start(t)
	m := new(hometest.Meter)
	s := *w.Store
	s.DB = m.Client(w.DB)
	model := hometest.ModelUnits(t, "../documents.model.yaml")
	ctx := t.Context()

	// Items of the model's sizes.
	if w.workflow, err = w.CreateWorkflow(ctx, Workflow{Tenant: w.project.Tenant, Project: w.project.ID, Name: strings.Repeat("w", 20), Extraction: strings.Repeat("x", 2048), ConfidenceThreshold: 0.55, ReviewThreshold: 0.85}); err != nil {
		t.Fatal(err)
	}
	n := w.newBatch(strings.Repeat("b", 20), 20)
	for i := range n.Documents {
		n.Documents[i].Name = fmt.Sprintf("%020d", i)
	}
	w.clock.Pass(1e9)
	var b Batch
	settle := func(batch Batch, status Status) func() error {
		return func() error {
			page, err := w.Documents(ctx, batch, "", 100)
			if err != nil {
				return err
			}
			var outcomes []Outcome
			for _, d := range page.Items {
				outcomes = append(outcomes, Outcome{Document: d, Status: status, Attempts: 1, Confidence: 0.91, Result: strings.Repeat("r", 3072)})
			}
			_, err = s.Settle(ctx, batch, outcomes)
			return err
		}
	}
	look := func() error {
		for shard := range keys.JobShards {
			if _, err := s.DueJobs(ctx, shard); err != nil {
				return err
			}
		}
		return nil
	}
	finish := func() error { _, _, err := s.Finish(ctx, b); return err }

	var sum [3]hometest.Units
	row := func(what string, document float64, model, real hometest.Units) {
		t.Helper()
		want := fmt.Sprintf("| %s | %v | %s | %s |", what, document, unitText(model), unitText(real))
		if !strings.Contains(string(readme), want) {
			t.Errorf("the README does not contain %s", want)
		}
	}
	part := func(what string, document float64, model hometest.Units, act func() error) {
		t.Helper()
		real := m.During(t, act)
		row(what, document, model, real)
		sum[0] = sum[0].Add(hometest.Units{Table: document})
		sum[1], sum[2] = sum[1].Add(model), sum[2].Add(real)
	}
	part("create a batch of 20 documents", 44, model("get tenant", "create batch with its documents"), func() (err error) {
		b, _, err = s.CreateBatch(ctx, n)
		return err
	})
	part("find it by its id, and its documents", 0, model("find batch by id", "documents of a batch in a status"), func() error {
		if _, err := s.FindBatch(ctx, b.ID); err != nil {
			return err
		}
		_, err := s.DocumentsIn(ctx, b, Processing, "", 100)
		return err
	})
	part("settle its documents", 80, model("documents of a batch settle"), settle(b, Succeeded))
	part("finish it", 1, model("get batch", "get project", "batch succeeds"), finish)
	row("in all", sum[0].Table, sum[1], sum[2])
	if off(sum[1].Table+sum[1].Index, sum[2].Table+sum[2].Index) > 0.05 || off(sum[1].Read, sum[2].Read) > 0.05 {
		t.Errorf("a batch costs %v by the model and %v on the server", sum[1], sum[2])
	}

	inbox := w.newBatch(strings.Repeat("i", 20), 20)
	inbox.ID = inbox.Workflow.inbox(inbox.Name)
	for i := range inbox.Documents {
		inbox.Documents[i].Name = fmt.Sprintf("%020d", i)
	}
	row("create a batch of 20 files of the inbox", 44, model("get tenant", "create batch of the inbox"), m.During(t, func() (err error) {
		b, _, err = s.CreateBatch(ctx, inbox)
		return err
	}))
	row("settle them", 80, model("documents of the inbox settle"), m.During(t, settle(b, Succeeded)))
	row("list them, newest first", 0, model("documents of the inbox"), m.During(t, func() error {
		_, err := s.Documents(ctx, b, "", 50)
		return err
	}))

	second := w.newBatch("review", 2)
	if b, _, err = w.CreateBatch(ctx, second); err != nil {
		t.Fatal(err)
	}
	for _, act := range []func() error{settle(b, ReviewRequired), finish} {
		if err := act(); err != nil {
			t.Fatal(err)
		}
	}
	review, err := w.DocumentsIn(ctx, b, ReviewRequired, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	d := review.Items[0]
	row("review a document", 4, model("get batch", "document is reviewed"), m.During(t, func() error {
		return s.Move(ctx, b, Outcome{Document: d, Status: Succeeded, Attempts: 1, Confidence: 1, Result: d.Result, ReviewedBy: "ann"})
	}))
	row("look for work", 0, model("jobs that are due"), m.During(t, look))
}

// unitText returns units as the README's table has them.
func unitText(u hometest.Units) string {
	var parts []string
	if u.Read > 0 {
		parts = append(parts, fmt.Sprintf("%v read", u.Read))
	}
	if u.Table > 0 {
		parts = append(parts, fmt.Sprintf("%v + %v write", u.Table, u.Index))
	}
	return strings.Join(parts, ", ")
}

// off returns the difference of two figures as a share.
func off(a, b float64) float64 { return max(a-b, b-a) / max(a, b) }
