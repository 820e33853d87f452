package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/taskqueue"
	"github.com/stator-db/stator/apps/taskqueue/client"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// TestMain lets the test binary act as the program itself, and as the command that
// its workers run.
func TestMain(m *testing.M) {
	switch os.Getenv("TASKQUEUE_TEST_AS") {
	case "program":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(run(ctx, os.Args[1:]))
	case "task":
		os.Exit(watched(os.Getenv("TASKQUEUE_TEST_DIR"), os.Getenv("TASK_ID")))
	}
	os.Exit(m.Run())
}

// watched runs a task for a short time, and records when another process runs it
// too. Its lock ends with the process, even if it is killed.
func watched(dir, id string) int {
	lock, err := os.OpenFile(filepath.Join(dir, "lock-"+id), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		note(dir, "overlaps", id)
	}
	time.Sleep(time.Duration(rand.IntN(80)) * time.Millisecond)
	note(dir, "runs", id)
	if rand.IntN(10) == 0 {
		return 1
	}
	return 0
}

func note(dir, file, line string) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, line)
	f.Close()
}

// program starts the program. It is killed when the test ends.
func program(t *testing.T, dir string, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "TASKQUEUE_TEST_AS=program", "TASKQUEUE_TEST_DIR="+dir, "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_REGION=us-east-1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.Stderr = log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	return c, out
}

// server starts a server and waits until it is ready.
func server(t *testing.T, dir, address string, where ...string) *exec.Cmd {
	t.Helper()
	if where == nil {
		where = []string{"--data", filepath.Join(dir, "data")}
	}
	c, out := program(t, dir, append([]string{"serve", "--listen", address}, where...)...)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "task queue on ") {
			go io.Copy(io.Discard, out)
			return c
		}
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	t.Fatalf("the server does not start:\n%s", log)
	return nil
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// doing returns the command line by which workers run this test binary as a task.
func doing() string { return "TASKQUEUE_TEST_AS=task exec '" + os.Args[0] + "'" }

// Workers and servers are killed at random: one server has the table embedded,
// another uses it over the network. Every accepted task ends exactly once in a
// final status, no two processes run one at the same time, every task equals the
// replay of its events, and nothing is scanned.
func TestKill(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dir, dynamodb := t.TempDir(), freeAddress(t)
	addresses := []string{freeAddress(t), freeAddress(t)}
	wheres := [][]string{{"--data", filepath.Join(dir, "data"), "--dynamodb", dynamodb}, {"--endpoint", "http://" + dynamodb}}
	servers, clients := make([]*exec.Cmd, 2), make([]*client.Client, 2)
	for i := range servers {
		servers[i] = server(t, dir, addresses[i], wheres[i]...)
		clients[i] = client.New("http://" + addresses[i])
	}
	c := clients[0]
	noScan := func() { hometest.NoScan(t, http.DefaultClient, "http://"+dynamodb) }

	worker := func(n int) *exec.Cmd {
		w, out := program(t, dir, "work", "q", "--server", "http://"+addresses[n%2], "--exec", doing(), "--lease", "1s", "--parallel", "2", "--worker", "w"+strconv.Itoa(n), "--log", "warn")
		go io.Copy(io.Discard, out)
		return w
	}
	workers := make([]*exec.Cmd, 4)
	started := 0
	for i := range workers {
		workers[i] = worker(started)
		started++
	}

	var mutex sync.Mutex
	var accepted []string
	var submitters sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		submitters.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(40 * time.Millisecond):
				}
				in, err := submitTwice(t.Context(), clients[i%2], clients[(i+1)%2])
				if err != nil {
					t.Error(err)
					return
				}
				mutex.Lock()
				accepted = append(accepted, in.ID)
				mutex.Unlock()
			}
		})
	}
	for round := range *kills {
		time.Sleep(time.Duration(200+r.IntN(500)) * time.Millisecond)
		if round%3 == 2 {
			noScan()
			some := [][]int{{0}, {1}, {0, 1}}[round/3%3] // the first has the database in it
			for _, i := range some {
				kill(t, servers[i])
			}
			for _, i := range some {
				servers[i] = server(t, dir, addresses[i], wheres[i]...)
			}
			continue
		}
		i := r.IntN(len(workers))
		kill(t, workers[i])
		workers[i] = worker(started)
		started++
	}
	close(stop)
	submitters.Wait()
	t.Logf("%d tasks were accepted, %d processes killed", len(accepted), *kills)

	for _, id := range accepted {
		final(t, c, id)
	}
	if n := lines(t, filepath.Join(dir, "overlaps")); len(n) > 0 {
		t.Errorf("tasks ran twice at the same time: %v", n)
	}
	if n := len(lines(t, filepath.Join(dir, "runs"))); n < len(accepted) {
		t.Errorf("%d tasks were accepted, but only %d were completed", len(accepted), n)
	}
	for _, w := range workers {
		w.Process.Signal(syscall.SIGTERM)
		if err := w.Wait(); err != nil {
			t.Errorf("a worker that is stopped ends with %v", err)
		}
	}
	nothingLeft(t, "http://"+dynamodb, started, accepted)
	noScan()
	for _, i := range []int{1, 0} {
		servers[i].Process.Signal(syscall.SIGTERM)
		if err := servers[i].Wait(); err != nil {
			t.Errorf("server %d, which is stopped, ends with %v", i, err)
		}
	}
}

