package downloads_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/upstream"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
	"github.com/stator-db/stator/apps/internal/hometest"
)

var keyFolder string

func TestMain(m *testing.M) {
	flag.Parse()
	folder, err := os.MkdirTemp("", "downloads-test")
	if err != nil {
		panic(err)
	}
	keyFolder = folder
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// A day of ten files, most of them with a temporary fault.
func TestTen(t *testing.T) {
	r := start(t, func(o *downloads.Options, _ *stand.Options) {
		o.Bucket = "file://" + t.TempDir() // folders are the hardest to keep clean
	})
	for i, f := range []string{"slow", "broken", "stalled", "truncated", "longer", "corrupt", "norange", "expired", "missing", "unavailable"} {
		if err := r.up.Fault(stand.Entity(i), f, 1); err != nil {
			t.Fatal(err)
		}
	}
	b := r.batch()
	if b.Status != ledger.Completed || !slices.Equal(b.ExpectedFiles, r.ids(10)) || !slices.Equal(b.CompletedFiles, r.ids(10)) || b.FailedFiles != nil || b.TimeoutAt != "" {
		t.Errorf("the batch is %+v", b)
	}
	r.holds(all(10)...)
	created, _ := time.Parse(time.RFC3339, b.CreatedAt)
	if days := float64(b.TTL-created.Unix()) / 86400; days != 90 {
		t.Errorf("the batch lives %v days", days)
	}
	for _, entity := range all(10) {
		j := r.job(entity)
		created, _ := time.Parse(time.RFC3339, j.CreatedAt)
		if days := float64(j.TTL-created.Unix()) / 86400; j.Status != ledger.Completed || j.CompletedAt == "" || j.Tries != 1 || days != 30 {
			t.Errorf("the job is %+v and lives %v days", j, days)
		}
	}
	for i, want := range []stand.Served{1: {Starts: 1, Resumes: 1, AtOnce: 1}, 2: {Starts: 1, Resumes: 1, AtOnce: 1}, 3: {Starts: 1, Resumes: 1, AtOnce: 1}, 5: {Starts: 2, AtOnce: 1}} {
		if want == (stand.Served{}) {
			continue
		}
		got := r.up.Counts(ledger.FileID(stand.Entity(i), r.date))
		got.AtOnce = 1 // the server may notice the end of a request late
		if got != want {
			t.Errorf("%s was served %+v, want %+v", stand.Entity(i), got, want)
		}
	}

	// Another batch of the day finds all files completed, and queues nothing.
	before := r.up.Counts(r.ids(10)[0])
	again := r.batch()
	if again.BatchID == b.BatchID || again.Status != ledger.Completed || len(again.CompletedFiles) != 10 || r.up.Counts(r.ids(10)[0]) != before {
		t.Errorf("the second batch is %+v", again)
	}
	if both, err := r.Batches.OfDay(t.Context(), r.date, ""); err != nil || len(both) != 2 {
		t.Errorf("the day has %d batches, %v", len(both), err)
	}
}

// A day of five thousand files (of some hundred under the race detector), checked by BatchIndex, and a second batch of it.
func TestThousands(t *testing.T) {
	hometest.Unusual(t)
	const n = manyFiles
	r := start(t, func(o *downloads.Options, u *stand.Options) {
		u.Files, u.Size = n, 200
		o.Parallel, o.Every, o.Timeout = 16, 200*time.Millisecond, 10*time.Minute
	})
	b := r.batch()
	if b.Status != ledger.Completed || len(b.ExpectedFiles) != n || !slices.Equal(b.ExpectedFiles, b.CompletedFiles) {
		t.Errorf("the batch is %s with %d expected and %d completed: %s", b.Status, len(b.ExpectedFiles), len(b.CompletedFiles), b.ErrorMessage)
	}
	r.holds(all(n)...)
	if again := r.batch(); again.Status != ledger.Completed || len(again.CompletedFiles) != n {
		t.Errorf("the second batch is %s with %d completed", again.Status, len(again.CompletedFiles))
	}
}

// A file with a permanent fault ends with a status and a reason, and is not in the
// bucket. Another batch downloads it when the fault is gone.
func TestEndings(t *testing.T) {
	r := start(t, nil)
	cases := map[string]struct {
		status ledger.Status
		reason string
	}{
		"missing": {ledger.Failed, "404"}, "expired": {ledger.Failed, "renewed 3 times"}, "unavailable": {ledger.Failed, "503"},
		"corrupt": {ledger.Failed, "SHA-256"}, "longer": {ledger.Failed, "were listed"}, "truncated": {ledger.Failed, "byte"},
		"forgedkey": {ledger.Error, "not wrapped for our RSA key"}, "forgedsum": {ledger.Failed, "SHA-256"},
	}
	victims := all(10)
	of := make(map[string]string)
	for f := range cases {
		of[f], victims = victims[0], victims[1:]
		if err := r.up.Fault(of[f], f, 1_000_000); err != nil {
			t.Fatal(err)
		}
	}
	b := r.batch()
	if b.Status != ledger.Failed || len(b.ExpectedFiles) != 10 || len(b.FailedFiles)+len(b.CompletedFiles) != 10 || len(b.FailedFiles) != len(cases) || !strings.Contains(b.ErrorMessage, "of 10 files failed") {
		t.Errorf("the batch is %+v", b)
	}
	for f, want := range cases {
		j := r.job(of[f])
		if j.Status != want.status || !strings.Contains(j.ErrorMessage, want.reason) || strings.Contains(j.ErrorMessage, "signature=") {
			t.Errorf("%s ends as %s: %q, want %s: …%s…", f, j.Status, j.ErrorMessage, want.status, want.reason)
		}
		r.up.Fault(of[f], f, 0)
	}
	again := r.batch()
	if again.Status != ledger.Completed || len(again.CompletedFiles) != 10 {
		t.Errorf("without faults the batch is %+v", again)
	}
	r.holds(all(10)...)
	if first, err := r.Batches.Get(t.Context(), b.BatchID); err != nil || first.Status != ledger.Failed {
		t.Errorf("the first batch is now %v, %v", first, err)
	}
	days, err := r.Batches.Audit(t.Context(), r.Jobs, r.date[:7], r.date)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range days {
		if d.Date == r.date && (d.Verdict != ledger.Whole || d.Batches != 2 || d.Received != 10) {
			t.Errorf("the audit is %+v", d)
		}
	}
}

// A file above the size limit, and all files with a wrong RSA key.
func TestTooLargeAndWrongKey(t *testing.T) {
	r := start(t, func(o *downloads.Options, u *stand.Options) { o.MaxSize, u.Files = 100, 1 })
	if b := r.batch(); b.Status != ledger.Failed || r.job("accounts").Status != ledger.Error || !strings.Contains(r.job("accounts").ErrorMessage, "--max-size") {
		t.Errorf("a file that is too large: %+v, %+v", b, r.job("accounts"))
	}
	r.holds()
	other, err := sealKey(t)
	if err != nil {
		t.Fatal(err)
	}
	r = start(t, func(o *downloads.Options, u *stand.Options) { o.KeyFile = other })
	b := r.batch()
	if b.Status != ledger.Failed || len(b.FailedFiles) != 10 {
		t.Errorf("with a wrong key the batch is %+v", b)
	}
	if j := r.job("fees"); j.Status != ledger.Error || !strings.Contains(j.ErrorMessage, "RSA key SHA256:") {
		t.Errorf("with a wrong key a job is %+v", j)
	}
	r.holds()
}

// URLs that expire while files wait are renewed.
func TestExpiry(t *testing.T) {
	now := time.Now
	late := false
	r := open(t, func(o *downloads.Options, u *stand.Options) {
		u.Now = func() time.Time {
			if late {
				return now().Add(time.Hour)
			}
			return now()
		}
	})
	id, err := r.Keeper.Trigger(t.Context(), r.date)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Keeper.Poller.Upstream.List(t.Context(), r.date); err != nil {
		t.Fatal(err)
	}
	queueOnly(t, r, id)
	late = true
	runFor(t, r)
	if b := r.end(id); b.Status != ledger.Completed {
		t.Errorf("the batch is %+v", b)
	}
	r.holds(all(10)...)
}

// Invalid entries of the upstream's list are rejected; the valid files are downloaded.
func TestBadLists(t *testing.T) {
	good := func(r *rig) upstream.File {
		f, err := r.Keeper.Poller.Upstream.Ask(t.Context(), r.date, "accounts")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	cases := []struct {
		name, reason string
		change       func(*upstream.File)
	}{
		{"a path up", "is not 1 to 100", func(f *upstream.File) { f.Entity = "../../etc/passwd" }},
		{"an absolute path", "is not 1 to 100", func(f *upstream.File) { f.Entity = "/etc/passwd" }},
		{"dots", "two consecutive dots", func(f *upstream.File) { f.Entity = "a..b" }},
		{"a line break", "is not 1 to 100", func(f *upstream.File) { f.Entity = "a\nb" }},
		{"no name", "is not 1 to 100", func(f *upstream.File) { f.Entity = "" }},
		{"a long name", "is not 1 to 100", func(f *upstream.File) { f.Entity = strings.Repeat("a", 3000) }},
		{"a name of the bucket's own", "the bucket's own", func(f *upstream.File) { f.Entity = "a.tmp" }},
		{"a local URL", "not an HTTP URL", func(f *upstream.File) { f.Entity = "x"; f.URL = "file:///etc/passwd" }},
		{"another scheme", `scheme is "gopher"`, func(f *upstream.File) { f.Entity = "x"; f.URL = "gopher://host/x" }},
		{"a long URL", "bytes, more than", func(f *upstream.File) { f.Entity = "x"; f.URL += strings.Repeat("x", 5000) }},
		{"a long key", "the wrapped key has", func(f *upstream.File) { f.Entity = "x"; f.Key = strings.Repeat("k", 5000) }},
		{"a short IV", "the IV is not", func(f *upstream.File) { f.Entity = "x"; f.IV = "AAAA" }},
		{"no checksum", "not 64 hex digits", func(f *upstream.File) { f.Entity = "x"; f.SHA256 = "" }},
		{"a negative size", "the size is -1", func(f *upstream.File) { f.Entity = "x"; f.Size = -1 }},
		{"listed twice with other contents", "is listed twice", func(f *upstream.File) { f.SHA256 = strings.Repeat("0", 64) }},
	}
	r := start(t, func(_ *downloads.Options, u *stand.Options) { u.Files = 2 })
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.date = time.Now().UTC().AddDate(0, 0, -i).Format(time.DateOnly)
			f := good(r)
			c.change(&f)
			r.up.Day(r.date, 2, f)
			b := r.batch()
			if b.Status != ledger.Failed || len(b.ExpectedFiles) != 3 || !slices.Equal(b.CompletedFiles, r.ids(2)) || len(b.FailedFiles) != 1 || !strings.HasPrefix(b.FailedFiles[0], "refused.") || !strings.Contains(b.ErrorMessage, c.reason) {
				t.Errorf("the batch is %+v", b)
			}
		})
	}
	t.Run("listed twice", func(t *testing.T) {
		r.date = time.Now().UTC().AddDate(0, 0, -len(cases)).Format(time.DateOnly)
		r.up.Day(r.date, 2, good(r))
		if b := r.batch(); b.Status != ledger.Completed || len(b.ExpectedFiles) != 2 {
			t.Errorf("the batch is %+v", b)
		}
	})
}

