package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/documents/export"
	"github.com/stator-db/stator/apps/documents/hook"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/mail"
	"github.com/stator-db/stator/apps/documents/table"
)

// Reporter reports finished batches: to the webhook of the project with the results,
// and by mail to the people that watch the project.
type Reporter struct {
	Store    *table.Store
	Results  *Results
	Hooks    *hook.Sender
	Mail     *mail.Sender // nil sends none
	URL      string       // of the pages, in mails
	Attempts int          // before a report is given up
	Sent     *prometheus.CounterVec
	Log      *slog.Logger
}

// Report is the message to a webhook.
type Report struct {
	Event     string         `json:"event"`    // batch.finished
	Delivery  string         `json:"delivery"` // the same in all attempts
	At        string         `json:"at"`
	Batch     table.Batch    `json:"batch"`
	Documents []export.Entry `json:"documents"`
	More      bool           `json:"more"` // there are more documents: read them by the API
}

// maxReport is the maximum number of documents, and of bytes of them, in a report.
const (
	maxReport      = 200
	maxReportBytes = 1 << 20
)

// do sends a report. It returns when to try again, or the zero time.
func (r *Reporter) do(ctx context.Context, job table.Job) (time.Time, error) {
	if job.Project == nil {
		return time.Time{}, fmt.Errorf("the report of batch %s has no project", job.Batch)
	}
	// Not by the index, which may have the status of before the job was created.
	b, err := r.Store.Batch(ctx, job.Tenant, *job.Project, job.Batch)
	if errors.Is(err, table.ErrNotFound) {
		return time.Time{}, r.Store.Drop(ctx, job)
	}
	if err != nil {
		return time.Time{}, err
	}
	if b.Status == table.Processing {
		return time.Time{}, r.Store.Drop(ctx, job) // its end makes a new one
	}
	exists, err := r.Store.TenantExists(ctx, b.Tenant)
	if err != nil {
		return time.Time{}, err
	}
	if !exists {
		return time.Time{}, r.Store.Drop(ctx, job)
	}
	p, err := r.Store.Project(ctx, b.Tenant, b.Project)
	if errors.Is(err, table.ErrNotFound) {
		return time.Time{}, r.Store.Drop(ctx, job)
	}
	if err != nil {
		return time.Time{}, err
	}
	send := r.hook
	if job.Kind == table.JobMail {
		send = r.mail
	}
	err = send(ctx, job, b, p)
	switch {
	case ctx.Err() != nil:
		return time.Time{}, ctx.Err()
	case err == nil:
		r.Sent.WithLabelValues(job.Kind, "sent").Inc()
		return time.Time{}, r.Store.Drop(ctx, job)
	case job.Attempts+1 >= r.Attempts:
		r.Sent.WithLabelValues(job.Kind, "given up").Inc()
		r.Log.Error("a report of a batch is given up", "kind", job.Kind, "batch", b.ID, "tenant", b.Tenant, "error", err)
		why := fmt.Sprintf("the report of batch %s was given up after %d attempts: %v", b.ID, job.Attempts+1, err)
		return time.Time{}, errors.Join(r.Store.GaveUp(ctx, b.Tenant, b.Project, why), r.Store.Drop(ctx, job))
	}
	r.Sent.WithLabelValues(job.Kind, "failed").Inc()
	r.Log.Warn("a report of a batch failed", "kind", job.Kind, "batch", b.ID, "attempt", job.Attempts+1, "error", err)
	// The delays are 10 s, 20 s, 40 s and so on, up to an hour.
	return r.Store.Now().Add(min(10*time.Second<<min(job.Attempts, 20), time.Hour)), r.Store.Attempted(ctx, job)
}

func (r *Reporter) hook(ctx context.Context, job table.Job, b table.Batch, p table.Project) error {
	if p.Webhook == "" {
		return nil
	}
	m := Report{
		Event: "batch.finished", Batch: b, At: job.Changed, Documents: []export.Entry{},
		Delivery: keys.DeriveID[keys.TokenID](b.ID.String(), job.Changed).String(),
	}
	size := 0
	page, err := r.Store.Documents(ctx, b, "", maxReport)
	if err != nil {
		return err
	}
	m.More = page.Next != ""
	for _, d := range page.Items {
		e, err := r.Results.Entry(ctx, d)
		if err != nil {
			return err
		}
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if size += len(text); size > maxReportBytes {
			m.More = true
			break
		}
		m.Documents = append(m.Documents, e)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return r.Hooks.Send(ctx, p.Webhook, p.Secret, m.Delivery, r.Store.Now(), body)
}

// mail sends a mail to each watcher that is still a member, found by email, and did not
// get it in an earlier attempt.
func (r *Reporter) mail(ctx context.Context, job table.Job, b table.Batch, p table.Project) error {
	if r.Mail == nil {
		return nil
	}
	subject := fmt.Sprintf("%s: %d documents, %d to review, %d failed", b.Name, b.Documents, b.Review, b.Failed)
	text := fmt.Sprintf("The batch %q of the project %q is finished: %s.\n\n%d documents: %d succeeded, %d need review, %d failed.\n",
		b.Name, p.Name, b.Status, b.Documents, b.Succeeded, b.Review, b.Failed)
	if r.URL != "" {
		text += fmt.Sprintf("\n%s/projects/%s/batches/%s\n", r.URL, b.Project, b.ID)
	}
	var faults error
	for _, email := range p.Watchers {
		u, _, err := r.Store.MemberByEmail(ctx, b.Tenant, email)
		if errors.Is(err, table.ErrNotFound) {
			continue
		}
		if err == nil && !slices.Contains(job.Mailed, u.ID.String()) {
			err = r.mailTo(ctx, job, b, u, subject, text)
		}
		faults = errors.Join(faults, err)
	}
	return faults
}

// mailTo sends a mail to one person. If the address is refused for good, the project
// says so, and no further attempt is made.
func (r *Reporter) mailTo(ctx context.Context, job table.Job, b table.Batch, u table.User, subject, text string) error {
	err := r.Mail.Send(ctx, u.Email, subject, text)
	if errors.Is(err, mail.ErrRefused) {
		r.Log.Warn("a mail about a batch is refused", "batch", b.ID, "tenant", b.Tenant, "error", err)
		err = r.Store.GaveUp(ctx, b.Tenant, b.Project, fmt.Sprintf("the mail to %s was refused: %v", u.Email, err))
	}
	if err != nil {
		return err
	}
	return r.Store.Mailed(ctx, job, u.ID)
}
