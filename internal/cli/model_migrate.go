package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/migrate"
)

type migrateFlags struct {
	endpointFlags
	unmatched             string
	readUnits, writeUnits float64
	segments, sample      int
	segmented             bool // the command has the flag
	dualReads             int
	repair, verify        bool
	untilReady, confirm   bool
	window                time.Duration
	discardLate           bool
	quiet, lease          time.Duration
	prices                string
	json                  bool
	streams               string
}

func modelMigrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move the items of live tables from one model to another",
		Long: `Change keys, indexes or tables of a system that is in use: plan shows what becomes of
each entity and access pattern and what it costs, run creates the new tables, copies
the items, follows the changes and verifies the result. switch, rollback, drop and
abort decide how it ends. Each command can be interrupted and repeated, on any machine.
docs/migrate.md describes it.`,
		Args: func(cmd *cobra.Command, args []string) error {
			return usageError{fmt.Errorf("%s needs one of the commands plan, run, status, switch, rollback, drop and abort, but got %q", cmd.CommandPath(), args)}
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.AddCommand(
		migrateCommand("plan", "Show what becomes of each entity and pattern, and what it costs", migratePlan,
			(*migrateFlags).addLimits, (*migrateFlags).addPlan),
		migrateCommand("run", "Create, copy, follow and verify, and go on following until it is stopped", migrateRun,
			(*migrateFlags).addLimits, (*migrateFlags).addRun),
		migrateCommand("status", "Show how far the migration has come", migrateStatus),
		migrateCommand("switch", "Make the new tables the ones that the application writes to", migrateSwitch, (*migrateFlags).addConfirm),
		migrateCommand("rollback", "Make the old tables the ones that the application writes to again", migrateRollback, (*migrateFlags).addConfirm),
		migrateCommand("drop", "Delete the old tables, after a switch", migrateDrop, (*migrateFlags).addDrop),
		migrateCommand("abort", "Delete the new tables, before a switch", migrateAbort, (*migrateFlags).addYes),
	)
	return cmd
}

// migrateJob is one execution of a command.
type migrateJob struct {
	*migrateFlags
	m              *migrate.Migrator
	stdout, stderr io.Writer
	progress       *progressLine
}

// migrateCommand returns one of the commands.
func migrateCommand(name, short string, run func(ctx context.Context, j *migrateJob) error, flags ...func(f *migrateFlags, cmd *cobra.Command)) *cobra.Command {
	f := new(migrateFlags)
	cmd := &cobra.Command{
		Use:   name + " OLD NEW",
		Short: short,
		Args:  arguments(2, "the files of the old and the new model"),
		RunE: func(cmd *cobra.Command, args []string) error {
			j := &migrateJob{migrateFlags: f, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), progress: newProgressLine(cmd.ErrOrStderr())}
			if err := j.open(args[0], args[1]); err != nil {
				return err
			}
			defer j.progress.end()
			return run(cmd.Context(), j)
		},
	}
	f.add(cmd, "URL of the server")
	cmd.Flags().StringVar(&f.streams, "streams-endpoint", "", "URL of the streams; defaults to that of AWS for --endpoint, or to --endpoint")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	f.unmatched = migrate.StopUnmatched
	for _, add := range flags {
		add(f, cmd)
	}
	return cmd
}

func (f *migrateFlags) addLimits(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.unmatched, "unmatched", migrate.StopUnmatched, "items that match no entity: stop, or copy as they are")
	cmd.Flags().Float64Var(&f.readUnits, "read-units", 0, "limit of read units a second for backfill and verification; 0 for none")
	cmd.Flags().Float64Var(&f.writeUnits, "write-units", 0, "limit of write units a second for the backfill; 0 for none")
}

func (f *migrateFlags) addPlan(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.sample, "sample", 1000, "items of each table that are read for the estimate; 0 for all")
	cmd.Flags().StringVar(&f.prices, "prices", "", "price file; defaults to the built-in prices")
}

func (f *migrateFlags) addRun(cmd *cobra.Command) {
	f.segmented = true
	cmd.Flags().IntVar(&f.segments, "segments", 4, "segments in which a table is scanned at the same time")
	cmd.Flags().IntVar(&f.dualReads, "dual-reads", 1000, "keys that are read on both sides and compared")
	cmd.Flags().BoolVar(&f.repair, "repair", false, "copy items again that differ at the verification")
	cmd.Flags().BoolVar(&f.verify, "verify", false, "verify a migration again that is ready")
	durationVar(cmd, &f.lease, "lease", 30*time.Second, "how long another process waits after this one was killed")
	cmd.Flags().BoolVar(&f.untilReady, "until-ready", false, "end when the migration is ready; it must run again within 23 hours")
}

func (f *migrateFlags) addConfirm(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.confirm, "confirm", false, "confirm that the application has stopped writing")
	durationVar(cmd, &f.quiet, "quiet", 5*time.Second, "how long no write may come")
}

