package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
)

func modelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Check a design by its access patterns",
		Long: `A model is a file that describes tables, their items, and how often each access
pattern runs. docs/model.md describes the format.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0])}
			}
			return usageError{fmt.Errorf("%s needs a command", cmd.CommandPath())}
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.AddCommand(modelCheckCommand(), modelCostCommand(), modelImportCommand(), modelInferCommand(), modelExportCommand(), modelDocCommand(), modelDiffCommand(), modelWatchCommand(), modelInitCommand(),
		modelProveCommand(), modelHeatCommand(), modelCacheCommand(), modelApplyCommand(), modelDriftCommand(), modelSchemaCommand())
	cmd.AddCommand(modelCodeCommands()...)
	cmd.AddCommand(modelMigrateCommand(), modelRightsizeCommand(), modelPolicyCommand())
	return cmd
}

// arguments returns a check that a command has n arguments.
func arguments(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s needs %s, but got %q", cmd.CommandPath(), what, args)}
		}
		return nil
	}
}

// readModel reads the file of a model.
func readModel(path string) (*model.Model, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError{fmt.Errorf("cannot read the model: %w", err)}
	}
	m, err := model.Parse(path, text)
	return m, invalidFile(err)
}

// readPrices reads a price file, or returns the built-in prices.
func readPrices(path string) (*model.Prices, error) {
	if path == "" {
		return model.DefaultPrices(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError{fmt.Errorf("cannot read --prices: %w", err)}
	}
	p, err := model.ParsePrices(path, text)
	return p, invalidFile(err)
}

// invalidFile turns a syntax error into the error of a file, with its lines indented.
func invalidFile(err error) error {
	var syntax *model.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	return fileError{indentedError{err}}
}

// indentedError is an error with its lines indented.
type indentedError struct{ error }

func (e indentedError) Error() string { return strings.ReplaceAll(e.error.Error(), "\n", "\n        ") }

func (e indentedError) Unwrap() error { return e.error }

// statusPainter colours the words of a status on a terminal.
type statusPainter bool

// painterFor returns a painter that uses colours if w is a terminal that wants
// them.
func painterFor(w io.Writer) statusPainter {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return statusPainter(err == nil && info.Mode()&os.ModeCharDevice != 0)
}

// The ANSI colours of the statuses.
var statusColours = map[string]string{model.StatusOK: "32", model.StatusMissing: "33", model.StatusFault: "31", "hot": "31", "note": "36", "allowed": "32", "denied": "31"}

// status returns a word padded to the width of all statuses.
func (p statusPainter) status(word string) string {
	wide := fmt.Sprintf("%-9s", word)
	if !p {
		return wide
	}
	return "\x1b[" + statusColours[word] + "m" + wide + "\x1b[0m"
}
