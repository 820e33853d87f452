package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/queue"
	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/home"
)

// tables are the tables of an operation.
type tables struct {
	options home.Options
	json    bool
}

func (t *tables) flags(cmd *cobra.Command) {
	t.options.LookOnly = true
	t.options.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&t.json, "json", false, "print JSON")
}

func (t *tables) open(ctx context.Context) (*ledger.Jobs, *ledger.Batches, func(), error) {
	if t.options.Endpoint == "" && t.options.Data == "" {
		return nil, nil, nil, command.Usagef("the tables are missing: set --endpoint to the URL of the server (a running `downloads demo` has http://127.0.0.1:8000), --endpoint aws, or --data FOLDER while no other process has it open")
	}
	t.options.Model = downloads.Model
	h, err := home.Open(ctx, t.options)
	if err != nil {
		return nil, nil, nil, err
	}
	return &ledger.Jobs{DB: h.DB, Now: time.Now}, &ledger.Batches{DB: h.DB, Now: time.Now}, func() { _ = h.Close() }, nil
}

// print prints a result: as JSON, or as a table.
func (t *tables) print(w io.Writer, v any, rows func(row func(cells ...any))) error {
	if t.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows(func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(tab, "\t")
			}
			fmt.Fprint(tab, c)
		}
		fmt.Fprintln(tab)
	})
	return tab.Flush()
}

type batchLine struct {
	BatchID   string                `json:"batch"`
	Status    ledger.Status         `json:"status"`
	Started   string                `json:"started"`
	Updated   string                `json:"updated"`
	Expected  int                   `json:"expected"`
	Completed int                   `json:"completed"`
	Failed    []string              `json:"failed,omitempty"`
	Open      int                   `json:"open"`
	Reason    string                `json:"reason,omitempty"`
	Files     map[ledger.Status]int `json:"files,omitempty"`
}

// status is one query of PollingDateIndex; with --files it also queries BatchIndex
// for each batch.
func status() *cobra.Command {
	var t tables
	var files bool
	cmd := &cobra.Command{
		Use: "status DATE", Short: "Show the batches of a day", Args: command.Args(1, "a date"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ledger.CheckDate(args[0]); err != nil {
				return command.Usage(err)
			}
			jobs, batches, done, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			found, err := batches.OfDay(cmd.Context(), args[0], "")
			if err != nil {
				return err
			}
			lines := []batchLine{}
			for _, b := range found {
				l := batchLine{b.BatchID, b.Status, b.StartTime, b.UpdatedAt, len(b.ExpectedFiles), len(b.CompletedFiles), b.FailedFiles, len(b.Outstanding()), b.ErrorMessage, nil}
				if files {
					l.Files = make(map[ledger.Status]int)
					for j, err := range jobs.OfBatch(cmd.Context(), b.BatchID, "") {
						if err != nil {
							return err
						}
						l.Files[j.Status]++
					}
				}
				lines = append(lines, l)
			}
			err = t.print(cmd.OutOrStdout(), lines, func(row func(...any)) {
				row("BATCH", "STATUS", "STARTED", "EXPECTED", "COMPLETED", "FAILED", "OPEN", "REASON")
				for _, l := range lines {
					row(l.BatchID, l.Status, l.Started, l.Expected, l.Completed, len(l.Failed), l.Open, l.Reason)
					for _, s := range ledger.JobStatuses {
						if n := l.Files[s]; n > 0 {
							row("  "+string(s), "", "", n)
						}
					}
				}
			})
			if err == nil && len(lines) == 0 {
				err = fmt.Errorf("%s has no batch; `downloads trigger %s` starts one", args[0], args[0])
			}
			return err
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&files, "files", false, "count the files of each batch by their current status")
	return cmd
}

type jobLine struct {
	FileID  string        `json:"file"`
	BatchID string        `json:"batch"`
	Status  ledger.Status `json:"status"`
	Since   time.Time     `json:"since"`
	Tries   int           `json:"tries"`
	Claim   string        `json:"claim,omitempty"`
	Reason  string        `json:"reason,omitempty"`
}

func line(j *ledger.Job) jobLine {
	return jobLine{j.FileID, j.BatchID, j.Status, time.UnixMilli(j.StatusUpdatedAt).UTC(), j.Tries, j.Claim, j.ErrorMessage}
}

func (t *tables) printJobs(w io.Writer, lines []jobLine) error {
	return t.print(w, lines, func(row func(...any)) {
		row("FILE", "STATUS", "SINCE", "TRIES", "CLAIM", "BATCH", "REASON")
		for _, l := range lines {
			row(l.FileID, l.Status, l.Since.Format(time.RFC3339), l.Tries, l.Claim, l.BatchID, l.Reason)
		}
	})
}

// maxLines is the maximum number of files that are printed or requeued.
const maxLines = 10_000

// stuck is one query of StatusIndex with a range.
func stuck() *cobra.Command {
	var t tables
	var older time.Duration
	var of string
	cmd := &cobra.Command{
		Use: "stuck", Short: "List files that have been in a status for too long, the oldest first", Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := jobStatus(of)
			if err != nil {
				return err
			}
			jobs, _, done, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			lines := []jobLine{}
			for j, err := range jobs.ByStatus(cmd.Context(), s, time.Now().Add(-older)) {
				if err != nil {
					return err
				}
				if lines = append(lines, line(j)); len(lines) == maxLines {
					break
				}
			}
			return t.printJobs(cmd.OutOrStdout(), lines)
		},
	}
	t.flags(cmd)
	cmd.Flags().DurationVar(&older, "older", 30*time.Minute, "time since the last heartbeat")
	cmd.Flags().StringVar(&of, "status", "downloading", "downloading, available, failed or error")
	return cmd
}

