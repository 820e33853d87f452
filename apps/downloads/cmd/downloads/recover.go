package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/internal/command"
)

// recovering restores the records of days as they were.
func recovering() *cobra.Command {
	var t tables
	var at string
	var how ledger.Recovery
	cmd := &cobra.Command{
		Use:   "recover DATE...",
		Short: "Restore the records of days as they were at a time",
		Long: `Restores both tables as they were at a time into second tables, compares the batches
and files of the days, and with --write restores those that are gone, and those that differ
although the pipeline has not changed them since. Records that it has changed since are
newer: they are listed, and only those that --overwrite names are restored. Without --write
nothing is changed. A record is not changed if it changes meanwhile; stop the services before. The second tables remain until they are deleted. Only the tables of
--environment prod can be recovered.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usagef("name the days to recover, such as 2026-02-28")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			when, err := time.Parse(time.RFC3339, at)
			if err != nil {
				return command.Usagef("--at is %q, but must be a time such as 2026-11-15T09:30:00Z", at)
			}
			for _, date := range args {
				if err := ledger.CheckDate(date); err != nil {
					return command.Usage(err)
				}
			}
			if len(how.Overwrite) > 0 && !how.Write {
				return command.Usagef("--overwrite needs --write")
			}
			h, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = h.Close() }() // each write was acknowledged
			old, err := ledger.RestoreTo(cmd.Context(), h.DB, when)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the restored tables are %s and %s: delete them when they are no longer needed\n", old.JobsTable, old.BatchesTable)
			var reports []ledger.Recovered
			for _, date := range args {
				r, err := old.Recover(cmd.Context(), date, how)
				if err != nil {
					return err
				}
				reports = append(reports, r)
				if len(r.Newer) > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "%d records of %s are newer; only those that --overwrite names are restored, and --json lists them\n", len(r.Newer), date)
				}
			}
			return t.print(cmd.OutOrStdout(), reports, func(row func(...any)) {
				row("DAY", "BATCHES", "FILES", "DIFFER", "GONE", "NEWER", "WRITTEN")
				for _, r := range reports {
					row(r.Date, r.Batches, r.Files, r.Differ, r.Gone, len(r.Newer), r.Written)
				}
			})
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&at, "at", "", "a time before the damage, such as 2026-11-15T09:30:00Z")
	cmd.Flags().BoolVar(&how.Write, "write", false, "write the records that are gone, or differ and are not newer")
	cmd.Flags().StringSliceVar(&how.Overwrite, "overwrite", nil, "the ids of newer files and batches to restore too")
	return cmd
}
