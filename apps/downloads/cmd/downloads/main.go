// Command downloads runs the daily download pipeline and answers questions about
// it.
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
	err := command().ExecuteContext(ctx)
	stop()
	var usage usageError
	switch {
	case err == nil:
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "downloads:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "downloads:", err)
		os.Exit(1)
	}
}

// usageError is an error of whoever typed the command.
type usageError struct{ error }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "downloads",
		Short:         "Brings the files of each day into a bucket, once, and knows which are missing",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command %q; `downloads --help` lists them", args[0])}
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().Bool("verbose", false, "log every file")
	root.PersistentFlags().Bool("log-json", false, "log as JSON")
	root.AddCommand(demo(), serve(), poll(), download(), stand(), makeKey(),
		trigger(), status(), stuck(), requeue(), audit(), bench())
	return root
}

// arguments wants a number of arguments.
func arguments(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

func logger(cmd *cobra.Command) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if v, _ := cmd.Flags().GetBool("verbose"); v {
		options.Level = slog.LevelDebug
	}
	if v, _ := cmd.Flags().GetBool("log-json"); v {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}
