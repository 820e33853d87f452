// Package command runs the command line of an application: it turns errors into
// messages and exit codes.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes of all applications.
const (
	Done       = 0
	Failed     = 1
	WrongUsage = 2
)

// UsageError is an error in the command line itself, as opposed to a failure of
// the command.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Usage returns err as a UsageError.
func Usage(err error) error { return &UsageError{err} }

// Usagef returns a UsageError with a formatted message.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Main runs the command line of the process until it ends or is interrupted, and
// exits.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Run(ctx, root, os.Args[1:])
	stop()
	os.Exit(code)
}

// Run runs a command line, writes its error to the command's standard error, and
// returns the exit code.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return Done
	}
	stderr := root.ErrOrStderr()
	fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	// Cobra has no type for the error of an unknown command.
	var usage *UsageError
	if errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command") {
		fmt.Fprintf(stderr, "%*s  `%s --help` lists the commands and flags\n", len(root.Name()), "", root.Name())
		return WrongUsage
	}
	return Failed
}

// Args returns a check that a command has n arguments, described for the error
// message, such as "a queue".
func Args(n int, description string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return Usagef("%s takes %s, but has %d arguments", cmd.CommandPath(), description, len(args))
		}
		return nil
	}
}

// NoArgs is a check that a command has no arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments, but has %q", cmd.CommandPath(), args[0])
	}
	return nil
}
