// Command taskqueue is a task queue on DynamoDB: the server, the tools to use it
// with, and its measure.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// usage is an error of who typed the command.
type usage struct{ error }

// run carries out a command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use: "taskqueue", Short: "A task queue on DynamoDB",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	root.AddCommand(serveCommand(), submitCommand(), workCommand(), listCommand(), historyCommand(), getCommand(), cancelCommand(), requeueCommand(), queuesCommand(), limitCommand(), workersCommand(), benchCommand(), guardCommand())
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "taskqueue: %v\n", err)
	var wrong usage
	if errors.As(err, &wrong) || strings.HasPrefix(err.Error(), "unknown command") {
		fmt.Fprintln(os.Stderr, "           taskqueue --help tells what there is")
		return 2
	}
	return 1
}

// arguments holds a command to so many arguments.
func arguments(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usage{fmt.Errorf("%d arguments were given, but it takes %s", len(args), what)}
		}
		return nil
	}
}

func logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usage{fmt.Errorf("--log is %q, but must be debug, info, warn or error", level)}
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}
