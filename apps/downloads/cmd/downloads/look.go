package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/internal/command"
)

// status is one query of PollingDateIndex; for batches that run, or with --files, it
// also queries BatchIndex for each batch of the day.
func status() *cobra.Command {
	var t tables
	var files bool
	var of string
	cmd := &cobra.Command{
		Use: "status DATE", Short: "Show the batches of a day", Args: command.Args(1, "a date"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ledger.CheckDate(args[0]); err != nil {
				return command.Usage(err)
			}
			s, err := batchStatus(of)
			if err != nil {
				return err
			}
			return t.with(cmd.Context(), func(jobs *ledger.Jobs, batches *ledger.Batches) error {
				lines, err := downloads.Day(cmd.Context(), jobs, batches, args[0], s, files)
				if err != nil {
					return err
				}
				if err := t.printBatches(cmd.OutOrStdout(), lines); err != nil {
					return err
				}
				if len(lines) == 0 && s != "" {
					return fmt.Errorf("%s has no batch that is %s", args[0], s)
				}
				if len(lines) == 0 {
					return fmt.Errorf("%s has no batch; `downloads trigger %s` starts one", args[0], args[0])
				}
				return nil
			})
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&files, "files", false, "list the files of each batch")
	cmd.Flags().StringVar(&of, "status", "", "only batches with this status, such as timeout")
	return cmd
}

func (t *tables) printBatches(w io.Writer, lines []downloads.BatchLine) error {
	err := t.print(w, lines, func(row func(...any)) {
		row("BATCH", "STATUS", "STARTED", "EXPECTED", "COMPLETED", "DOWNLOADING", "WAITING", "FAILED", "OPEN", "REASON")
		for _, l := range lines {
			row(l.BatchID, l.Status, l.Started, l.Expected, l.Completed, l.Counts[ledger.Downloading], l.Counts[ledger.Available], l.Failed, l.Open, l.Reason)
		}
	})
	if err != nil || t.json {
		return err
	}
	for _, l := range lines {
		if l.Files == nil {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", l.BatchID)
		if err := printTable(w, fileRows(l.Files)); err != nil {
			return err
		}
	}
	return nil
}

// files is one query of BatchIndex, with --status in its key condition.
func files() *cobra.Command {
	var t tables
	var of string
	cmd := &cobra.Command{
		Use: "files BATCH", Short: "List the files that a batch has queued, such as the completed ones", Args: command.Args(1, "a batch"),
		Long: "List the files that a batch has queued: all, or with --status those with a status.\nFiles that another batch of the day has queued are listed by `downloads status DATE --files`.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var s ledger.Status
			if of != "" {
				var err error
				if s, err = jobStatus(of); err != nil {
					return err
				}
			}
			return t.with(cmd.Context(), func(jobs *ledger.Jobs, batches *ledger.Batches) error {
				if _, err := batches.Get(cmd.Context(), args[0]); err != nil {
					return err
				}
				lines := []downloads.FileLine{}
				for j, err := range jobs.OfBatch(cmd.Context(), args[0], s) {
					if err != nil {
						return err
					}
					lines = append(lines, downloads.LineOf(j))
				}
				return t.print(cmd.OutOrStdout(), lines, fileRows(lines))
			})
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&of, "status", "", "only files with this status")
	return cmd
}

// maxLines is the maximum number of files that are printed.
const maxLines = 10_000

// stuck is one query of StatusIndex with a range.
func stuck() *cobra.Command {
	var t tables
	var older time.Duration
	var of string
	cmd := &cobra.Command{
		Use: "stuck", Short: "List files that have been in a status for too long, the oldest first", Args: command.NoArgs,
		Long: "List the files that have been in a status for too long, the oldest first. With --status available these\nare the files that were never picked up. The last heartbeat shows whether a downloader is alive.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := jobStatus(of)
			if err != nil {
				return err
			}
			return t.with(cmd.Context(), func(jobs *ledger.Jobs, _ *ledger.Batches) error {
				lines := []downloads.FileLine{}
				for j, err := range jobs.Since(cmd.Context(), s, time.Now().Add(-older)) {
					if err != nil {
						return err
					}
					if lines = append(lines, downloads.LineOf(j)); len(lines) == maxLines {
						break
					}
				}
				return t.print(cmd.OutOrStdout(), lines, fileRows(lines))
			})
		},
	}
	t.flags(cmd)
	cmd.Flags().DurationVar(&older, "older", 30*time.Minute, "time since the file got the status")
	cmd.Flags().StringVar(&of, "status", "downloading", "downloading, available, failed or error")
	return cmd
}

// counts is one query of StatusIndex for each status.
func counts() *cobra.Command {
	var t tables
	cmd := &cobra.Command{
		Use: "counts", Short: "Count the files of all batches by status", Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), func(jobs *ledger.Jobs, _ *ledger.Batches) error {
				c, err := downloads.Count(cmd.Context(), jobs)
				if err != nil {
					return err
				}
				return t.print(cmd.OutOrStdout(), c, func(row func(...any)) {
					row("STATUS", "FILES", "OLDEST")
					for _, s := range ledger.JobStatuses {
						oldest := ""
						if at, ok := c.Oldest[s]; ok {
							oldest = at.UTC().Format(time.RFC3339)
						}
						row(s, c.Files[s], oldest)
					}
				})
			})
		},
	}
	t.flags(cmd)
	return cmd
}

