package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// ledger records, in a bucket, which customers the table can have: those of the last
// finished run, and those of runs started since. Each run has a roster, a sorted file
// of ids. A run is recorded before its first write, so every customer in the table is
// in a roster, and vanished customers are found without a scan.
type ledger struct {
	bucket *blob.Bucket
	folder string

	Current    *loaded  `json:"current,omitempty"`
	Unfinished []loaded `json:"unfinished,omitempty"`

	Ordered string   `json:"ordered,omitempty"` // the last run that ordered rewards
	Unsent  []string `json:"unsent,omitempty"`  // runs whose rewards are still to be sent
}

// loaded is a run in the ledger.
type loaded struct {
	Run       string    `json:"run"`
	Day       string    `json:"day"`
	AsOf      time.Time `json:"asOf"`
	Customers int64     `json:"customers"`
	Began     time.Time `json:"began"`
	Host      string    `json:"host"`
	Process   int       `json:"process"`
	Instance  string    `json:"instance,omitempty"` // identifies the process; older versions have none

	Ended time.Time `json:"ended,omitzero"` // when it was finished

	Terms   *terms `json:"terms,omitempty"`   // of the month of the run
	Earlier *terms `json:"earlier,omitempty"` // of the month before, if a run was made in it
}

func openLedger(ctx context.Context, bucket *blob.Bucket, table string) (*ledger, error) {
	l := &ledger{bucket: bucket, folder: table}
	b, err := bucket.ReadAll(ctx, l.name())
	if gcerrors.Code(err) == gcerrors.NotFound {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what earlier runs left: %w", err)
	}
	if err := json.Unmarshal(b, l); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): the customers in the table are not known; restore it from the bucket's versions", l.name(), err)
	}
	return l, nil
}

func (l *ledger) name() string              { return path.Join(l.folder, "ledger.json") }
func (l *ledger) roster(run string) string  { return path.Join(l.folder, "roster-"+run) }
func (l *ledger) reached(run string) string { return path.Join(l.folder, "reached-"+run+".jsonl") }
func (l *ledger) rewards(run string) string { return path.Join(l.folder, "rewards-"+run+".jsonl") }

// ordered returns the last run that ordered rewards, or "". Older versions ordered them
// when a run was finished.
func (l *ledger) ordered() string {
	if l.Ordered == "" && l.Current != nil {
		return l.Current.Run
	}
	return l.Ordered
}

// runs returns the finished run and those started since.
func (l *ledger) runs() (all []*loaded) {
	if l.Current != nil {
		all = append(all, l.Current)
	}
	for i := range l.Unfinished {
		all = append(all, &l.Unfinished[i])
	}
	return all
}

func (l *ledger) save(ctx context.Context) error {
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	if err := l.bucket.WriteAll(ctx, l.name(), b, nil); err != nil {
		return fmt.Errorf("record the run: %w", err)
	}
	return nil
}

// admit decides whether a run may start.
func (l *ledger) admit(ctx context.Context, r *run) error {
	if l.Current != nil && r.manifest.AsOf.Before(l.Current.AsOf) && !r.Rollback {
		return fmt.Errorf("day %s is older than day %s, which is loaded: add --rollback to load it", r.Day, l.Current.Day)
	}
	for _, u := range l.Unfinished {
		if u.Run == r.id || r.TakeOver {
			continue
		}
		ended, err := l.ended(ctx, &u, r.Now())
		if err != nil {
			return err
		}
		if !ended {
			return fmt.Errorf("run %s (process %d on %s, started %s) is unfinished: load day %s again to finish it; or, if its process has ended, wait for ten minutes, or add --take-over, to load day %s instead", u.Run, u.Process, u.Host, u.Began.Format(time.RFC3339), u.Day, r.Day)
		}
	}
	return nil
}

// LoadedDay returns the day that the table has, or "", and when it was loaded.
func LoadedDay(ctx context.Context, db *dynamodb.Client, state *blob.Bucket) (day string, at time.Time, err error) {
	table, err := tableID(ctx, db)
	if err != nil {
		return "", at, err
	}
	l, err := openLedger(ctx, state, table)
	if err != nil || l.Current == nil {
		return "", at, err
	}
	if at = l.Current.Ended; at.IsZero() {
		at = l.Current.Began // a run of an older version
	}
	return l.Current.Day, at, nil
}

