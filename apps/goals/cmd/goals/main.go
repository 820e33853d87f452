// Command goals runs the saving goals: the nightly batch, the stream of deposit
// events, and the API and page of the mobile app.
package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/internal/command"
)

func main() { command.Main(root()) }

func run(ctx context.Context, args []string) int { return command.Run(ctx, root(), args) }

func root() *cobra.Command {
	handler := &logHandler{Handler: slog.DiscardHandler}
	log := slog.New(handler)
	c := &cobra.Command{
		Use:   "goals",
		Short: "Saving goals: a nightly batch view and a near-real-time view, merged when they are read",
		RunE: func(*cobra.Command, []string) error {
			return command.Usagef("a command is missing, such as `goals demo`")
		},
	}
	command.LogFlags(c)
	check := c.PersistentPreRunE
	c.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		handler.Handler = command.Logger(cmd).Handler()
		return check(cmd, args)
	}
	c.AddCommand(demoCommand(log), serveCommand(log), consumeCommand(log), loadCommand(log), generateCommand(log), rulesCommand(), depositCommand(), reconcileCommand(), deadCommand(), brokerCommand(log), benchCommand(log))
	return c
}

// logHandler is the handler of the log, which is known when a command runs.
type logHandler struct{ slog.Handler }