func jobStatus(text string) (ledger.Status, error) {
	for _, s := range ledger.JobStatuses {
		if string(s) == text {
			return s, nil
		}
	}
	return "", command.Usagef("%q is not a status: use available, downloading, completed, failed or error", text)
}

// requeue makes files available again: named ones, those of a batch with a status
// (one query of BatchIndex), or stuck ones (one query of StatusIndex).
func requeue() *cobra.Command {
	var t tables
	var batch, of, topic string
	var older time.Duration
	cmd := &cobra.Command{
		Use: "requeue [FILE...]", Short: "Queue failed or stuck files again",
		Long: "Queue files again: named files, with --batch the files of a batch with a --status,\nor with --older the files that have had the --status for that long. Completed files are never queued again.\nRunning services send the messages; with --topic they are sent immediately.\nA batch that has ended does not change: `downloads trigger DATE` starts another.",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := jobStatus(of)
			if err != nil {
				return err
			}
			ways := 0
			for _, given := range []bool{len(args) > 0, batch != "", older > 0} {
				if given {
					ways++
				}
			}
			if ways != 1 {
				return command.Usagef("files are missing: name them, or set --batch ID or --older 30m")
			}
			if s == ledger.Completed {
				return command.Usagef("completed files are not queued again")
			}
			ctx := cmd.Context()
			jobs, _, done, err := t.open(ctx)
			if err != nil {
				return err
			}
			defer done()
			var chosen []*ledger.Job
			switch {
			case len(args) > 0:
				for _, id := range args {
					j, err := jobs.Get(ctx, id)
					if err != nil {
						return err
					}
					chosen = append(chosen, j)
				}
			case batch != "":
				chosen, err = some(jobs.OfBatch(ctx, batch, s))
			default:
				chosen, err = some(jobs.ByStatus(ctx, s, time.Now().Add(-older)))
			}
			if err != nil {
				return err
			}
			return t.requeue(cmd, jobs, chosen, topic)
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&batch, "batch", "", "files of this batch")
	cmd.Flags().StringVar(&of, "status", "failed", "files with this status: failed, error, downloading or available")
	cmd.Flags().DurationVar(&older, "older", 0, "files that have had the status for this long")
	cmd.Flags().StringVar(&topic, "topic", "", "URL of the queue, to send the messages immediately")
	return cmd
}