// claim is the third stage: it writes the run's roster and records the run, unless
// too many customers would vanish.
func (r *run) claim(ctx context.Context) error {
	if err := r.checkVanished(ctx); err != nil {
		return err
	}
	if err := r.writeRoster(ctx); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown machine"
	}
	entry := loaded{
		Run: r.id, Day: r.Day, AsOf: r.manifest.AsOf, Customers: r.counted.Customers,
		Began: r.Now().UTC(), Host: host, Process: os.Getpid(), Instance: instance,
		Terms: r.terms(0), Earlier: r.terms(-1),
	}
	at := slices.IndexFunc(r.ledger.Unfinished, func(u loaded) bool { return u.Run == r.id })
	if at < 0 {
		r.ledger.Unfinished = append(r.ledger.Unfinished, entry)
	} else {
		r.ledger.Unfinished[at] = entry // continued by this process
	}
	return r.ledger.save(ctx)
}

// vanishAlways is how many customers may vanish, whatever their share is.
const vanishAlways = 100

// checkVanished stops a run that would remove a suspiciously large share of the
// customers: the files are then likely incomplete.
func (r *run) checkVanished(ctx context.Context) error {
	if r.ledger.Current == nil {
		return nil
	}
	r.progress.stage("compare", r.ledger.Current.Customers)
	var vanished int64
	err := r.eachVanished(ctx, []string{r.ledger.Current.Run}, func(id [16]byte) error { vanished++; return nil })
	if err != nil {
		return err
	}
	if vanished > vanishAlways && vanished*100 > r.ledger.Current.Customers*int64(r.VanishPercent) {
		return fmt.Errorf("%d of %d customers of day %s are not in the files of day %s, which is more than %d%%: check the files, and add --vanish-percent if they are right; nothing was written to the table",
			vanished, r.ledger.Current.Customers, r.ledger.Current.Day, r.Day, r.VanishPercent)
	}
	return nil
}

// finish is the last stage: it records that the table has exactly this run's
// customers.
func (r *run) finish(ctx context.Context) error {
	var old []string
	if r.compared != "" {
		old = append(old, r.compared)
	}
	if r.ledger.Current != nil {
		old = append(old, r.ledger.Current.Run)
	}
	for _, u := range r.ledger.Unfinished {
		if u.Run == r.id {
			u.Ended = r.Now().UTC()
			r.ledger.Current = &u
		} else {
			old = append(old, u.Run)
		}
	}
	r.ledger.Unfinished = nil
	if err := r.keepRejected(ctx); err != nil {
		return err
	}
	if err := r.ledger.save(ctx); err != nil {
		return err
	}
	for _, run := range old {
		if run == r.id {
			continue
		}
		for _, name := range []string{r.ledger.roster(run), r.ledger.reached(run), r.ledger.alive(run)} {
			if name == r.ledger.reached(r.ledger.Ordered) {
				continue // the next run compares with it
			}
			if err := r.State.Delete(ctx, name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
				r.Log.Warn("removing a list of an old run failed; it does no harm", "name", name, "error", err)
			}
		}
	}
	if err := os.RemoveAll(r.folder); err != nil {
		r.Log.Warn("removing the work folder failed", "folder", r.folder, "error", err)
	}
	return nil
}

// keepRejected stores the list of rejected rows next to the rosters.
func (r *run) keepRejected(ctx context.Context) error {
	if r.counted.Rejected == 0 {
		return nil
	}
	r.report.RejectedList = path.Join(r.ledger.folder, "rejected-"+r.id+".jsonl")
	object, err := newUpload(ctx, r.State, r.report.RejectedList, "application/x-ndjson")
	if err != nil {
		return fmt.Errorf("store the rejected rows: %w", err)
	}
	defer object.discard()
	for _, name := range []string{rejectedRows, rejectedTwice} {
		file, err := os.Open(filepath.Join(r.folder, name))
		if err != nil {
			return fmt.Errorf("store the rejected rows: %w", err)
		}
		_, err = io.Copy(object, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("store the rejected rows: %w", err)
		}
	}
	if err := object.Close(); err != nil {
		return fmt.Errorf("store the rejected rows: %w", err)
	}
	return nil
}