// A day that cannot be listed ends with a reason; a day that is published late completes.
func TestNoList(t *testing.T) {
	for _, c := range []struct {
		fault  string
		times  int
		status ledger.Status
		reason string
	}{
		{"badjson", 1, ledger.Completed, ""},
		{"badjson", 1000, ledger.Failed, "not the expected JSON"},
		{"notready", 3, ledger.Completed, ""},
		{"notready", 100_000, ledger.Timeout, "has not published the day"},
		{"unavailable", 100_000, ledger.Timeout, "503"},
	} {
		t.Run(fmt.Sprint(c.fault, c.times), func(t *testing.T) {
			r := start(t, func(o *downloads.Options, _ *stand.Options) {
				o.Every = 5 * time.Millisecond
				if c.status == ledger.Timeout {
					o.Timeout = 100 * time.Millisecond
				}
			})
			r.up.Fault(r.date, c.fault, c.times)
			b := r.batch()
			if b.Status != c.status || !strings.Contains(b.ErrorMessage, c.reason) || (b.TimeoutAt != "") != (c.status == ledger.Timeout) {
				t.Errorf("the batch is %+v", b)
			}
		})
	}
}

// A batch that times out records which files are done. On a busy machine the other
// files may not have ended by then: the time limit is doubled until they have.
func TestTimeout(t *testing.T) {
	for limit := 400 * time.Millisecond; ; limit *= 2 {
		r := start(t, func(o *downloads.Options, u *stand.Options) {
			o.Timeout, o.Stall, u.Files = limit, time.Hour, 3
		})
		r.up.Fault("accounts", "stalled", 1)
		r.up.Fault("cards", "forgedkey", 1)
		b := r.batch()
		if len(b.Outstanding()) > 1 && limit < time.Minute {
			continue
		}
		if b.Status != ledger.Timeout || !slices.Equal(b.CompletedFiles, []string{ledger.FileID("balances", r.date)}) || !slices.Equal(b.FailedFiles, []string{ledger.FileID("cards", r.date)}) || !slices.Equal(b.Outstanding(), []string{ledger.FileID("accounts", r.date)}) {
			t.Errorf("the batch is %+v", b)
		}
		late, err := r.Batches.OfDay(t.Context(), r.date, ledger.Timeout)
		if err != nil || len(late) != 1 {
			t.Errorf("the day has %d batches that timed out, %v", len(late), err)
		}
		return
	}
}