func (f *migrateFlags) addDrop(cmd *cobra.Command) {
	f.addYes(cmd)
	durationVar(cmd, &f.window, "window", 24*time.Hour, "how long after the switch the old tables must stay")
	cmd.Flags().BoolVar(&f.discardLate, "discard-late", false, "drop writes to the old tables that came after the switch")
}

func (f *migrateFlags) addYes(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.confirm, "yes", false, "delete the tables")
}

// open reads the models and connects to the endpoint.
func (j *migrateJob) open(oldFile, newFile string) error {
	if j.unmatched != migrate.StopUnmatched && j.unmatched != migrate.CopyUnmatched {
		return usageError{fmt.Errorf("--unmatched must be %s or %s, not %q", migrate.StopUnmatched, migrate.CopyUnmatched, j.unmatched)}
	}
	if j.lease != 0 && j.lease < time.Second {
		return usageError{fmt.Errorf("--lease must be a second or more, not %s", j.lease)}
	}
	if j.segmented {
		if err := migrate.CheckSegments(j.segments); err != nil {
			return usageError{err}
		}
	}
	e, err := j.endpointFlags.open()
	if err != nil {
		return err
	}
	e.StreamsURL = j.streams
	old, err := readModel(oldFile)
	if err != nil {
		return err
	}
	new, err := readModel(newFile)
	if err != nil {
		return err
	}
	id, err := migrationID(oldFile, newFile)
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	j.m = migrate.New(e.Send, e.SendStreams, old, new, migrate.Options{
		ID: id, Owner: fmt.Sprintf("%s %d %s", host, os.Getpid(), rand.Text()), Unmatched: j.unmatched,
		ReadUnits: j.readUnits, WriteUnits: j.writeUnits, Segments: j.segments, Samples: j.dualReads, Repair: j.repair, Verify: j.verify,
		Window: j.window, DiscardLate: j.discardLate, Quiet: j.quiet, Lease: j.lease, Changed: j.showProgress,
	})
	return nil
}

// migrationID is the same for all commands with the same models.
func migrationID(files ...string) (string, error) {
	h := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%d\n%s", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func (j *migrateJob) showProgress(st migrate.State) {
	j.progress.update("%s: %s items copied, %s records followed", st.Phase, model.Figure(float64(st.Counts.Copied)), model.Figure(float64(st.Counts.Records)))
}

func migratePlan(ctx context.Context, j *migrateJob) error {
	prices, err := readPrices(j.prices)
	if err != nil {
		return err
	}
	plan, err := j.m.Plan(ctx, prices, j.sample)
	if err != nil {
		return err
	}
	if j.json {
		err = encodeIndented(j.stdout, plan)
	} else {
		err = printMigration(j.stdout, plan, j.readUnits > 0 || j.writeUnits > 0)
	}
	if err == nil && len(plan.Faults) > 0 {
		err = errors.New("the migration is not possible")
	}
	return err
}

func migrateRun(ctx context.Context, j *migrateJob) error {
	goal := migrate.Phase("")
	if j.untilReady || j.verify {
		goal = migrate.Ready
	}
	st, err := j.m.Run(ctx, goal)
	if ctx.Err() != nil && st != nil {
		err = nil // it was stopped, which is a pause
	}
	return j.result(st, err)
}

func migrateStatus(ctx context.Context, j *migrateJob) error {
	st, err := j.m.Status(ctx)
	if err == nil && st == nil {
		return errors.New("the migration has not begun")
	}
	return j.result(st, err)
}

func migrateSwitch(ctx context.Context, j *migrateJob) error {
	if !j.confirm {
		return errors.New("nothing was changed\n        stop the writes of the application, and add --confirm")
	}
	return j.reach(ctx, migrate.Switched)
}

func migrateRollback(ctx context.Context, j *migrateJob) error {
	if !j.confirm {
		return errors.New("nothing was changed\n        stop the writes of the application, and add --confirm")
	}
	return j.reach(ctx, migrate.RolledBack)
}

func migrateDrop(ctx context.Context, j *migrateJob) error {
	if !j.confirm {
		return errors.New("nothing was changed\n        add --yes to delete the old tables")
	}
	return j.reach(ctx, migrate.Dropped)
}

func migrateAbort(ctx context.Context, j *migrateJob) error {
	if !j.confirm {
		return errors.New("nothing was changed\n        add --yes to delete the new tables")
	}
	return j.reach(ctx, migrate.Aborted)
}

// reach runs the migration to a phase, or waits until the process that runs it
// has reached it.
func (j *migrateJob) reach(ctx context.Context, goal migrate.Phase) error {
	st, err := j.m.Run(ctx, goal)
	return j.result(st, err)
}

// result prints the state after a command.
func (j *migrateJob) result(st *migrate.State, err error) error {
	j.progress.end()
	if st != nil && j.json {
		return errors.Join(err, encodeIndented(j.stdout, st))
	}
	if st != nil {
		printMigrationState(j.stdout, st)
	}
	return err
}
