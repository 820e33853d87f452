package ledger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/hometest"
)

const date = "2026-02-28"

type books struct {
	*home.Home
	jobs    *ledger.Jobs
	batches *ledger.Batches
	now     time.Time
}

func start(t *testing.T) *books {
	t.Helper()
	// The server's clock is fixed, so that nothing expires meanwhile.
	now := time.Date(2026, 2, 28, 6, 0, 0, 0, time.UTC)
	b := &books{now: now, Home: hometest.StartWith(t, home.Options{Model: hometest.Model(t, "../downloads.model.yaml"), Now: func() time.Time { return now }})}
	b.jobs = &ledger.Jobs{DB: b.DB, Now: func() time.Time { return b.now }}
	b.batches = &ledger.Batches{DB: b.DB, Now: func() time.Time { return b.now }}
	return b
}

func job(entity, batch string) ledger.Job {
	return ledger.Job{FileID: ledger.FileID(entity, date), BatchID: batch, Entity: entity, DownloadDate: date, PresignedURL: "https://x", EncryptedAESKey: "k", EncodedAESIV: "i", Size: 1, SHA256: make([]byte, 32)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func collect(t *testing.T, found func(func(*ledger.Job, error) bool)) []string {
	t.Helper()
	var ids []string
	for j, err := range found {
		must(t, err)
		ids = append(ids, j.FileID)
	}
	slices.Sort(ids)
	return ids
}

// The tables are exactly those of the design.
func TestTables(t *testing.T) {
	b := start(t)
	for table, want := range map[string]struct {
		key     string
		indexes map[string]string
	}{
		"data-download-jobs":    {"FileID:S", map[string]string{"StatusIndex": "Status:S StatusUpdatedAt:N ALL", "BatchIndex": "BatchID:S Status:S ALL"}},
		"data-download-batches": {"BatchID:S", map[string]string{"PollingDateIndex": "PollingDate:S Status:S ALL"}},
	} {
		answer, err := hometest.Examine(b.DB).DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
		must(t, err)
		types := make(map[string]string)
		for _, a := range answer.Table.AttributeDefinitions {
			types[*a.AttributeName] = *a.AttributeName + ":" + string(a.AttributeType)
		}
		if got := types[*answer.Table.KeySchema[0].AttributeName]; got != want.key || len(answer.Table.KeySchema) != 1 {
			t.Errorf("%s has the key %s", table, got)
		}
		if len(answer.Table.GlobalSecondaryIndexes) != len(want.indexes) || answer.Table.BillingModeSummary.BillingMode != "PAY_PER_REQUEST" {
			t.Errorf("%s has %d indexes, billing %v", table, len(answer.Table.GlobalSecondaryIndexes), answer.Table.BillingModeSummary)
		}
		for _, x := range answer.Table.GlobalSecondaryIndexes {
			got := fmt.Sprintf("%s %s %s", types[*x.KeySchema[0].AttributeName], types[*x.KeySchema[1].AttributeName], x.Projection.ProjectionType)
			if got != want.indexes[*x.IndexName] {
				t.Errorf("%s of %s is %q, want %q", *x.IndexName, table, got, want.indexes[*x.IndexName])
			}
		}
		ttl, err := hometest.Examine(b.DB).DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(table)})
		must(t, err)
		if d := ttl.TimeToLiveDescription; d.TimeToLiveStatus != "ENABLED" || *d.AttributeName != "TTL" {
			t.Errorf("the time to live of %s is %+v", table, d)
		}
	}
}

