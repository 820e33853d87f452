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
		Short: "Prove that items and indexes agree",
		Long: `Walk through every table in a data folder and prove that each index entry has
its item and each item its entries. The server must not be running on it.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := os.Stat(data); err != nil {
				return fmt.Errorf("cannot verify data in %s: %w", data, err)
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			s, err := stator.Open(cmd.Context(), stator.Options{Dir: data, NoBackground: true, Log: log})
			if err != nil {
				return cannotOpen(data, err)
			}
			found, err := s.Verify(cmd.Context(), func(table string, items int64) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d items so far\n", table, items)
			})
			if err = errors.Join(err, s.Close()); err != nil {
				return err
			}
			return tellVerified(cmd.OutOrStdout(), found, asJSON)
		},
	}
	cmd.Flags().StringVar(&data, "data", "stator-data", "folder with the data")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// tellVerified prints what was found; an error when something is wrong.
func tellVerified(w io.Writer, found []stator.TableReport, asJSON bool) error {
	faults := int64(0)
	for _, v := range found {
		faults += v.Faults
	}
	if asJSON {
		if err := json.NewEncoder(w).Encode(found); err != nil {
			return err
		}
	} else {
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "TABLE\tITEMS\tINDEX ENTRIES\tFAULTS")
		for _, v := range found {
			entries := int64(0)
			for n := range maps.Values(v.Entries) {
				entries += n
			}
			fmt.Fprintf(out, "%s\t%d\t%d\t%d\n", v.Table, v.Items, entries, v.Faults)
		}
		if err := out.Flush(); err != nil {
			return err
		}
		for _, v := range found {
			for _, fault := range slices.Clone(v.First) {
				fmt.Fprintf(w, "%s: %s\n", v.Table, fault)
			}
		}
	}
	if faults > 0 {
		return fmt.Errorf("%d faults: restore the tables from a backup, or write the items concerned anew", faults)
	}
	return nil
}
