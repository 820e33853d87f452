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

// bound runs commands of which nothing outlives this program, even if that is
// killed: a task must not go on while another worker begins it anew.
//
// The kernel kills the command itself. What the command has started is killed by
// a guard: a process that is told of each command, and whose input ends when
// this program does.
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
	_ = b.cmd.Wait() // how it ends says nothing
}

func (b *bound) tell(sign string, group int) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	_, err := fmt.Fprintf(b.guard, "%s%d\n", sign, group)
	return err
}

// run runs a command in a process group of its own. Nothing of the group is left
// when it returns. The kernel watches the thread that started the command, so
// the thread is held.
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
	if err := b.tell("+", c.Process.Pid); err != nil {
		_, _ = killGroup(), c.Wait()
		return fmt.Errorf("the guard of the tasks' commands is gone: %w", err)
	}
	_, _ = release.WriteString("\n") // if nothing reads it, Wait tells why
	err = c.Wait()
	_ = killGroup()                // that there is nothing left is no fault
	_ = b.tell("-", c.Process.Pid) // a guard that is gone is noticed with the next command
	return err
}

// startHeld starts a process that becomes the command when a line is written to
// what is returned, and ends if that is closed before, as it is when this
// program is killed.
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

// guardCommand is the guard. It is started by work, not by people.
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
			_ = syscall.Kill(-n, syscall.SIGKILL) // it may be gone by itself
		}
		return nil
	}}
}
