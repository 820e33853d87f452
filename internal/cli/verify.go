package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
)

func verifyCommand() *cobra.Command {
	var data string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that items and indexes agree",
		Long: `Read every table in a data folder and check that each index entry has its item
and each item its index entries. No server may be using the folder.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := os.Stat(data); err != nil {
				return fmt.Errorf("cannot verify data in %s: %w", data, err)
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			db, err := stator.Open(cmd.Context(), stator.Options{Dir: data, NoBackground: true, Log: log})
			if err != nil {
				return cannotOpen(data, err)
			}
			reports, err := db.Verify(cmd.Context(), func(table string, items int64) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d items so far\n", table, items)
			})
			if err = errors.Join(err, db.Close()); err != nil {
				return err
			}
			return printReports(cmd.OutOrStdout(), reports, asJSON)
		},
	}
	cmd.Flags().StringVar(&data, "data", "stator-data", "data folder")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// printReports prints the reports. It returns an error if they contain faults.
func printReports(w io.Writer, reports []stator.TableReport, asJSON bool) error {
	faults := int64(0)
	for _, r := range reports {
		faults += r.Faults
	}
	if asJSON {
		if err := json.NewEncoder(w).Encode(reports); err != nil {
			return err
		}
	} else {
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "TABLE\tITEMS\tINDEX ENTRIES\tFAULTS")
		for _, r := range reports {
			entries := int64(0)
			for n := range maps.Values(r.Entries) {
				entries += n
			}
			fmt.Fprintf(out, "%s\t%d\t%d\t%d\n", r.Table, r.Items, entries, r.Faults)
		}
		if err := out.Flush(); err != nil {
			return err
		}
		for _, r := range reports {
			for _, fault := range slices.Clone(r.First) {
				fmt.Fprintf(w, "%s: %s\n", r.Table, fault)
			}
		}
	}
	if faults > 0 {
		return fmt.Errorf("%d faults: restore the tables from a backup, or rewrite the affected items", faults)
	}
	return nil
}
