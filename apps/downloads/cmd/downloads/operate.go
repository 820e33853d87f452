package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
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

// open opens the tables that exist.
func (t *tables) open(ctx context.Context) (*home.Home, error) {
	if t.options.Endpoint == "" && t.options.Data == "" {
		return nil, command.Usagef("the tables are missing: set --endpoint to the URL of the server (a running `downloads demo` has http://127.0.0.1:8000), --endpoint aws, or --data FOLDER while no other process has it open")
	}
	t.options.Model = downloads.Model
	return home.Open(ctx, t.options)
}

// with opens the tables for a function.
func (t *tables) with(ctx context.Context, do func(*ledger.Jobs, *ledger.Batches) error) error {
	h, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }() // nothing was written
	return do(&ledger.Jobs{DB: h.DB, Now: time.Now}, &ledger.Batches{DB: h.DB, Now: time.Now})
}

// print prints a result: as JSON, or as a table.
func (t *tables) print(w io.Writer, v any, rows func(row func(cells ...any))) error {
	if t.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	return printTable(w, rows)
}

func printTable(w io.Writer, rows func(row func(cells ...any))) error {
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

// fileRows writes the rows of files.
func fileRows(lines []downloads.FileLine) func(row func(...any)) {
	at := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Format(time.RFC3339)
	}
	return func(row func(...any)) {
		row("FILE", "STATUS", "SINCE", "HEARTBEAT", "BYTES", "TRIES", "CLAIM", "BATCH", "REASON")
		for _, l := range lines {
			bytes := fmt.Sprint(l.Size)
			if l.Status == ledger.Downloading {
				bytes = fmt.Sprintf("%d of %d", l.Received, l.Size)
			}
			reason := l.Reason
			if reason == "" {
				reason = l.Events
			}
			row(l.FileID, l.Status, at(l.Since), at(l.Heartbeat), bytes, l.Tries, orDash(l.Claim), orDash(l.BatchID), reason)
		}
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func jobStatus(text string) (ledger.Status, error) {
	for _, s := range ledger.JobStatuses {
		if string(s) == text {
			return s, nil
		}
	}
	return "", command.Usagef("%q is not a status: use available, downloading, completed, failed or error", text)
}

func batchStatus(text string) (ledger.Status, error) {
	switch s := ledger.Status(text); s {
	case "", ledger.Initiated, ledger.Queued, ledger.Completed, ledger.Timeout, ledger.Failed:
		return s, nil
	}
	return "", command.Usagef("%q is not a status of batches: use initiated, queued, completed, timeout or failed", text)
}