func kill(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
}

// final waits until a task has ended, and compares it with its history.
func final(t *testing.T, c *client.Client, id string) {
	t.Helper()
	for {
		got, err := c.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Status.Final() {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		events, err := c.History(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if err := task.Matches(got, events); err != nil {
			t.Error(err)
		}
		finals := 0
		for _, e := range events {
			if e.Type == task.Done || e.Type == task.FailedForGood || e.Type == task.DeadLettered || e.Type == task.CancelledByClient {
				finals++
			}
		}
		if finals != 1 || got.Status != task.Completed {
			t.Errorf("task %s is %s and has ended %d times", id, got.Status, finals)
		}
		return
	}
}

// The control: overlapping runs of a task are found.
func TestOverlapsAreFound(t *testing.T) {
	dir := t.TempDir()
	both := make([]*exec.Cmd, 0, 20)
	for range cap(both) {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "TASKQUEUE_TEST_AS=task", "TASKQUEUE_TEST_DIR="+dir, "TASK_ID=x")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		both = append(both, c)
	}
	for _, c := range both {
		c.Wait()
	}
	if len(lines(t, filepath.Join(dir, "overlaps"))) == 0 {
		t.Error("twenty processes run one task at the same time, and no overlap is found")
	}
}

// cli runs a command line of the program.
func cli(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "TASKQUEUE_TEST_AS=program")
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return exit.ExitCode(), stdout.String() + stderr.String()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, stdout.String()
}

