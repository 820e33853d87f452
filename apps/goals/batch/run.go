// Package batch is the nightly pipeline: it computes the batch view from a day's gold
// files and the business rules.
//
// A run has seven stages. It reads the files and distributes their rows over parts on
// disk; computes the customers of each part; records which customers it will write;
// writes them in bulk; removes the customers who are no longer in the files;
// records the rewards of goals that were reached; and records that it is done. Nothing is written to the table before all files were read
// and validated. A run that was killed continues where it ended when it is started
// again.
package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"gocloud.dev/blob"
	"golang.org/x/time/rate"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/rules"
)

// Options configure a run.
type Options struct {
	Day    string
	Bucket *blob.Bucket // the gold files
	State  *blob.Bucket // the ledger and rosters of runs
	Rules  *rules.Source
	DB     *dynamodb.Client
	Work   string // a folder for the parts; a killed run continues from it
	Log    *slog.Logger
	Now    func() time.Time

	Readers  int     // concurrent files
	Writers  int     // concurrent requests
	PerSec   float64 // items written per second; 0 means no limit
	Rejected int64   // number of invalid rows that are skipped before the run ends

	VanishPercent int  // maximum share of the customers that may be removed
	Rollback      bool // allows a day that is older than what is loaded
	TakeOver      bool // starts although another run is unfinished

	// Reward receives the rewards of a run, some at a time, before it is finished, and
	// those of earlier runs for which it failed; it may get them twice. May be nil: they
	// are in State in any case.
	Reward func(ctx context.Context, some []goals.Reward) error

	OnProgress func(Progress) // called periodically, by one goroutine at a time
}

// Progress is the progress of a stage.
type Progress struct {
	Stage       string
	Done, Total int64
}

// Report summarises a run.
type Report struct {
	Run       string    `json:"run"`
	Day       string    `json:"day"`
	AsOf      time.Time `json:"asOf"`
	Customers int64     `json:"customers"`
	Written   int64     `json:"written"` // fewer than Customers if a killed run was continued
	Removed   int64     `json:"removed"`
	Rows      int64     `json:"rows"`
	Rejected  int64     `json:"rejected"`
	Outside   int64     `json:"outsideMonth"` // contributions of earlier months
	Unowned   int64     `json:"unowned"`      // contributions of persons who are not in the files
	Retried   int64     `json:"retried"`      // items that were sent again
	Rewards   int64     `json:"rewards"`      // goals reached, or with more saved, since the last run
	Resumed   bool      `json:"resumed"`
	Seconds   float64   `json:"seconds"`

	// RejectedList is the object in State that lists the rejected rows.
	RejectedList string `json:"rejectedList,omitempty"`

	// RewardList is the object in State that lists the rewards.
	RewardList string `json:"rewardList,omitempty"`
}

// run is a run in progress.
type run struct {
	Options
	manifest *gold.Manifest
	rules    *rules.Set
	id       string
	folder   string
	parts    int
	journal  *journal
	ledger   *ledger
	progress *progressCounter
	pace     *rate.Limiter
	counted  counts
	compared string // the run with whose list of reached goals this one was compared
	report   Report
}

// Run makes the table match the day's files.
func Run(ctx context.Context, o Options) (*Report, error) {
	began := o.Now()
	r, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.journal.close()
	if err := inOrder(ctx, r.read, r.compute, r.claim); err != nil {
		return nil, err
	}
	if err := whileAlive(ctx, r.Now, r.recordAlive, func(ctx context.Context) error {
		return inOrder(ctx, r.load, r.remove, r.reward, r.finish)
	}); err != nil {
		return nil, err
	}
	if err := r.State.Delete(ctx, r.ledger.alive(r.id)); err != nil {
		r.Log.Warn("removing the record that the run is alive failed; it does no harm", "error", err)
	}
	r.report.Customers, r.report.Rejected, r.report.Outside, r.report.Unowned = r.counted.Customers, r.counted.Rejected, r.counted.Outside, r.counted.Unowned
	r.report.Seconds = o.Now().Sub(began).Seconds()
	return &r.report, nil
}

func inOrder(ctx context.Context, stages ...func(context.Context) error) error {
	for _, stage := range stages {
		if err := stage(ctx); err != nil {
			return err
		}
	}
	return nil
}

func prepare(ctx context.Context, o Options) (*run, error) {
	r := &run{Options: o, progress: &progressCounter{report: o.OnProgress}, pace: rate.NewLimiter(rate.Inf, 0)}
	if o.PerSec > 0 {
		r.pace = rate.NewLimiter(rate.Limit(o.PerSec), max(batchSize, int(o.PerSec/10)))
	}
	var err error
	if r.manifest, err = gold.ReadManifest(ctx, o.Bucket, o.Day, o.Now()); err != nil {
		return nil, err
	}
	if r.rules, err = o.Rules.Load(ctx); err != nil {
		return nil, err
	}
	table, err := tableID(ctx, o.DB)
	if err != nil {
		return nil, err
	}
	// The same files, rules and table make the same run. A recreated table is
	// another table, so no step of the old one is skipped.
	sum := sha256.Sum256([]byte(r.manifest.Sum() + r.rules.Fingerprint() + table))
	r.id = o.Day + "-" + hex.EncodeToString(sum[:6])
	r.parts = partsFor(r.manifest.Rows())
	r.report.Run, r.report.Day, r.report.AsOf, r.report.Rows = r.id, o.Day, r.manifest.AsOf, r.manifest.Rows()
	if r.ledger, err = openLedger(ctx, o.State, table); err != nil {
		return nil, err
	}
	if err := r.ledger.admit(ctx, r); err != nil {
		return nil, err
	}
	r.folder = filepath.Join(o.Work, r.id)
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the work folder: %w", err)
	}
	if r.journal, err = openJournal(filepath.Join(r.folder, journalName)); err != nil {
		return nil, err
	}
	r.report.Resumed = len(r.journal.done) > 0
	if r.report.Resumed {
		o.Log.Info("continuing a killed run", "run", r.id, "steps", len(r.journal.done))
	}
	return r, nil
}

func tableID(ctx context.Context, db *dynamodb.Client) (string, error) {
	got, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(goals.BatchTable)})
	if err != nil {
		return "", fmt.Errorf("look at table %s: %w", goals.BatchTable, err)
	}
	if id := aws.ToString(got.Table.TableId); id != "" {
		return id, nil
	}
	return goals.BatchTable, nil // a server without TableId
}
