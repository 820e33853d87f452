// Command goals runs the saving goals: the nightly batch, the stream of deposit
// events, and the API and page of the mobile app.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// usage is the error of a command line that makes no sense.
type usage struct{ error }

func run(ctx context.Context, args []string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	root := &cobra.Command{
		Use:           "goals",
		Short:         "Saving goals: a nightly batch view and a near-real-time view, merged when they are read",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			return usage{errors.New("say what to do, such as `goals demo`; `goals --help` lists it all")}
		},
	}
	root.AddCommand(demoCommand(log), serveCommand(log), consumeCommand(log), loadCommand(log), generateCommand(log), rulesCommand(), depositCommand(), reconcileCommand(), brokerCommand(log), benchCommand(log))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var wrong usage
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, "goals:", err)
		return 2
	}
	fmt.Fprintln(os.Stderr, "goals:", err)
	return 1
}

// noArgs refuses arguments, as wrong usage.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage{fmt.Errorf("%s takes no argument %q; `%s --help` lists its flags", c.CommandPath(), args[0], c.CommandPath())}
	}
	return nil
}