func TestCommands(t *testing.T) {
	dir, address := t.TempDir(), freeAddress(t)
	server(t, dir, address)
	at := "--server=http://" + address
	code, out := cli(t, "submit", "mail", "send", `{"to":"x"}`, "--key", "k1", "--json", at)
	var in task.Task
	if err := json.Unmarshal([]byte(out), &in); code != 0 || err != nil || in.Status != task.Pending {
		t.Fatalf("submit: %d %s", code, out)
	}
	for _, x := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"the same key", []string{"submit", "mail", "send", `{"to":"x"}`, "--key", "k1", at}, 0, in.ID},
		{"the same key for other content", []string{"submit", "mail", "send", `{"to":"y"}`, "--key", "k1", at}, 1, "use a new key"},
		{"no JSON", []string{"submit", "mail", "send", "hello", at}, 2, "not JSON"},
		{"no type", []string{"submit", "mail", at}, 2, "a queue, a type"},
		{"get", []string{"get", in.ID, at}, 0, "PENDING"},
		{"get with the payload", []string{"get", in.ID, at}, 0, `{"to":"x"}`},
		{"history", []string{"history", in.ID, at}, 0, "SUBMITTED"},
		{"list", []string{"list", "mail", at}, 0, in.ID},
		{"list of all queues", []string{"list", at}, 0, in.ID},
		{"list of two queues", []string{"list", "a", "b", at}, 2, "a queue or nothing"},
		{"list of a type", []string{"list", "--type", "send", "--older-than", "1ns", at}, 0, in.ID},
		{"counts", []string{"counts", at}, 0, "mail   1 "},
		{"counts of an unknown queue", []string{"counts", "nothing", at}, 1, "there is no queue"},
		{"bulk cancel without a selection", []string{"cancel", at}, 2, "--all"},
		{"bulk cancel of named tasks", []string{"cancel", in.ID, "--all", at}, 2, "not both"},
		{"bulk cancel as a dry run", []string{"cancel", "--queue", "mail", "--dry-run", at}, 0, in.ID},
		{"bulk cancel of another type", []string{"cancel", "--type", "other", at}, 0, "0        0        0"},
		{"bulk requeue of pending tasks", []string{"requeue", "--status", "pending", at}, 1, "does not apply"},
		{"list of another status", []string{"list", "mail", "--status", "dead", at}, 0, "TASK"},
		{"list of an unknown status", []string{"list", "mail", "--status", "asleep", at}, 1, "must be one of"},
		{"queues", []string{"queues", at}, 0, "mail"},
		{"limits", []string{"limit", "mail", "--max-running", "2", at}, 0, ""},
		{"a pause", []string{"limit", "mail", "--paused", at}, 0, ""},
		{"a pause keeps the limits", []string{"queues", at}, 0, "100000       2            true"},
		{"workers", []string{"workers", at}, 0, "WORKER"},
		{"cancel", []string{"cancel", in.ID, "--reason", "enough", at}, 0, "CANCELLED"},
		{"get with the reason", []string{"get", in.ID, at}, 0, "enough"},
		{"requeue of a cancelled task", []string{"requeue", in.ID, at}, 1, "cannot happen"},
		{"an unknown id", []string{"get", task.NewID(time.Now()), at}, 1, "there is no task"},
		{"work without a command", []string{"work", "mail", at}, 2, "--exec is missing"},
		{"an unknown command", []string{"dance"}, 2, "unknown command"},
		{"an unknown log level", []string{"serve", "--log", "loud"}, 2, "--log is"},
		{"units without a bound", []string{"serve", "--provisioned", "2000"}, 2, "such as 2000:10000"},
		{"units in the wrong order", []string{"serve", "--provisioned", "20:10"}, 2, "not more than the second"},
		{"an unknown flag", []string{"list", "mail", "--colour"}, 2, "unknown flag"},
		{"no server", []string{"queues", "--server=http://127.0.0.1:1"}, 1, "reach the task queue"},
		{"no URL", []string{"queues", "--server=here"}, 2, "must be a URL"},
		{"an address that other machines reach", []string{"serve", "--listen", "0.0.0.0:0"}, 1, "--allow-anyone"},
		{"an endpoint and a folder", []string{"serve", "--listen", "127.0.0.1:0", "--endpoint", "http://127.0.0.1:1", "--data", "x"}, 1, "leave them out"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if code, out := cli(t, x.args...); code != x.code || !strings.Contains(out, x.want) {
				t.Errorf("exit code %d, output %s, want %d and %q", code, out, x.code, x.want)
			}
		})
	}
}

