package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// A process is a server that we started and will stop.
type process struct {
	cmd    *exec.Cmd
	output *tail
	exited chan struct{} // closed when it has ended
	err    error         // how it ended; valid after exited is closed
}

// startProcess starts a command, which ends with us even if we are killed.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, output: new(tail), exited: make(chan struct{})}
	cmd.Stderr = p.output
	if cmd.Stdout == nil {
		cmd.Stdout = p.output
	}
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop asks the process to end, and kills it if it takes too long.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// await calls ready until it returns no error, the process ends, or the time is
// up.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return errors.Join(fmt.Errorf("%s ended: %w; its output: %s", p.cmd.Path, p.err, p.output))
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w; its output: %s", p.cmd.Path, err, p.output)
		case <-time.After(time.Millisecond):
		}
	}
}

// tail keeps the last bytes that are written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