// The eleven access patterns of the design, each by the operation and the index
// that it names.
func TestAccessPatterns(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	id := ledger.NewID(date)
	var claimed *ledger.Job
	patterns := []struct {
		name, operation string
		do              func() error
	}{
		{"create batch record", "PutItem data-download-batches ", func() error { return second(b.batches.Create(ctx, id, date)) }},
		{"write new job record", "PutItem data-download-jobs ", func() error {
			for _, e := range []string{"accounts", "cards"} {
				if there, err := b.jobs.Queue(ctx, job(e, id)); err != nil || there != nil {
					return fmt.Errorf("%v, %w", there, err)
				}
			}
			there, err := b.jobs.Queue(ctx, job("accounts", "another"))
			if err == nil && (there == nil || there.BatchID != id) {
				return fmt.Errorf("a job was overwritten: %+v", there)
			}
			return err
		}},
		{"update batch", "UpdateItem data-download-batches ", func() error {
			return second(b.batches.Expect(ctx, id, []string{"accounts-" + date, "cards-" + date}, ""))
		}},
		{"claim a file", "UpdateItem data-download-jobs ", func() (err error) {
			claimed, err = b.jobs.Claim(ctx, "accounts-"+date, "me")
			return err
		}},
		{"find stuck files", "Query data-download-jobs StatusIndex", func() error {
			b.now = b.now.Add(31 * time.Minute)
			if got := collect(t, b.jobs.Since(ctx, ledger.Downloading, b.now.Add(-30*time.Minute))); !slices.Equal(got, []string{"accounts-" + date}) {
				return fmt.Errorf("stuck files are %v", got)
			}
			if got := collect(t, b.jobs.Since(ctx, ledger.Downloading, b.now.Add(-40*time.Minute))); got != nil {
				return fmt.Errorf("longer stuck files are %v", got)
			}
			return nil
		}},
		{"update file status", "UpdateItem data-download-jobs ", func() error { return b.jobs.Complete(ctx, claimed) }},
		{"check a file", "GetItem data-download-jobs ", func() error {
			j, err := b.jobs.Get(ctx, "accounts-"+date)
			if err == nil && j.Status != ledger.Completed {
				err = fmt.Errorf("it is %s", j.Status)
			}
			return err
		}},
		{"all files of a batch", "Query data-download-jobs BatchIndex", func() error {
			if got := collect(t, b.jobs.OfBatch(ctx, id, "")); len(got) != 2 {
				return fmt.Errorf("there are %v", got)
			}
			return nil
		}},
		{"completed files of a batch", "Query data-download-jobs BatchIndex", func() error {
			if got := collect(t, b.jobs.OfBatch(ctx, id, ledger.Completed)); !slices.Equal(got, []string{"accounts-" + date}) {
				return fmt.Errorf("there are %v", got)
			}
			return nil
		}},
		{"today's batch", "Query data-download-batches PollingDateIndex", func() error {
			found, err := b.batches.OfDay(ctx, date, "")
			if err == nil && (len(found) != 1 || found[0].BatchID != id) {
				err = fmt.Errorf("found %v", found)
			}
			return err
		}},
		{"batches of a day that timed out", "Query data-download-batches PollingDateIndex", func() error {
			found, err := b.batches.OfDay(ctx, date, ledger.Timeout)
			if err == nil && len(found) != 0 {
				err = fmt.Errorf("found %v before", found)
			}
			if err := errors.Join(err, second(b.batches.Finish(ctx, id, ledger.Timeout, nil, nil, "late"))); err != nil {
				return err
			}
			found, err = b.batches.OfDay(ctx, date, ledger.Timeout)
			if err == nil && (len(found) != 1 || found[0].TimeoutAt == "") {
				err = fmt.Errorf("found %v", found)
			}
			return err
		}},
	}
	if len(patterns) != 11 {
		t.Fatalf("%d patterns", len(patterns))
	}
	for _, p := range patterns {
		before := b.seen(t)
		if err := p.do(); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		after := b.seen(t)
		if after[p.operation] == before[p.operation] {
			t.Errorf("%s was not served by %s", p.name, p.operation)
		}
		for operation, n := range after {
			if strings.HasPrefix(operation, "Scan") || n != before[operation] && operation != p.operation && p.name != "batches of a day that timed out" {
				t.Errorf("%s was served by %s too", p.name, operation)
			}
		}
	}
}

// seen returns the server's request counts by operation and index.
func (b *books) seen(t *testing.T) map[string]int64 {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://stator.invalid/shapes", nil)
	must(t, err)
	r.Header.Set("X-Amz-Date", time.Now().UTC().Format("20060102T150405Z"))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=app/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	answer, err := b.Stator.Client().Do(r)
	must(t, err)
	defer answer.Body.Close()
	var reply struct {
		Shapes []struct {
			Operation, Table, Index string
			Requests                int64
		}
	}
	must(t, json.NewDecoder(answer.Body).Decode(&reply))
	sums := make(map[string]int64)
	for _, s := range reply.Shapes {
		sums[s.Operation+" "+s.Table+" "+s.Index] += s.Requests
	}
	return sums
}