// A worker's command gets the payload and the environment, and its exit code
// decides the task's status.
func TestWorkCommand(t *testing.T) {
	dir, address := t.TempDir(), freeAddress(t)
	server(t, dir, address)
	c := client.New("http://" + address)
	ids := make(map[string]string)
	for _, kind := range []string{"good", "never", "again", "loud"} {
		in, err := c.Submit(t.Context(), "q", task.Submission{Type: kind, Payload: json.RawMessage(`{"n":1}`), Backoff: task.Duration(10 * time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		ids[kind] = in.ID
	}
	w, out := program(t, dir, "work", "q", "--server", "http://"+address, "--parallel", "2", "--exec",
		`case $TASK_TYPE in good) cat; echo " $TASK_QUEUE $TASK_ATTEMPT";; never) echo no >&2; exit 100;; again) [ $TASK_ATTEMPT = 2 ];; loud) yes | head -c 100000;; esac`)
	go io.Copy(io.Discard, out)
	for kind, want := range map[string]struct {
		status   task.Status
		attempts int
		result   string
	}{
		"good":  {task.Completed, 1, `{"n":1} q 1`},
		"never": {task.Failed, 1, ""},
		"again": {task.Completed, 2, ""},
		"loud":  {task.Completed, 1, "y\ny"},
	} {
		for {
			got, err := c.Get(t.Context(), ids[kind])
			if err != nil {
				t.Fatal(err)
			}
			if !got.Status.Final() {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			if got.Status != want.status || got.Attempts != want.attempts || !strings.HasPrefix(got.Result, want.result) || len(got.Result) > task.MaxResult {
				t.Errorf("%s is %s after %d attempts with %q", kind, got.Status, got.Attempts, got.Result)
			}
			break
		}
	}
	w.Process.Signal(syscall.SIGTERM)
	if err := w.Wait(); err != nil {
		t.Errorf("the worker ends with %v", err)
	}
}

// The first minute of the README ends with what the worker returned.
func TestFirstMinute(t *testing.T) {
	dir, address := t.TempDir(), freeAddress(t)
	server(t, dir, address)
	at := "--server=http://" + address
	if code, out := cli(t, "submit", "mail", "send", `{"to": "a@example.org"}`, "--key", "order-17", at); code != 0 {
		t.Fatal(out)
	}
	_, out := program(t, dir, "work", "mail", at, "--exec", `cat; echo " is sent"`)
	go io.Copy(io.Discard, out)
	var id string
	for id == "" {
		_, list := cli(t, "list", "mail", "--status", "COMPLETED", at)
		if rows := strings.Split(list, "\n"); len(rows) > 2 {
			id, _, _ = strings.Cut(rows[1], " ")
		}
	}
	_, got := cli(t, "get", id, at)
	for _, line := range []string{"status      COMPLETED\n", "attempts    1 of 5\n", `payload     {"to":"a@example.org"}` + "\n", `result      {"to":"a@example.org"} is sent` + "\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("get prints\n%swithout %q", got, line)
		}
	}
}

// With --log-json every line of the log is a JSON object.
func TestJSONLog(t *testing.T) {
	dir, address := t.TempDir(), freeAddress(t)
	c := server(t, dir, address, "--log-json", "--log", "debug")
	c.Process.Signal(syscall.SIGTERM)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(log)), "\n")
	for _, row := range rows {
		var line struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(row), &line); err != nil || line.Time == "" || line.Level == "" || line.Msg == "" {
			t.Errorf("the log has the line %q, %v", row, err)
		}
	}
	if len(rows) < 2 {
		t.Errorf("the log is %q", log)
	}
}

// All processes of a task end when its worker is killed, child processes of its
// command included.
func TestNothingOutlivesAWorker(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux notifies a process that its parent has ended")
	}
	dir, address := t.TempDir(), freeAddress(t)
	server(t, dir, address)
	c := client.New("http://" + address)
	if _, err := c.Submit(t.Context(), "q", task.Submission{Type: "t"}); err != nil {
		t.Fatal(err)
	}
	w, out := program(t, dir, "work", "q", "--server", "http://"+address, "--exec", "sleep 600 & echo $! >'"+dir+"/child'; echo $$ >'"+dir+"/shell'; wait")
	go io.Copy(io.Discard, out)
	pid := func(file string) int {
		for {
			if l := lines(t, filepath.Join(dir, file)); len(l) == 1 {
				n, err := strconv.Atoi(l[0])
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	child, shell := pid("child"), pid("shell")
	for _, p := range []int{child, shell} {
		if !runs(p) {
			t.Fatalf("process %d does not run", p)
		}
	}
	kill(t, w)
	for _, p := range []int{child, shell} {
		for n := 0; runs(p); n++ {
			if n == 1000 {
				syscall.Kill(p, syscall.SIGKILL)
				t.Fatalf("process %d still runs", p)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// runs reports whether a process exists and is not a zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// The requests of the benchmark are those of the model: make drift compares them.
func TestTrafficOfBench(t *testing.T) {
	h := hometest.Start(t, taskqueue.Model)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- new(serving).over(ctx, h, listener, slog.New(slog.DiscardHandler), func(string, string) { close(started) })
	}()
	select {
	case <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	o := benching{server: "http://" + listener.Addr().String(), queue: "bench", rate: 20, span: time.Second, ceiling: 300 * time.Millisecond, workers: 4, payload: 300, submitter: 2}
	if err := o.run(t.Context(), io.Discard); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBench(t *testing.T) {
	code, out := cli(t, "bench", "--rate", "20", "--for", "1s", "--ceiling", "300ms", "--workers", "4", "--submitters", "2", "--json")
	var parts []Part
	if err := json.Unmarshal([]byte(out[strings.Index(out, "["):]), &parts); code != 0 || err != nil || len(parts) != 2 {
		t.Fatalf("it is %d %s, %v", code, out, err)
	}
	for _, p := range parts {
		if p.Submitted == 0 || p.Completed != p.Submitted || p.Wrong > 0 || p.Submit.P99 <= 0 {
			t.Errorf("the part is %+v", p)
		}
	}
}
