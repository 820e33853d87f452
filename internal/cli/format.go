package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// formatFlag is the output format of a command: --format, or --json for
// --format json.
type formatFlag struct {
	chosen string
	asJSON bool
	known  []string // the first is the default
}

func (f *formatFlag) add(cmd *cobra.Command, known ...string) {
	f.known = known
	cmd.Flags().StringVar(&f.chosen, "format", known[0], "output format: "+strings.Join(known, ", "))
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print as JSON, like --format json")
}

// check rejects an unknown format.
func (f *formatFlag) check() error {
	if !slices.Contains(f.known, f.chosen) {
		return usageError{fmt.Errorf("--format is %q, but must be one of %s", f.chosen, strings.Join(f.known, ", "))}
	}
	if f.asJSON && f.chosen != f.known[0] && f.chosen != "json" {
		return usageError{fmt.Errorf("--json and --format %s exclude each other", f.chosen)}
	}
	return nil
}

func (f *formatFlag) name() string {
	if f.asJSON {
		return "json"
	}
	return f.chosen
}
