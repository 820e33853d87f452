// Command goals runs the saving goals: the nightly batch, the stream of deposit
// events, and the API and page of the mobile app.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/internal/command"
)

func main() { command.Main(root()) }

func run(ctx context.Context, args []string) int { return command.Run(ctx, root(), args) }

func root() *cobra.Command {
	handler := &logHandler{Handler: slog.NewTextHandler(os.Stderr, nil)}
	log := slog.New(handler)
	var asJSON bool
	c := &cobra.Command{
		Use:   "goals",
		Short: "Saving goals: a nightly batch view and a near-real-time view, merged when they are read",
		PersistentPreRun: func(*cobra.Command, []string) {
			if asJSON {
				handler.Handler = slog.NewJSONHandler(os.Stderr, nil)
			}
		},
		RunE: func(*cobra.Command, []string) error {
			return command.Usagef("a command is missing, such as `goals demo`")
		},
	}
	c.PersistentFlags().BoolVar(&asJSON, "log-json", false, "log as JSON")
	c.AddCommand(demoCommand(log), serveCommand(log), consumeCommand(log), loadCommand(log), generateCommand(log), rulesCommand(), depositCommand(), reconcileCommand(), deadCommand(), brokerCommand(log), benchCommand(log))
	return c
}

// logHandler is the handler of the log; --log-json replaces it before a command runs.
type logHandler struct{ slog.Handler }
