package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// object is a JSON object.
type object = map[string]any

// door sends requests: to a process by its address, or to a handler.
type door func(target string, body []byte) (status int, answer []byte, err error)

// errorReply is a reply with a status other than 200.
type errorReply struct {
	status int
	text   string
}

func (r *errorReply) Error() string { return fmt.Sprintf("%d %s", r.status, r.text) }

// rejected reports whether the server rejected the request with this code, so
// that it had no effect.
func rejected(err error, code string) bool {
	var r *errorReply
	return errors.As(err, &r) && strings.Contains(r.text, "#"+code+`"`)
}

// call sends one request, to the streams API if the name has that prefix.
// After an error that is not an *errorReply the outcome is unknown.
func (d door) call(operation string, body, reply any) error {
	if !strings.Contains(operation, ".") {
		operation = "DynamoDB_20120810." + operation
	}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	status, answer, err := d(operation, b)
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return &errorReply{status, string(answer)}
	case reply == nil:
		return nil
	}
	return json.Unmarshal(answer, reply)
}

// must is call for requests that have to succeed.
func (d door) must(t testing.TB, operation string, body, reply any) {
	t.Helper()
	if err := d.call(operation, body, reply); err != nil {
		t.Fatalf("%s: %v", operation, err)
	}
}

func sign(r *http.Request, target string) {
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none")
}

// within returns the door of a handler in this process.
func within(h http.Handler) door {
	return func(target string, body []byte) (int, []byte, error) {
		r := httptest.NewRequest("POST", "http://127.0.0.1/", bytes.NewReader(body))
		sign(r, target)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.Bytes(), nil
	}
}

// process is a running stator.
type process struct {
	door
	cmd   *exec.Cmd
	addr  string
	ended chan struct{}
	err   error // how it ended

	mu     sync.Mutex
	stderr bytes.Buffer
}

var patient = &http.Client{
	Transport: &http.Transport{MaxIdleConnsPerHost: 8192},
	Timeout:   time.Minute, // longer is a hang
}

// start runs the server until the end of the test.
func start(t testing.TB, data string, flags ...string) *process {
	t.Helper()
	p, err := tryStart(t, data, flags...)
	if err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	return p
}

var errHangs = errors.New("the server hangs")

// startPatience is how long a server may take to listen.
const startPatience = 20 * time.Second

func tryStart(t testing.TB, data string, flags ...string) (*process, error) {
	t.Helper()
	return run(t, command(t, append([]string{"serve", "--addr", "127.0.0.1:0", "--data", data}, flags...)...))
}

// startCanned runs a server that has one reply for all requests, with the
// same HTTP reader.
func startCanned(t testing.TB, reply []byte) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "reply")
	if err := os.WriteFile(file, reply, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := run(t, exec.Command(build(t, "internal/server/door/canned"), "127.0.0.1:0", file))
	if err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	return p
}

// run waits until a server listens.
func run(t testing.TB, cmd *exec.Cmd) (*process, error) {
	t.Helper()
	p := &process{cmd: cmd, ended: make(chan struct{})}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(p.kill)
	listens := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.mu.Lock()
			if p.stderr.Len() < 1<<20 {
				fmt.Fprintln(&p.stderr, lines.Text())
			}
			p.mu.Unlock()
			if _, addr, ok := strings.Cut(lines.Text(), " listens on http://"); ok {
				p.addr = addr
				close(listens)
			}
		}
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	p.door = p.send
	select {
	case <-listens:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%w\n%s", p.err, p.log())
	case <-time.After(startPatience):
		p.cmd.Process.Signal(syscall.SIGQUIT) // prints the stacks
		<-p.ended
		return nil, fmt.Errorf("%w\n%s", errHangs, p.log())
	}
}

func (p *process) send(target string, body []byte) (int, []byte, error) {
	r, err := http.NewRequest("POST", "http://"+p.addr+"/", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	sign(r, target)
	reply, err := patient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	answer, err := io.ReadAll(reply.Body)
	return reply.StatusCode, answer, err
}

// pin gives the server one processor and this program another until the end
// of the test, so that they do not compete.
func (p *process) pin(t testing.TB) {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("it takes two processors to give each side its own")
	}
	pin := func(pid int, processors string) {
		out, err := exec.Command("taskset", "-a", "-c", "-p", processors, strconv.Itoa(pid)).CombinedOutput()
		if err != nil {
			t.Skipf("processes cannot be pinned: %v\n%s", err, out)
		}
	}
	pin(p.cmd.Process.Pid, "0")
	pin(os.Getpid(), "1")
	t.Cleanup(func() { pin(os.Getpid(), fmt.Sprintf("0-%d", runtime.NumCPU()-1)) })
}

// cpu returns the processor time of the server; 0 where it is not available.
func (p *process) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name can contain anything
	const utime, stime, tick = 11, 12, 10 * time.Millisecond
	sum := 0
	for _, i := range []int{utime, stime} {
		n, err := strconv.Atoi(strings.Fields(rest)[i])
		if err != nil {
			return 0
		}
		sum += n
	}
	return time.Duration(sum) * tick
}

// kill ends the server with SIGKILL.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// alive reports whether it still runs.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// verify runs stator verify on a folder that no server has open.
func verify(t testing.TB, data string) (out string, err error) {
	t.Helper()
	text, err := command(t, "verify", "--data", data).CombinedOutput()
	return string(text), err
}
