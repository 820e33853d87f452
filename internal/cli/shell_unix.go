//go:build linux || darwin

package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// shell returns a command of the shell. When the context ends, the processes that it has started
// end with it.
func shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// runShell runs a command of shell, and writes what it prints. What it has left in the background ends
// with it. A process that has left its group, such as a daemon, remains.
func runShell(cmd *exec.Cmd, out io.Writer) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // it is only read
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close() // the command has its own
	if err != nil {
		return err
	}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		_, _ = io.Copy(out, r) // up to the deadline
	}()
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if nothing is left
	_ = r.SetReadDeadline(time.Now().Add(outputDelay))
	<-printed
	return err
}
