package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/documents"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/command"
)

func recovering() *cobra.Command {
	var at string
	var asJSON, write bool
	cmd := &cobra.Command{
		Use:   "recover BATCH...",
		Short: "Restore documents of batches as they were at a time",
		Long: `Restores the table as it was at a time into a second table, compares the documents
of the batches, and with --write restores those that differ. Without --write
nothing is changed. The second table remains until it is deleted.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usagef("name the batches to recover")
			}
			return nil
		},
	}
	o := options(cmd)
	o.StoreFlags(cmd.Flags())
	cmd.Flags().StringVar(&at, "at", "", "a time before the damage, such as 2026-11-15T09:30:00Z")
	cmd.Flags().BoolVar(&write, "write", false, "write the documents that differ")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return command.Usagef("--at is %q, but must be a time such as 2026-11-15T09:30:00Z", at)
		}
		var batches []keys.BatchID
		for _, text := range args {
			id, err := keys.ParseID[keys.BatchID](text)
			if err != nil {
				return command.Usage(err)
			}
			batches = append(batches, id)
		}
		return with(cmd.Context(), o, func(s *documents.System) error {
			old, err := s.Store.RestoreTo(cmd.Context(), when)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the restored table is %s: delete it when it is no longer needed\n", old.Table)
			var reports []table.Recovered
			for _, b := range batches {
				r, err := s.Store.Recover(cmd.Context(), old, b, write)
				if err != nil {
					return err
				}
				reports = append(reports, r)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(reports)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "BATCH\tDOCUMENTS\tDIFFER\tNEW SINCE\tWRITTEN")
			for _, r := range reports {
				fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", r.Batch, r.Documents, r.Differ, r.Since, r.Written)
			}
			return w.Flush()
		})
	}
	return cmd
}