// audit is one query of PollingDateIndex for each day of the month, and one of BatchIndex
// for each batch of the days with missing files.
func audit() *cobra.Command {
	var t tables
	var file string
	cmd := &cobra.Command{
		Use: "audit MONTH", Short: "Check that all expected files of a month were received; if not, the exit code is 1", Args: command.Args(1, "a month"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := time.Parse("2006-01", args[0]); err != nil {
				return command.Usagef("%q is not a month such as 2026-03", args[0])
			}
			if ext := filepath.Ext(file); file != "" && ext != ".csv" && ext != ".json" {
				return command.Usagef("--file is %q, but must end in .csv or .json", file)
			}
			return t.with(cmd.Context(), func(jobs *ledger.Jobs, batches *ledger.Batches) error {
				days, err := batches.Audit(cmd.Context(), jobs, args[0], time.Now().UTC().Format(time.DateOnly))
				if err != nil {
					return err
				}
				if file != "" {
					err = writeAudit(file, days)
				} else {
					err = t.printAudit(cmd.OutOrStdout(), days)
				}
				missing := 0
				for _, d := range days {
					if d.Verdict == ledger.Partial || d.Verdict == ledger.None {
						missing++
					}
				}
				if err == nil && missing > 0 {
					err = fmt.Errorf("%d days of %s are not complete", missing, args[0])
				}
				return err
			})
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&file, "file", "", "write the audit, with a line for each file, into a .csv or .json file")
	return cmd
}

func (t *tables) printAudit(w io.Writer, days []ledger.Day) error {
	return t.print(w, days, func(row func(...any)) {
		row("DAY", "VERDICT", "BATCHES", "EXPECTED", "RECEIVED", "MISSING")
		for _, d := range days {
			some := d.Missing[:min(5, len(d.Missing))]
			more := ""
			if len(d.Missing) > len(some) {
				more = fmt.Sprintf(" and %d more", len(d.Missing)-len(some))
			}
			row(d.Date, d.Verdict, d.Batches, d.Expected, d.Received, strings.Join(some, " ")+more)
		}
	})
}

func writeAudit(file string, days []ledger.Day) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if filepath.Ext(file) == ".csv" {
		return downloads.WriteCSV(f, days)
	}
	e := json.NewEncoder(f)
	e.SetIndent("", "  ")
	return e.Encode(days)
}
