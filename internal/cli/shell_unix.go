//go:build linux || darwin

package cli

import (
	"context"
	"os/exec"
	"syscall"
)

// shell returns a command of the shell. When the context ends, the processes that it has started
// end with it.
func shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
