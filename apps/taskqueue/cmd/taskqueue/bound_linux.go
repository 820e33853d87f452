package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/internal/command"
)

// bound runs commands that do not outlive this program, even if it is killed: a
// task must not go on while another worker executes it again.
//
// The kernel kills the command itself. Processes that the command has started
// are killed by a guard: a process that is notified of each command, and whose
// standard input ends when this program does.
type bound struct {
	mutex sync.Mutex
	guard io.WriteCloser
	cmd   *exec.Cmd
}

// newBound starts the guard.
func newBound() (*bound, error) {
	c := exec.Command("/proc/self/exe", "guard")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the guard of the tasks' commands: %w", err)
	}
	return &bound{guard: in, cmd: c}, nil
}

// close ends the guard.
func (b *bound) close() {
	b.guard.Close()
	_ = b.cmd.Wait() // its exit status is of no interest
}

func (b *bound) notify(sign string, group int) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	_, err := fmt.Fprintf(b.guard, "%s%d\n", sign, group)
	return err
}

// run runs a command in its own process group, and kills what is left of the
// group before it returns. The kernel watches the thread that started the
// command, so the goroutine is locked to it.
func (b *bound) run(c *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	killGroup := func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Cancel = killGroup
	release, err := startHeld(c)
	if err != nil {
		return err
	}
	defer func() { _ = release.Close() }()
	if err := b.notify("+", c.Process.Pid); err != nil {
		_, _ = killGroup(), c.Wait()
		return fmt.Errorf("the guard of the tasks' commands has ended: %w", err)
	}
	_, _ = release.WriteString("\n") // if nothing reads it, Wait returns the reason
	err = c.Wait()
	_ = killGroup()                  // the group may be empty
	_ = b.notify("-", c.Process.Pid) // the next command fails if the guard has ended
	return err
}

// startHeld starts a process that waits and becomes the command when a line is
// written to the returned file. It ends if the file is closed first, as it is
// when this program is killed.
func startHeld(c *exec.Cmd) (*os.File, error) {
	held, release, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	c.Args = append([]string{"sh", "-c", `read -r go <&3 && exec "$@" 3<&-`, "sh", c.Path}, c.Args[1:]...)
	c.Path, c.ExtraFiles = "/bin/sh", []*os.File{held}
	if err := c.Start(); err != nil {
		_ = release.Close()
		return nil, err
	}
	return release, nil
}

// guardCommand is the guard. It is started by the work command, not by users.
func guardCommand() *cobra.Command {
	return &cobra.Command{Use: "guard", Hidden: true, Args: command.NoArgs, RunE: func(*cobra.Command, []string) error {
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		groups := make(map[int]bool)
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			line := lines.Text()
			n, err := strconv.Atoi(line[min(1, len(line)):])
			if err != nil || n <= 1 {
				continue
			}
			if line[0] == '+' {
				groups[n] = true
			} else {
				delete(groups, n)
			}
		}
		for n := range groups {
			_ = syscall.Kill(-n, syscall.SIGKILL) // it may have ended
		}
		return nil
	}}
}
