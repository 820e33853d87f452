//go:build linux

package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// errEnded is returned for a server that ended although it was not killed.
var errEnded = errors.New("ended by itself")

// server is one process of a cluster, and how to start it.
type server struct {
	name    string
	address string // where it serves its clients
	program string
	args    []string
	env     []string // in addition to our own
	logFile string

	mu   sync.Mutex
	life *life // nil until it is started
}

// life is one process of a server, from start to end.
type life struct {
	process *os.Process
	killed  bool
	done    chan struct{} // closed when the process has ended
	end     error         // the result of Wait; read after done
}

func (s *server) start(l *launcher) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil && s.life.runs() {
		return fmt.Errorf("start %s: it runs already", s.name)
	}
	log, err := os.OpenFile(s.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	cmd := exec.Command(s.program, s.args...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	// In its own process group the terminal's Ctrl-C does not reach it, which
	// would end it before its clients.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := l.launch(cmd); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	now := &life{process: cmd.Process, done: make(chan struct{})}
	go func() {
		now.end = cmd.Wait()
		close(now.done)
	}()
	s.life = now
	return nil
}

// kill returns when the process has ended, or at once if there is none.
func (s *server) kill() {
	s.mu.Lock()
	now := s.life
	if now != nil {
		now.killed = true
		_ = now.process.Kill() // it fails only if the process has ended
	}
	s.mu.Unlock()
	if now != nil {
		<-now.done
	}
}

// running returns why the server does not run, or nil.
func (s *server) running() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := s.life; {
	case now == nil:
		return fmt.Errorf("%s was not started", s.name)
	case now.runs():
		return nil
	case now.killed:
		return fmt.Errorf("%s was killed", s.name)
	default:
		return fmt.Errorf("%s %w: %v; %s has:\n%s", s.name, errEnded, now.end, s.logFile, lastLines(s.logFile)) //nolint:errorlint // it may be nil
	}
}

func (l *life) runs() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// lastLines returns the panic at the end of a log, or else its last lines.
func lastLines(file string) string {
	const lines = 5
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, line := range slices.Backward(all) {
		if strings.HasPrefix(line, "panic: ") {
			return strings.Join(all[i:min(i+lines, len(all))], "\n")
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// launcher starts processes from one thread that lives until it is closed. The
// kernel sends the parent-death signal when the thread that started a process
// ends, and Go ends threads as it likes.
type launcher struct{ jobs chan func() }

func newLauncher() *launcher {
	l := &launcher{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for job := range l.jobs {
			job()
		}
	}()
	return l
}

func (l *launcher) launch(cmd *exec.Cmd) error {
	started := make(chan error)
	l.jobs <- func() { started <- cmd.Start() }
	return <-started
}

func (l *launcher) close() { close(l.jobs) }
