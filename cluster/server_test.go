//go:build linux && cluster

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// server is a stator process, which may be restarted, each time on a new
// port.
type server struct {
	t       *testing.T
	program string
	args    []string

	mu     sync.Mutex
	cmd    *exec.Cmd // nil when it was killed
	url    string    // of the last process
	text   bytes.Buffer
	silent bool // it ended by itself
}

// serve starts n servers on one engine and returns when all are open.
func serve(t *testing.T, n int, engine string, flags ...string) fleet {
	t.Helper()
	return serveEach(t, n, engine, func(int) []string { return flags })
}

// serveEach is serve with other flags for each server.
func serveEach(t *testing.T, n int, engine string, flags func(i int) []string) fleet {
	t.Helper()
	args := []string{"serve", "--engine", engine, "--backups", t.TempDir(), "--log", "warn"}
	var f fleet
	for i := range n {
		s := &server{t: t, program: program(t, "stator"), args: slices.Concat(args, flags(i))}
		t.Cleanup(func() {
			s.kill()
			if t.Failed() {
				t.Logf("the log of a server:\n%s", s.tail(40))
			}
		})
		s.launch("127.0.0.1:0")
		f = append(f, s)
	}
	for _, s := range f {
		s.awaitOpen()
	}
	return f
}

// start starts the process and returns when the server is open.
func (s *server) start() {
	s.t.Helper()
	s.launch("127.0.0.1:0")
	s.awaitOpen()
}

func (s *server) awaitOpen() {
	s.t.Helper()
	await(s.t, "the server opens", func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for line := range strings.Lines(s.text.String()) {
			if url, ok := strings.CutPrefix(line, "stator listens on "); ok {
				s.url = strings.TrimSpace(url)
				return nil
			}
		}
		if s.silent {
			s.t.Fatalf("the server has ended:\n%s", s.text.String())
		}
		return fmt.Errorf("its output is:\n%s", s.text.String())
	})
}

// launch starts the process and does not wait for the server to open.
func (s *server) launch(addr string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Reset()
	s.silent, s.url = false, "http://"+addr
	cmd := exec.Command(s.program, append(s.args, "--addr", addr)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := onThread(cmd.Start); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = cmd
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			s.mu.Lock()
			fmt.Fprintln(&s.text, lines.Text())
			s.mu.Unlock()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.silent = s.cmd == cmd
	}()
}

// kill ends the server with SIGKILL, if it runs.
func (s *server) kill() {
	s.mu.Lock()
	cmd := s.cmd
	s.cmd = nil
	s.mu.Unlock()
	if cmd != nil {
		cmd.Process.Kill()
		cmd.Wait()
	}
}

// log returns the output of the current process.
func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *server) tail(lines int) string {
	all := strings.Split(s.log(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (s *server) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

// fleet are servers that share their data.
type fleet []*server

// any returns a random one of them.
func (f fleet) any() *server { return f[rand.N(len(f))] }

// freeAddress returns an address with a free port.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// onThread runs do on a thread that lives as long as this process: the kernel
// sends the parent-death signal when the thread that started a process ends.
func onThread(do func() error) error {
	done := make(chan error)
	thread() <- func() { done <- do() }
	return <-done
}

var thread = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})
