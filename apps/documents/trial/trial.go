// Package trial applies a workflow that is being edited to a sample, and stores
// nothing.
//
// Trials have extractors of their own, so that they do not take the turns of the
// pipeline, and are limited in number, rate and time for each tenant.
package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/pipeline"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/documents/workflow"
)

// The limits of trials.
const (
	Within     = 30 * time.Second // for one, without waiting for others
	Patience   = time.Minute      // for one, with waiting
	perTenant  = 4                // at the same time
	inAll      = 8
	maxPicture = 4 << 20 // bytes of a preview
	maxMemos   = 4
	memoTime   = 5 * time.Minute
)

// ErrTooMany is returned for a tenant with too many trials.
var ErrTooMany = errors.New("too many trials")

// Trials runs trials.
type Trials struct {
	Extractors map[string]extract.Extractor
	Reader     extract.Reader
	Now        func() time.Time

	mutex   sync.Mutex
	tenants map[keys.Tenant]*tenant
	memos   []*memo // the last used one is at the end
}

// tenant is what a tenant uses.
type tenant struct {
	running int
	rate    *rate.Limiter
}

type memo struct {
	*extract.Memo
	of   keys.Tenant
	user keys.UserID
	used time.Time
}

// Enter admits one trial of a tenant, whose request is read next. The caller must
// call leave.
func (t *Trials) Enter(of keys.Tenant) (leave func(), err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.tenants == nil {
		t.tenants = make(map[keys.Tenant]*tenant)
	}
	all := 0
	for id, n := range t.tenants {
		all += n.running
		if n.running == 0 && (n.rate == nil || n.rate.TokensAt(t.Now()) >= float64(n.rate.Burst())) {
			delete(t.tenants, id)
		}
	}
	use := t.tenants[of]
	if use == nil {
		use = new(tenant)
		t.tenants[of] = use
	}
	if use.running >= perTenant || all >= inAll {
		return nil, fmt.Errorf("%w at the same time", ErrTooMany)
	}
	use.running++
	return func() {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		use.running--
	}, nil
}

// spend counts a trial of a tenant that has entered.
func (t *Trials) spend(of keys.Tenant, p table.Plan) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	use := t.tenants[of]
	limit := rate.Limit(float64(p.Trials) / 60)
	if use.rate == nil {
		use.rate = rate.NewLimiter(limit, p.Trials)
	}
	if use.rate.Burst() != p.Trials {
		use.rate.SetLimitAt(t.Now(), limit)
		use.rate.SetBurstAt(t.Now(), p.Trials)
	}
	if !use.rate.AllowN(t.Now(), 1) {
		return fmt.Errorf("%w: the plan %s allows %d a minute", ErrTooMany, p.Name, p.Trials)
	}
	return nil
}

// memo returns the memo of a person. Files of others are not kept in it.
func (t *Trials) memo(of keys.Tenant, user keys.UserID) *extract.Memo {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.Now()
	m := &memo{Memo: extract.NewMemo(), of: of, user: user}
	var kept []*memo
	for _, old := range t.memos {
		switch {
		case now.Sub(old.used) > memoTime:
		case old.of == of && old.user == user:
			m = old
		default:
			kept = append(kept, old)
		}
	}
	m.used = now
	kept = append(kept, m)
	t.memos = kept[max(0, len(kept)-maxMemos):]
	return m.Memo
}

// Request is a trial.
type Request struct {
	Tenant   keys.Tenant
	User     keys.UserID
	Plan     table.Plan
	Workflow workflow.Checked
	File     extract.File
	Page     int // of the preview, from 1; 0 means no preview
}

// Outcome is what would become of a document.
type Outcome struct {
	Status  table.Status   `json:"status"` // PROCESSING if an error would be retried
	Reason  string         `json:"reason,omitempty"`
	Result  extract.Result `json:"result"`
	Pages   int            `json:"pages,omitempty"`
	Page    int            `json:"page,omitempty"`    // of the preview
	Preview string         `json:"preview,omitempty"` // SVG, with the found fields marked
}

// Run runs a trial of a tenant that has entered. The error is ErrTooMany, or the
// request's context has ended; errors that a document can cause are outcomes.
func (t *Trials) Run(ctx context.Context, r Request) (Outcome, error) {
	if err := t.spend(r.Tenant, r.Plan); err != nil {
		return Outcome{}, err
	}
	work, stop := context.WithTimeout(extract.WithMemo(ctx, t.memo(r.Tenant, r.User)), Patience)
	defer stop()
	work, cancel := extract.Limit(work, Within)
	defer cancel()
	e := r.Workflow.Extract
	x := t.Extractors[e.First()]
	if x == nil {
		return Outcome{}, fmt.Errorf("the extractor %q does not exist", e.First())
	}
	result, err := x.Extract(work, r.File, e)
	switch {
	case ctx.Err() != nil:
		return Outcome{}, ctx.Err()
	case work.Err() != nil:
		return Outcome{Status: table.Processing, Reason: fmt.Sprintf("the trial took longer than %v", Within)}, nil
	case extract.IsUnreadable(err):
		return Outcome{Status: table.Failed, Reason: err.Error()}, nil
	case err != nil:
		return Outcome{Status: table.Processing, Reason: "the document would be tried again: " + err.Error()}, nil
	}
	o := Outcome{Result: result}
	o.Status, o.Reason = pipeline.Judge(table.Batch{ConfidenceThreshold: r.Workflow.ConfidenceThreshold, ReviewThreshold: r.Workflow.ReviewThreshold}, e, result)
	if r.Page > 0 {
		t.preview(work, r, &o)
	}
	return o, nil
}

// preview adds the preview of a page. A file that only a service can read has none.
func (t *Trials) preview(ctx context.Context, r Request, o *Outcome) {
	doc, err := t.Reader.Read(ctx, r.File)
	if err != nil || len(doc.Pages) == 0 {
		return
	}
	o.Pages, o.Page = len(doc.Pages), min(r.Page, len(doc.Pages))
	var picture bytes.Buffer
	if err := extract.WritePreview(&picture, &doc, o.Page, o.Result.Fields); err == nil && picture.Len() <= maxPicture {
		o.Preview = picture.String()
	}
}
