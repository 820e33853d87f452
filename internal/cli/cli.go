// Package cli implements the commands of the stator binary.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	_ "github.com/stator-db/stator/s3" // s3:// URLs of backups and buckets
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// stopSignals are the signals to stop.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

// Run executes a command line and returns the exit code.
func Run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends a command that does not notice the first
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "stator: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) || isUnknownCommand(root, args) {
		fmt.Fprintln(stderr, "        see stator --help")
		return exitUsage
	}
	var file fileError
	if errors.As(err, &file) {
		return exitUsage
	}
	return exitFailed
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "stator",
		Short:         "A DynamoDB-compatible database in one binary",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(backupCommand(), restoreCommand(), conformCommand(), consoleCommand(), encryptionCommand(), keyCommand(), healthCommand(), importLocalCommand(), localCommand(), mcpCommand(), modelCommand(), policyCommand(), serveCommand(), versionCommand(), verifyCommand(), standbyCommand(), promoteCommand(), tableCommand(), topCommand(), getCommand(), queryCommand(), historyCommand(), undoCommand(), triggerCommand(), faultsCommand(), chaosCommand(), clockCommand(), forkCommand(), rewindCommand(), snapshotCommand())
	return root
}

// fileError is the error of a file that is named on the command line and is invalid, or
// cannot be read. Its exit code is that of an invalid command line.
type fileError struct{ error }

func (e fileError) Unwrap() error { return e.error }

// usageError is the error of an invalid command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func isUnknownCommand(root *cobra.Command, args []string) bool {
	_, _, err := root.Find(args)
	return err != nil
}

// noArguments rejects arguments that are not flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, but got %q", cmd.CommandPath(), args)}
	}
	return nil
}
