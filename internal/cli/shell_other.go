//go:build !linux && !darwin

package cli

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"runtime"
)

// shell returns a command of the shell.
func shell(ctx context.Context, command string) *exec.Cmd {
	if runtime.GOOS == "windows" {
		return exec.CommandContext(ctx, "cmd", "/C", command)
	}
	return exec.CommandContext(ctx, "/bin/sh", "-c", command)
}

// runShell runs a command of shell, and writes what it prints. What it has left in the background remains.
func runShell(cmd *exec.Cmd, out io.Writer) error {
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, outputDelay
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // the command itself has succeeded
		err = nil
	}
	return err
}
