//go:build !linux && !darwin

package cli

import (
	"context"
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