// A claim that had a heartbeat after it was read as silent is neither requeued nor abandoned;
// an operator may requeue it nevertheless.
func TestLateHeartbeat(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	j := job("a", "batch")
	_, err := b.jobs.Queue(ctx, j)
	must(t, err)
	claimed, err := b.jobs.Claim(ctx, j.FileID, "mine")
	must(t, err)
	b.now = b.now.Add(31 * time.Second)
	silent, err := b.jobs.Get(ctx, j.FileID)
	must(t, err)
	must(t, b.jobs.Beat(ctx, claimed, 1))
	if err := second(b.jobs.Requeue(ctx, silent, false)); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("a live claim is requeued: %v", err)
	}
	if err := b.jobs.Abandon(ctx, silent, "r"); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("a live claim is abandoned: %v", err)
	}
	must(t, b.jobs.Beat(ctx, claimed, 2))
	must(t, second(b.jobs.Requeue(ctx, silent, true)))
	if err := b.jobs.Beat(ctx, claimed, 3); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("the claim of a requeued job is kept: %v", err)
	}
	_, err = b.jobs.Claim(ctx, j.FileID, "other")
	must(t, err)
	silent, err = b.jobs.Get(ctx, j.FileID)
	must(t, err)
	must(t, b.jobs.Abandon(ctx, silent, "r"))
	if now, err := b.jobs.Get(ctx, j.FileID); err != nil || now.Status != ledger.Error {
		t.Errorf("the abandoned job is %+v, %v", now, err)
	}
}

// From each status of a job, each change succeeds or fails as the state machine says.
func TestJobMachine(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	reach := map[ledger.Status]func(*ledger.Job) error{
		ledger.Available:   func(*ledger.Job) error { return nil },
		ledger.Downloading: func(*ledger.Job) error { return nil },
		ledger.Completed:   func(j *ledger.Job) error { return b.jobs.Complete(ctx, j) },
		ledger.Failed:      func(j *ledger.Job) error { return b.jobs.Fail(ctx, j, ledger.Failed, "r") },
		ledger.Error:       func(j *ledger.Job) error { return b.jobs.Fail(ctx, j, ledger.Error, "r") },
	}
	changes := []struct {
		name string
		from string
		do   func(*ledger.Job) error
	}{
		{"claim", "available", func(j *ledger.Job) error { _, err := b.jobs.Claim(ctx, j.FileID, "other"); return err }},
		{"keep", "downloading", func(j *ledger.Job) error { return b.jobs.Beat(ctx, j, 1) }},
		{"renew", "downloading", func(j *ledger.Job) error { return b.jobs.Renew(ctx, j, *j) }},
		{"complete", "downloading", func(j *ledger.Job) error { return b.jobs.Complete(ctx, j) }},
		{"fail", "downloading", func(j *ledger.Job) error { return b.jobs.Fail(ctx, j, ledger.Failed, "r") }},
		{"release", "downloading", func(j *ledger.Job) error { return b.jobs.Release(ctx, j) }},
		{"touch", "available", func(j *ledger.Job) error { return second(b.jobs.Touch(ctx, j)) }},
		{"requeue", "available downloading failed error", func(j *ledger.Job) error { return second(b.jobs.Requeue(ctx, j, false)) }},
		{"take over", "failed error", func(j *ledger.Job) error { k := *j; k.BatchID = "another"; return b.jobs.TakeOver(ctx, j, k) }},
		{"take over as the same batch", "", func(j *ledger.Job) error { return b.jobs.TakeOver(ctx, j, *j) }},
	}
	n := 0
	for from, do := range reach {
		for _, c := range changes {
			n++
			j := job(fmt.Sprint("f", n), "b")
			_, err := b.jobs.Queue(ctx, j)
			must(t, err)
			if from != ledger.Available {
				_, err := b.jobs.Claim(ctx, j.FileID, "mine")
				must(t, err)
			}
			now, err := b.jobs.Get(ctx, j.FileID)
			must(t, err)
			must(t, do(now))
			now, err = b.jobs.Get(ctx, j.FileID)
			must(t, err)
			if now.Claim == "" {
				now.Claim = "mine"
			}
			err = c.do(now)
			if allowed := slices.Contains(strings.Fields(c.from), string(from)); allowed != (err == nil) || err != nil && !errors.Is(err, ledger.ErrLost) {
				// Ending twice in the same way is a repetition.
				if !(c.name == "complete" && from == ledger.Completed || c.name == "fail" && from == ledger.Failed) {
					t.Errorf("%s a job that is %s: %v", c.name, from, err)
				}
			}
		}
	}
}

