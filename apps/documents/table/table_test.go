package table

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// clock is a clock that a test sets.
type clock struct{ passed atomic.Int64 }

func (c *clock) Now() time.Time {
	return time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC).Add(time.Duration(c.passed.Load()))
}
func (c *clock) Pass(d time.Duration) { c.passed.Add(int64(d)) }

// world is a store with a tenant, a project and a workflow.
type world struct {
	*Store
	home     *home.Home
	clock    *clock
	project  Project
	workflow Workflow
}

func start(t *testing.T) *world {
	t.Helper()
	model, err := os.ReadFile("../documents.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := new(clock)
	h := hometest.StartWith(t, home.Options{Model: model, Now: c.Now})
	w := &world{Store: New(h.DB), home: h, clock: c}
	w.Now = c.Now
	w.project, w.workflow = w.newTenant(t)
	return w
}

func (w *world) newTenant(t *testing.T) (Project, Workflow) {
	t.Helper()
	ctx := t.Context()
	tenant, err := w.CreateTenant(ctx, "Acme", "enterprise", &User{ID: keys.NewID[keys.UserID](), Email: "ann@example.com", Name: "Ann"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.CreateProject(ctx, tenant.ID, "Invoices")
	if err != nil {
		t.Fatal(err)
	}
	flow, err := w.CreateWorkflow(ctx, Workflow{Tenant: tenant.ID, Project: p.ID, Name: "Invoices", Extraction: "{}", ConfidenceThreshold: 0.5, ReviewThreshold: 0.8})
	if err != nil {
		t.Fatal(err)
	}
	return p, flow
}

func (w *world) newBatch(key string, documents int) NewBatch {
	n := NewBatch{ID: keys.DeriveID[keys.BatchID](w.workflow.Tenant.String(), key), Workflow: w.workflow, Name: key}
	for i := range documents {
		d := NewDocument{ID: keys.DeriveID[keys.DocumentID](n.ID.String(), fmt.Sprint(i)), Name: fmt.Sprintf("%04d.txt", i)}
		d.Object = w.workflow.Tenant.File(n.ID, d.ID)
		n.Documents = append(n.Documents, d)
	}
	return n
}

// entries returns the number of entries of an index.
func (w *world) entries(t *testing.T, index string) int64 {
	t.Helper()
	return entriesOf(t, w.home, index)
}

func entriesOf(t *testing.T, h *home.Home, index string) int64 {
	t.Helper()
	reports, err := h.Stator.Verify(t.Context(), func(string, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if r.Table == Name {
			if r.Faults > 0 {
				t.Errorf("%d faults in the table: %v", r.Faults, r.First)
			}
			return r.Entries[index]
		}
	}
	t.Fatalf("table %s does not exist", Name)
	return 0
}

// consistent checks that a batch's counts are those of its documents, and that GSI2
// has exactly the interesting ones.
func (w *world) consistent(t *testing.T, b Batch) Batch {
	t.Helper()
	b, err := w.Batch(t.Context(), b.Tenant, b.Project, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := w.Recount(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if counted != b.Counts || counted.Processing+counted.Succeeded+counted.Failed+counted.Review != b.Documents {
		t.Errorf("the batch has the counts %+v of %d, but its documents are %+v", b.Counts, b.Documents, counted)
	}
	return b
}

// between returns a store that calls a function before every write; its error fails
// the write.
func (w *world) between(before func(in any) error) *Store {
	s := *w.Store
	s.DB = dynamodb.New(w.DB.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("test", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				if err := before(in.Parameters); err != nil {
					return middleware.InitializeOutput{}, middleware.Metadata{}, err
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
		})
	})
	return &s
}

// without drops the conditions of all writes: the planted fault of the controls.
func (w *world) without() *Store {
	return w.between(func(in any) error {
		switch in := in.(type) {
		case *dynamodb.PutItemInput:
			in.ConditionExpression = nil
		case *dynamodb.TransactWriteItemsInput:
			for _, i := range in.TransactItems {
				if i.Put != nil {
					i.Put.ConditionExpression = nil
				}
				if i.Update != nil && i.Update.ConditionExpression != nil && *i.Update.ConditionExpression == "#status = :was" {
					i.Update.ConditionExpression = nil
					delete(i.Update.ExpressionAttributeValues, ":was")
				}
			}
		}
		return nil
	})
}

var errCrash = errors.New("crash")

// unseen fails the test if a part of a batch is visible before it is created.
func (w *world) unseen(t *testing.T, n NewBatch) bool {
	t.Helper()
	seen := false
	if _, err := w.Batch(t.Context(), n.Workflow.Tenant, n.Workflow.Project, n.ID); !errors.Is(err, ErrNotFound) {
		seen = true
	}
	if _, err := w.FindBatch(t.Context(), n.ID); !errors.Is(err, ErrNotFound) {
		seen = true
	}
	if p, err := w.Project(t.Context(), n.Workflow.Tenant, n.Workflow.Project); err != nil || p.BatchCount != 0 {
		seen = true
	}
	if found, err := w.BatchesIn(t.Context(), n.Workflow.Tenant, Processing); err != nil || len(found) > 0 {
		seen = true
	}
	return !seen
}

// Whichever write of its creation fails, a batch does not exist; after a retry it is
// complete, and without one its documents are removed.
func TestBatchIsWholeOrNot(t *testing.T) {
	for _, size := range []int{1, InOne, InOne + 1, 350} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d documents, again %v", size, again), func(t *testing.T) {
				w := start(t)
				n := w.newBatch("batch", size)
				for crash := 1; ; crash++ {
					writes := 0
					s := w.between(func(in any) error {
						switch in.(type) {
						case *dynamodb.PutItemInput, *dynamodb.TransactWriteItemsInput:
						default:
							return nil
						}
						if writes++; writes == crash {
							return errCrash
						}
						if !w.unseen(t, n) {
							t.Errorf("before write %d of %d documents the batch is visible", writes, size)
						}
						return nil
					})
					b, created, err := s.CreateBatch(t.Context(), n)
					if err == nil {
						if !created || writes < crash-1 {
							t.Errorf("created %v after %d writes", created, writes)
						}
						w.consistent(t, b)
						break
					}
					if !errors.Is(err, errCrash) || !w.unseen(t, n) {
						t.Fatalf("after a crash at write %d: %v", crash, err)
					}
					if !again {
						w.cleaned(t, n)
					}
				}
				p, err := w.Project(t.Context(), w.project.Tenant, w.project.ID)
				if err != nil || p.BatchCount != 1 {
					t.Errorf("the project counts %d batches, %v", p.BatchCount, err)
				}
				if got := w.entries(t, "GSI2"); got != int64(size)+1 {
					t.Errorf("GSI2 has %d entries, want %d documents and a batch", got, size)
				}
				if b, created, err := w.CreateBatch(t.Context(), n); err != nil || created || b.Documents != size {
					t.Errorf("created again: %+v, %v, %v", b, created, err)
				}
				w.consistent(t, Batch{Tenant: w.project.Tenant, Project: w.project.ID, ID: n.ID})
			})
		}
	}
}

// cleaned advances the clock until the creation counts as abandoned, runs the
// clean-up, and checks that nothing is left.
func (w *world) cleaned(t *testing.T, n NewBatch) {
	t.Helper()
	w.clock.Pass(w.Abandoned + time.Second)
	for shard := range keys.JobShards {
		jobs, err := w.DueJobs(t.Context(), shard)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if ours, err := w.Claim(t.Context(), &j, "janitor", time.Minute); err != nil || !ours {
				t.Fatal(ours, err)
			}
			if err := w.Discard(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := w.entries(t, "GSI2"); got != 0 {
		t.Errorf("%d entries are left in GSI2", got)
	}
	if got := w.entries(t, "GSI3"); got != 0 {
		t.Errorf("%d entries are left in GSI3", got)
	}
}

// A confidence that is equal to a threshold is not below it.
func TestThresholds(t *testing.T) {
	b := Batch{ConfidenceThreshold: 0.55, ReviewThreshold: 0.85}
	for _, c := range []struct {
		confidence float64
		want       Status
	}{
		{0, Failed}, {math.Nextafter(0.55, 0), Failed}, {0.55, ReviewRequired}, {0.7, ReviewRequired},
		{math.Nextafter(0.85, 0), ReviewRequired}, {0.85, Succeeded}, {1, Succeeded},
	} {
		if got := b.Judge(c.confidence); got != c.want {
			t.Errorf("a document with the confidence %v is %s, want %s", c.confidence, got, c.want)
		}
	}
	if got := (Batch{}).Judge(0); got != Succeeded {
		t.Errorf("with thresholds of 0 a document is %s", got)
	}
}

// The control: a batch that is written before its documents is found.
func TestHalfMadeBatchIsSeen(t *testing.T) {
	w := start(t)
	examine := hometest.Examine(w.DB)
	n := w.newBatch("batch", 5)
	b := Batch{Tenant: w.project.Tenant, Project: w.project.ID, ID: n.ID, Status: Processing, Documents: 5}
	item := whole(b, b.key(), b.Tenant.BatchEntry(string(Processing), w.Now()), keys.BatchIDEntry(b.ID))
	if _, err := examine.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.Table, Item: item}); err != nil {
		t.Fatal(err)
	}
	if w.unseen(t, n) {
		t.Error("a batch without documents is not found")
	}
}

// A slow creation whose documents are removed meanwhile writes no more.
func TestSlowMaking(t *testing.T) {
	w := start(t)
	n := w.newBatch("batch", 350)
	writes := 0
	s := w.between(func(in any) error {
		if _, ok := in.(*dynamodb.TransactWriteItemsInput); ok {
			if writes++; writes == 2 {
				w.cleaned(t, n)
			}
		}
		return nil
	})
	if _, _, err := s.CreateBatch(t.Context(), n); !errors.Is(err, ErrMoved) || !w.unseen(t, n) {
		t.Errorf("%v", err)
	}
	if got := w.entries(t, "GSI2"); got != 0 {
		t.Errorf("%d documents were written afterwards", got)
	}
}

// A crashed second request for a large batch does not remove the documents of the
// first.
func TestSecondMakingDies(t *testing.T) {
	w := start(t)
	n := w.newBatch("batch", 350)
	b, _, err := w.CreateBatch(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.beginMaking(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.clock.Pass(w.Abandoned + time.Second)
	for shard := range keys.JobShards {
		jobs, err := w.DueJobs(t.Context(), shard)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if ours, err := w.Claim(t.Context(), &j, "janitor", time.Minute); err != nil || !ours {
				t.Fatal(ours, err)
			}
			if j.Kind == JobMake {
				if err := w.Discard(t.Context(), j); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	w.consistent(t, b)
}

// Files that are added repeatedly and concurrently are one document each.
func TestDuplicatesLeaveQuietly(t *testing.T) {
	w := start(t)
	if got := duplicates(t, w, w.Store); got != 150 {
		t.Errorf("150 documents became %d", got)
	}
}

// The control: without the conditions they are counted more than once.
func TestDuplicatesAreNoticed(t *testing.T) {
	hometest.Unusual(t)
	w := start(t)
	if got := duplicates(t, w, w.without()); got == 150 {
		t.Error("without conditions the counts are right: the test finds nothing")
	}
}

// duplicates adds 150 documents from four goroutines, and returns the batch's count.
func duplicates(t *testing.T, w *world, s *Store) int {
	n := w.newBatch("batch", 150)
	first := n
	first.Documents = n.Documents[:10]
	b, _, err := w.CreateBatch(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := 0; i < 150; i += 30 {
				if _, err := s.AddDocuments(t.Context(), b, n.Documents[i:i+30]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	b, err = w.Batch(t.Context(), b.Tenant, b.Project, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	return b.Documents
}

// settleAll settles the documents of a batch by their index: of ten, seven succeed,
// two fail and one needs review.
func settleAll(t *testing.T, w *world, s *Store, b Batch) {
	t.Helper()
	cursor := ""
	var outcomes []Outcome
	for {
		page, err := w.Documents(t.Context(), b, cursor, 100)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range page.Items {
			o := Outcome{Document: d, Status: Succeeded, Attempts: 1, Confidence: 0.9, Result: `{"fields":[]}`}
			switch i % 10 {
			case 0, 1:
				o.Status, o.Result, o.Reason = Failed, "", "unreadable"
			case 2:
				o.Status = ReviewRequired
			}
			outcomes = append(outcomes, o)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for i := range outcomes {
		outcomes[i].Document.Status = Processing
	}
	if _, err := s.Settle(t.Context(), b, outcomes); err != nil {
		t.Error(err)
	}
}

// A batch that is processed concurrently is counted once.
func TestSettledOnce(t *testing.T) {
	w := start(t)
	b := settledByMany(t, w, w.Store)
	b = w.consistent(t, b)
	if b.Failed != 60 || b.Review != 30 || b.Succeeded != 210 {
		t.Errorf("%+v", b.Counts)
	}
	after, done, err := w.Finish(t.Context(), b)
	if err != nil || !done || after.Status != Failed {
		t.Errorf("%+v, %v, %v", after, done, err)
	}
	if got := w.entries(t, "GSI2"); got != 60+30+1 {
		t.Errorf("GSI2 has %d entries, want 60 failed, 30 to review, and the batch", got)
	}
}

// The control: without the condition each of them counts.
func TestSettledTwiceIsNoticed(t *testing.T) {
	hometest.Unusual(t)
	w := start(t)
	b := settledByMany(t, w, w.without())
	b, err := w.Batch(t.Context(), b.Tenant, b.Project, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := w.Recount(t.Context(), b)
	if err != nil || counted == b.Counts {
		t.Errorf("without conditions the counts are right (%+v, %v): the test finds nothing", counted, err)
	}
}

func settledByMany(t *testing.T, w *world, s *Store) Batch {
	t.Helper()
	b, _, err := w.CreateBatch(t.Context(), w.newBatch("batch", 300))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { settleAll(t, w, s, b) })
	}
	all.Wait()
	return b
}

// Reviews and retries change a document once, and its batch with it.
func TestMoves(t *testing.T) {
	w := start(t)
	b, _, err := w.CreateBatch(t.Context(), w.newBatch("batch", 10))
	if err != nil {
		t.Fatal(err)
	}
	settleAll(t, w, w.Store, b)
	b, _, err = w.Finish(t.Context(), b)
	if err != nil || b.Status != Failed {
		t.Fatal(b.Status, err)
	}
	move := func(from, to Status) {
		t.Helper()
		page, err := w.DocumentsIn(t.Context(), b, from, "", 10)
		if err != nil || len(page.Items) == 0 {
			t.Fatal(err)
		}
		o := Outcome{Document: page.Items[0], Status: to, Result: "{}"}
		var won, late atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				switch err := w.Move(t.Context(), b, o); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, ErrMoved):
					late.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 || late.Load() != 3 {
			t.Errorf("%d moved it, %d were too late", won.Load(), late.Load())
		}
		b = w.consistent(t, b)
	}
	move(ReviewRequired, Succeeded)
	if b.Status != Failed || b.Succeeded != 8 {
		t.Errorf("%+v", b)
	}
	move(Failed, Processing)
	if b.Status != Processing {
		t.Errorf("%+v", b)
	}
	jobs := w.entries(t, "GSI3")
	if jobs != 3 { // the batch, its run, and the clearing
		t.Errorf("GSI3 has %d entries", jobs)
	}
}

// Failed items are removed from GSI2 after the retention time, not before; items that
// need review stay; and the time of retried items starts again.
func TestRetention(t *testing.T) {
	w := start(t)
	b, _, err := w.CreateBatch(t.Context(), w.newBatch("batch", 20))
	if err != nil {
		t.Fatal(err)
	}
	settleAll(t, w, w.Store, b)
	if b, _, err = w.Finish(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	clear := func(wantAgain bool) {
		t.Helper()
		b = w.consistent(t, b)
		again, err := w.Clear(t.Context(), b)
		if err != nil || again.IsZero() == wantAgain {
			t.Errorf("clear: again at %v, %v", again, err)
		}
	}
	w.clock.Pass(30*24*time.Hour - time.Hour)
	clear(true)
	if got := w.entries(t, "GSI2"); got != 4+2+1 {
		t.Errorf("before the time GSI2 has %d entries", got)
	}
	page, err := w.DocumentsIn(t.Context(), b, Failed, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Move(t.Context(), b, Outcome{Document: page.Items[0], Status: Processing}); err != nil {
		t.Fatal(err)
	}
	again := page.Items[0]
	again.Status = Processing
	if _, err := w.Settle(t.Context(), b, []Outcome{{Document: again, Status: Failed, Reason: "still"}}); err != nil {
		t.Fatal(err)
	}
	if b, _, err = w.Finish(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.clock.Pass(2 * time.Hour)
	clear(true)
	if got := w.entries(t, "GSI2"); got != 1+2+1 {
		t.Errorf("GSI2 has %d entries, want the one tried again, two to review, and the batch", got)
	}
	w.clock.Pass(30 * 24 * time.Hour)
	clear(false)
	if got := w.entries(t, "GSI2"); got != 2 {
		t.Errorf("GSI2 has %d entries, want the two to review", got)
	}
	if b = w.consistent(t, b); b.Status != Failed || b.Failed != 4 {
		t.Errorf("%+v", b)
	}
}

// Workflows are listed newest change first, page by page.
func TestWorkflowsNewestFirst(t *testing.T) {
	w := start(t)
	var ids []keys.WorkflowID
	for i := range 120 {
		w.clock.Pass(time.Second)
		f, err := w.CreateWorkflow(t.Context(), Workflow{Tenant: w.project.Tenant, Project: w.project.ID, Name: fmt.Sprint(i), Extraction: "{}"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, f.ID)
	}
	w.clock.Pass(time.Second)
	changed, err := w.Workflow(t.Context(), w.project.Tenant, w.project.ID, ids[5])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.ChangeWorkflow(t.Context(), changed, ""); err != nil {
		t.Fatal(err)
	}
	var got []Workflow
	for cursor := ""; ; {
		page, err := w.Workflows(t.Context(), w.project.Tenant, w.project.ID, cursor)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.Items...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(got) != 121 || got[0].ID != ids[5] || got[1].ID != ids[119] {
		t.Errorf("%d workflows, the first is %s", len(got), got[0].Name)
	}
	for i := 1; i < len(got); i++ {
		if got[i].Updated > got[i-1].Updated {
			t.Errorf("%s follows %s", got[i].Updated, got[i-1].Updated)
		}
	}
}

// An invitation is used once, and not after its time.
func TestInvitations(t *testing.T) {
	w := start(t)
	ctx := t.Context()
	bob := User{ID: keys.NewID[keys.UserID](), Email: "bob@example.com", Name: "Bob"}
	code, err := w.Invite(ctx, w.project.Tenant, bob.Email, RoleMember)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := w.newTenant(t)
	_, secret, _ := strings.Cut(code, ".")
	for _, wrong := range []string{"", ".", secret, code + "x", other.Tenant.String() + "." + secret} {
		if _, err := w.Invitation(ctx, wrong); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	i, err := w.Invitation(ctx, code)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Accept(ctx, i, bob); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Accept(ctx, i, bob); !errors.Is(err, ErrNotFound) {
		t.Errorf("used twice: %v", err)
	}
	if u, m, err := w.MemberByEmail(ctx, w.project.Tenant, " Bob@Example.com"); err != nil || u.ID != bob.ID || m.Role != RoleMember {
		t.Errorf("%+v, %+v, %v", u, m, err)
	}
	if _, _, err := w.MemberByEmail(ctx, other.Tenant, bob.Email); !errors.Is(err, ErrNotFound) {
		t.Errorf("found in a tenant of which the person is not a member: %v", err)
	}
	if code, err = w.Invite(ctx, w.project.Tenant, "eve@example.com", RoleAdmin); err != nil {
		t.Fatal(err)
	}
	if i, err = w.Invitation(ctx, code); err != nil {
		t.Fatal(err)
	}
	w.clock.Pass(3*24*time.Hour - time.Minute)
	if _, err := w.Invitation(ctx, code); err != nil {
		t.Errorf("a minute before it expires: %v", err)
	}
	w.clock.Pass(time.Minute)
	if _, err := w.Invitation(ctx, code); !errors.Is(err, ErrNotFound) {
		t.Errorf("expired: %v", err)
	}
	if _, err := w.Accept(ctx, i, User{ID: keys.NewID[keys.UserID](), Email: "eve@example.com"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("accepted when expired: %v", err)
	}
}

// Every item of a batch matches the model: its keys are made of its own attributes.
func TestShapes(t *testing.T) {
	w := start(t)
	b, _, err := w.CreateBatch(t.Context(), w.newBatch("batch", 3))
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.DB.Query(t.Context(), b.Tenant.Documents(b.ID).Query(w.Table))
	if err != nil || len(out.Items) != 3 {
		t.Fatal(err)
	}
	var item map[string]any
	if err := attributevalue.UnmarshalMap(out.Items[0], &item); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"PK":     fmt.Sprintf("TENANT#%s#BATCH#%s", item["tenantId"], item["batchId"]),
		"SK":     fmt.Sprintf("DOCUMENT#%s", item["documentId"]),
		"GSI2PK": fmt.Sprintf("TENANT#%s#BATCH#%s#STATUS#%s", item["tenantId"], item["batchId"], item["status"]),
		"GSI2SK": fmt.Sprint(item["updatedAt"]),
	} {
		if item[name] != want {
			t.Errorf("%s is %v, want %s", name, item[name], want)
		}
	}
}

// The profile of a person that has just joined a tenant is not deleted, although the
// index does not have the membership yet.
func TestPersonThatHasJustJoined(t *testing.T) {
	w := start(t)
	u := User{ID: keys.NewID[keys.UserID](), Email: "bob@example.com", Name: "Bob"}
	tenant, err := w.CreateTenant(t.Context(), "Other", "free", &u)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hometest.Examine(w.DB).DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &w.Table, Key: tenant.ID.Member(u.ID).Attributes()}); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []bool{false, true} {
		if err := w.deletePerson(t.Context(), u.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := w.User(t.Context(), Member{User: u.ID}); errors.Is(err, ErrNotFound) != gone {
			t.Errorf("the person is gone: %v, want %v", err, gone)
		}
		w.clock.Pass(w.Grace)
	}
}

// Of two admins that remove each other at once one remains.
func TestAdminsRemoveEachOther(t *testing.T) {
	w := start(t)
	for range 20 {
		ann, bob := User{ID: keys.NewID[keys.UserID](), Email: "ann@example.com"}, User{ID: keys.NewID[keys.UserID](), Email: "bob@example.com"}
		tenant, err := w.CreateTenant(t.Context(), "Other", "enterprise", &ann)
		if err != nil {
			t.Fatal(err)
		}
		code, err := w.Invite(t.Context(), tenant.ID, bob.Email, RoleAdmin)
		if err != nil {
			t.Fatal(err)
		}
		i, err := w.Invitation(t.Context(), code)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Accept(t.Context(), i, bob); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		for _, pair := range [][2]keys.UserID{{ann.ID, bob.ID}, {bob.ID, ann.ID}} {
			go func() { done <- w.RemoveMember(t.Context(), tenant.ID, pair[0], pair[1]) }()
		}
		first, second := <-done, <-done
		left, err := w.Members(t.Context(), tenant.ID, "")
		if err != nil || len(left.Items) != 1 || (first == nil) == (second == nil) {
			t.Fatalf("%d members are left, %v; the removals: %v, %v", len(left.Items), err, first, second)
		}
	}
}