func some(found func(func(*ledger.Job, error) bool)) ([]*ledger.Job, error) {
	var jobs []*ledger.Job
	for j, err := range found {
		if err != nil {
			return nil, err
		}
		if jobs = append(jobs, j); len(jobs) == maxLines {
			break
		}
	}
	return jobs, nil
}

func (t *tables) requeue(cmd *cobra.Command, jobs *ledger.Jobs, chosen []*ledger.Job, topic string) error {
	ctx := cmd.Context()
	send := func(context.Context, string) error { return nil }
	if topic != "" {
		q, err := queue.Open(ctx, topic, "")
		if err != nil {
			return err
		}
		defer func() { _ = q.Close(ctx) }() // the messages have been sent
		send = q.Send
	}
	lines := []jobLine{}
	var refused []string
	for _, j := range chosen {
		err := jobs.Requeue(ctx, j)
		if err == nil {
			err = send(ctx, j.FileID)
		}
		switch {
		case errors.Is(err, ledger.ErrLost), errors.Is(err, ledger.ErrUnknown):
			refused = append(refused, err.Error())
			continue
		case err != nil:
			return err
		}
		l := line(j)
		l.Status, l.Since = ledger.Available, time.Now().UTC()
		lines = append(lines, l)
	}
	if err := t.printJobs(cmd.OutOrStdout(), lines); err != nil {
		return err
	}
	if len(refused) > 0 {
		return fmt.Errorf("%d files were not queued again: %s", len(refused), strings.Join(refused[:min(3, len(refused))], "; "))
	}
	return nil
}

// audit is one query of PollingDateIndex for each day of the month.
func audit() *cobra.Command {
	var t tables
	cmd := &cobra.Command{
		Use: "audit MONTH", Short: "Check that all expected files of a month were received; if not, the exit code is 1", Args: command.Args(1, "a month"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := time.Parse("2006-01", args[0]); err != nil {
				return command.Usagef("%q is not a month such as 2026-03", args[0])
			}
			_, batches, done, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			days, err := batches.Audit(cmd.Context(), args[0], time.Now().UTC().Format(time.DateOnly))
			if err != nil {
				return err
			}
			missing := 0
			err = t.print(cmd.OutOrStdout(), days, func(row func(...any)) {
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
			for _, d := range days {
				if d.Verdict == ledger.Partial || d.Verdict == ledger.None {
					missing++
				}
			}
			if err == nil && missing > 0 {
				err = fmt.Errorf("%d days of %s are not complete", missing, args[0])
			}
			return err
		},
	}
	t.flags(cmd)
	return cmd
}

// trigger sends a request to a running poller.
func trigger() *cobra.Command {
	var server string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "trigger DATE", Short: "Start another batch for a day", Args: command.Args(1, "a date"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ledger.CheckDate(args[0]); err != nil {
				return command.Usage(err)
			}
			r, err := http.NewRequestWithContext(cmd.Context(), http.MethodPost, strings.TrimRight(server, "/")+"/api/days/"+args[0]+"/batches", nil)
			if err != nil {
				return command.Usage(err)
			}
			answer, err := (&http.Client{Timeout: 30 * time.Second}).Do(r)
			if err != nil {
				return fmt.Errorf("call the poller: %w; is it running at --server?", err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
			if err != nil {
				return fmt.Errorf("call the poller: %w", err)
			}
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("the poller rejects the request: %s", strings.TrimSpace(string(body)))
			}
			var started downloads.Started
			if err := json.Unmarshal(body, &started); err != nil {
				return fmt.Errorf("read the poller's reply: %w", err)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(started)
			}
			fmt.Fprintln(cmd.OutOrStdout(), started.BatchID)
			return nil
		},
	}
	cmd.Flags().StringVar(&server, "server", "http://127.0.0.1:8090", "URL of the running poller")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