// A foreign claim cannot change a job.
func TestStrangersClaim(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	_, err := b.jobs.Queue(ctx, job("a", "b"))
	must(t, err)
	mine, err := b.jobs.Claim(ctx, "a-"+date, "mine")
	must(t, err)
	if again, err := b.jobs.Claim(ctx, "a-"+date, "mine"); err != nil || again.Tries != 1 {
		t.Errorf("a repeated claim whose reply was lost: %+v, %v", again, err)
	}
	theirs := *mine
	theirs.Claim = "theirs"
	for name, err := range map[string]error{
		"beat": b.jobs.Beat(ctx, &theirs, 1), "complete": b.jobs.Complete(ctx, &theirs), "fail": b.jobs.Fail(ctx, &theirs, ledger.Error, ""), "release": b.jobs.Release(ctx, &theirs),
	} {
		if !errors.Is(err, ledger.ErrLost) {
			t.Errorf("%s with a foreign claim: %v", name, err)
		}
	}
	// The time grows although the clock is fixed, or set back.
	b.now = b.now.Add(-time.Hour)
	before := mine.HeartbeatAt
	must(t, b.jobs.Beat(ctx, mine, 1))
	if mine.HeartbeatAt <= before {
		t.Errorf("a heartbeat at %d after one at %d", mine.HeartbeatAt, before)
	}
	for _, err := range []error{b.jobs.Complete(ctx, &ledger.Job{FileID: "nobody", Claim: "x"}), second(b.jobs.Claim(ctx, "nobody", "x")), second(b.jobs.Get(ctx, "nobody"))} {
		if !errors.Is(err, ledger.ErrUnknown) {
			t.Errorf("of an unknown file: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// From each status of a batch, each change succeeds or fails as the state machine says.
func TestBatchMachine(t *testing.T) {
	b := start(t)
	b.batches.DB = hometest.Examine(b.DB) // some of these updates the program never sends
	ctx := t.Context()
	ids := []string{"a-" + date}
	steps := map[ledger.Status]func(id string) error{
		ledger.Queued:    func(id string) error { return second(b.batches.Expect(ctx, id, ids, "")) },
		ledger.Completed: func(id string) error { return second(b.batches.Finish(ctx, id, ledger.Completed, ids, nil, "")) },
		ledger.Failed:    func(id string) error { return second(b.batches.Finish(ctx, id, ledger.Failed, nil, ids, "r")) },
		ledger.Timeout:   func(id string) error { return second(b.batches.Finish(ctx, id, ledger.Timeout, nil, nil, "r")) },
		"reopened": func(id string) error {
			now, err := b.batches.Get(ctx, id)
			if err != nil {
				return err
			}
			after, err := b.batches.Reopen(ctx, now)
			if err == nil && (after.Status != ledger.Queued || after.FailedFiles != nil || after.TimeoutAt != "" || after.ErrorMessage != "" || after.ReopenedAt == "" || !slices.Equal(after.ExpectedFiles, ids)) {
				t.Errorf("reopened it is %+v", after)
			}
			return err
		},
	}
	allowed := map[ledger.Status][]ledger.Status{
		ledger.Initiated: {ledger.Queued},
		ledger.Queued:    {ledger.Completed, ledger.Failed, ledger.Timeout},
		ledger.Failed:    {"reopened"},
		ledger.Timeout:   {"reopened"},
	}
	for _, from := range []ledger.Status{ledger.Initiated, ledger.Queued, ledger.Completed, ledger.Failed, ledger.Timeout} {
		for to, step := range steps {
			id := ledger.NewID(date)
			must(t, second(b.batches.Create(ctx, id, date)))
			if from != ledger.Initiated {
				must(t, steps[ledger.Queued](id))
			}
			if from != ledger.Initiated && from != ledger.Queued {
				must(t, steps[from](id))
			}
			if err := step(id); slices.Contains(allowed[from], to) != (err == nil) || err != nil && !errors.Is(err, ledger.ErrLost) {
				t.Errorf("from %s to %s: %v", from, to, err)
			}
			b.now = b.now.Add(time.Millisecond)
			if err := second(b.batches.Create(ctx, id, date)); !errors.Is(err, ledger.ErrLost) {
				t.Errorf("created again: %v", err)
			}
		}
	}
}

// When a job got its status is not changed by heartbeats and by messages that are sent
// again, so files are found by how long they have had it, however alive their downloader
// and their sweeper are.
func TestSinceWhen(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	for _, e := range []string{"waiting", "slow"} {
		must(t, second(b.jobs.Queue(ctx, job(e, "b"))))
	}
	slow, err := b.jobs.Claim(ctx, "slow-"+date, "mine")
	must(t, err)
	entered := b.now
	for range 12 {
		b.now = b.now.Add(5 * time.Minute)
		must(t, b.jobs.Beat(ctx, slow, 7))
		waiting, err := b.jobs.Get(ctx, "waiting-"+date)
		must(t, err)
		must(t, second(b.jobs.Touch(ctx, waiting)))
	}
	for status, id := range map[ledger.Status]string{ledger.Available: "waiting-" + date, ledger.Downloading: "slow-" + date} {
		if got := collect(t, b.jobs.Since(ctx, status, b.now.Add(-time.Hour))); !slices.Equal(got, []string{id}) {
			t.Errorf("%s for an hour are %v", status, got)
		}
		if got := collect(t, b.jobs.Since(ctx, status, b.now.Add(-61*time.Minute))); got != nil {
			t.Errorf("%s for longer are %v", status, got)
		}
		if since, err := b.jobs.Oldest(ctx, status); err != nil || !since.Equal(entered) {
			t.Errorf("the oldest %s job has been so since %v, %v", status, since, err)
		}
	}
	now, err := b.jobs.Get(ctx, "slow-"+date)
	must(t, err)
	if now.HeartbeatAt != b.now.UnixMilli() || now.Received != 7 {
		t.Errorf("the heartbeat is at %d with %d bytes", now.HeartbeatAt, now.Received)
	}
	// A waiting file that an operator queues again has waited as long as before; a slow
	// one begins to wait.
	waiting, err := b.jobs.Get(ctx, "waiting-"+date)
	must(t, err)
	if after, err := b.jobs.Requeue(ctx, waiting, false); err != nil || after.StatusUpdatedAt != entered.UnixMilli() {
		t.Errorf("requeued it is %+v, %v", after, err)
	}
	if after, err := b.jobs.Requeue(ctx, now, false); err != nil || after.StatusUpdatedAt != b.now.UnixMilli() || after.Status != ledger.Available || after.HeartbeatAt != 0 {
		t.Errorf("requeued it is %+v, %v", after, err)
	}
	for status, want := range map[ledger.Status]int{ledger.Available: 2, ledger.Downloading: 0, ledger.Completed: 0} {
		if n, err := b.jobs.Count(ctx, status); err != nil || n != want {
			t.Errorf("%d jobs are %s, %v", n, status, err)
		}
	}
	if since, err := b.jobs.Oldest(ctx, ledger.Failed); err != nil || !since.IsZero() {
		t.Errorf("the oldest failed job is of %v, %v", since, err)
	}
}

// The files of a batch: with their reasons, those of another batch of the day too, and
// those without a record.
func TestFiles(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	first, other := ledger.NewID(date), ledger.NewID(date)
	for _, id := range []string{first, other} {
		must(t, second(b.batches.Create(ctx, id, date)))
	}
	end := map[string]func(*ledger.Job) error{
		"done":   func(j *ledger.Job) error { return b.jobs.Complete(ctx, j) },
		"broken": func(j *ledger.Job) error { return b.jobs.Fail(ctx, j, ledger.Failed, "no luck") },
		"forged": func(j *ledger.Job) error { return b.jobs.Fail(ctx, j, ledger.Error, "wrong key") },
		"again":  func(j *ledger.Job) error { return b.jobs.Fail(ctx, j, ledger.Failed, "no luck") },
		"slow":   func(*ledger.Job) error { return nil },
	}
	var ids []string
	for e, do := range end {
		must(t, second(b.jobs.Queue(ctx, job(e, first))))
		ids = append(ids, ledger.FileID(e, date))
		j, err := b.jobs.Claim(ctx, ledger.FileID(e, date), "mine")
		must(t, err)
		must(t, do(j))
	}
	now, err := b.batches.Get(ctx, first)
	must(t, err)
	describe := func(of *ledger.Batch) (all []string) {
		batches, err := b.batches.OfDay(ctx, date, "")
		must(t, err)
		jobs, err := b.jobs.OfDay(ctx, batches)
		must(t, err)
		for _, f := range of.Files(jobs) {
			all = append(all, fmt.Sprintf("%s %s %s", strings.TrimSuffix(f.FileID, "-"+date), f.Status, f.Reason))
		}
		return all
	}
	want := []string{"again failed no luck", "broken failed no luck", "done completed ", "forged error wrong key", "slow downloading "}
	if got := describe(now); !slices.Equal(got, want) {
		t.Errorf("while it is initiated the files are %q", got)
	}
	refused, gone := ledger.RefusedID("x", date), "gone-"+date
	ids = append(ids, refused, gone)
	now, err = b.batches.Expect(ctx, first, ids, "")
	must(t, err)
	want = []string{"again failed no luck", "broken failed no luck", "done completed ", "forged error wrong key", "gone failed its record was deleted or has expired",
		"refused.x failed the upstream's entry was not accepted; the batch has the reason", "slow downloading "}
	if got := describe(now); !slices.Equal(got, want) {
		t.Errorf("while it is queued the files are %q", got)
	}
	if counts := ledger.Tally(now.Files(nil)); counts[ledger.Failed] != len(ids) {
		t.Errorf("without any record the counts are %v", counts)
	}
	now, err = b.batches.Finish(ctx, first, ledger.Timeout, []string{"done-" + date}, []string{"broken-" + date, "forged-" + date, "again-" + date, refused, gone}, "late")
	must(t, err)
	was, err := b.jobs.Get(ctx, "again-"+date)
	must(t, err)
	must(t, b.jobs.TakeOver(ctx, was, job("again", other)))
	if err := b.jobs.TakeOver(ctx, was, job("again", "late")); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("taken over twice: %v", err)
	}
	want[0] = "again failed it failed, and is available now by " + other
	want[4] = "gone failed "
	if got := describe(now); !slices.Equal(got, want) {
		t.Errorf("after its end the files are %q", got)
	}
	// The second batch expects the same files; only one job is its own.
	second, err := b.batches.Expect(ctx, other, ids[:5], "")
	must(t, err)
	if got := describe(second); len(got) != 5 || got[0] != "again available " || got[2] != "done completed " {
		t.Errorf("the files of the second batch are %q", got)
	}
}

// The maximum of ids fits into a batch's record, at its end too.
func TestLargestBatch(t *testing.T) {
	b := start(t)
	b.batches.DB = hometest.Examine(b.DB) // such batches are rare
	ctx := t.Context()
	for _, length := range []int{22, 40, 111} {
		var ids []string
		for i := 0; ledger.IDBytes(ids)+length <= ledger.MaxIDBytes; i++ {
			ids = append(ids, fmt.Sprintf("%0*d", length, i))
		}
		id := ledger.NewID(date)
		must(t, second(b.batches.Create(ctx, id, date)))
		must(t, second(b.batches.Expect(ctx, id, ids, strings.Repeat("r", 3000))))
		must(t, second(b.batches.Finish(ctx, id, ledger.Timeout, ids[1:], ids[:1], strings.Repeat("r", 3000))))
		got, err := b.batches.Get(ctx, id)
		must(t, err)
		if len(got.ExpectedFiles) != len(ids) || len(got.CompletedFiles)+len(got.FailedFiles) != len(ids) || len(got.Outstanding()) != 0 {
			t.Errorf("of %d ids of %d bytes %d are stored", len(ids), length, len(got.ExpectedFiles))
		}
		t.Logf("%d ids of %d bytes fit", len(ids), length)
	}
}

// A month with every kind of day.
func TestAudit(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	batch := func(day string, as ledger.Status, expected, completed []string) (id string) {
		b.now = b.now.Add(time.Second)
		id = ledger.NewID(day)
		must(t, second(b.batches.Create(ctx, id, day)))
		if as == ledger.Initiated {
			return id
		}
		must(t, second(b.batches.Expect(ctx, id, expected, "")))
		if as != ledger.Queued {
			must(t, second(b.batches.Finish(ctx, id, as, completed, nil, "")))
		}
		return id
	}
	ab := []string{"a", "b"}
	batch("2026-03-01", ledger.Completed, ab, ab)
	late := batch("2026-03-02", ledger.Failed, ab, ab[:1])
	batch("2026-03-03", ledger.Timeout, ab, ab[:1])
	batch("2026-03-03", ledger.Completed, ab, ab)
	batch("2026-03-04", ledger.Queued, ab, nil)
	batch("2026-03-05", ledger.Initiated, nil, nil)
	batch("2026-03-06", ledger.Timeout, nil, nil)
	batch("2026-03-07", ledger.Completed, nil, nil)
	days, err := b.batches.Audit(ctx, b.jobs, "2026-03", "2026-03-09")
	must(t, err)
	var got []string
	for _, d := range days {
		got = append(got, fmt.Sprintf("%s %d/%d %v", d.Verdict, d.Received, d.Expected, d.Missing))
	}
	want := []string{"complete 2/2 []", "incomplete 1/2 [b]", "complete 2/2 []", "running 0/2 [a b]", "running 0/0 []", "incomplete 0/0 []", "complete 0/0 []", "no batch 0/0 []", "to come 0/0 []"}
	if len(got) != 31 || !slices.Equal(got[:9], want) || got[30] != "to come 0/0 []" {
		t.Errorf("the audit is %q", got)
	}
	// A file that was completed after its batch ended counts, and the list has each file.
	must(t, second(b.jobs.Queue(ctx, ledger.Job{FileID: "b", BatchID: late, Entity: "b"})))
	j, err := b.jobs.Claim(ctx, "b", "mine")
	must(t, err)
	must(t, b.jobs.Complete(ctx, j))
	days, err = b.batches.Audit(ctx, b.jobs, "2026-03", "2026-03-09")
	must(t, err)
	if d := days[1]; d.Verdict != ledger.Whole || d.Received != 2 || d.Missing != nil ||
		!slices.Equal(d.Files, []ledger.Received{{FileID: "a", Received: true, BatchID: late}, {FileID: "b", Received: true, BatchID: late, Late: true}}) {
		t.Errorf("with a late file the day is %+v", d)
	}
	if _, err := b.batches.Audit(ctx, b.jobs, "March", "2026-03-09"); err == nil {
		t.Error("March is accepted as a month")
	}
}

// Invalid names and days are rejected.
func TestNames(t *testing.T) {
	for _, name := range []string{"accounts", "a", "A-1_b.c", strings.Repeat("a", 100)} {
		if err := ledger.CheckEntity(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", `a\b`, "../a", "a..b", "a.", "-a", "a b", "a\x00", "ä", "a.tmp", strings.Repeat("a", 101)} {
		if ledger.CheckEntity(name) == nil {
			t.Errorf("%q is accepted as a name", name)
		}
	}
	for _, day := range []string{"", "2026-02-29", "2026-2-1", "../..", "2026-02-28T00:00:00Z", "1969-01-01"} {
		if ledger.CheckDate(day) == nil {
			t.Errorf("%q is accepted as a day", day)
		}
	}
}
