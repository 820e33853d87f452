package queue

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbit is a RabbitMQ server of a test, in a temporary folder.
type rabbit struct {
	program, folder string
	env             []string
	url             string
	process         *exec.Cmd
}

// newRabbit prepares a server and starts it. It skips the test if RabbitMQ is not
// installed.
func newRabbit(t *testing.T) *rabbit {
	t.Helper()
	// The command of the package changes its folder and user, this one does not.
	const program = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	if _, err := os.Stat(program); err != nil {
		t.Skip("RabbitMQ is not installed (Debian: rabbitmq-server)")
	}
	// A server that is killed leaves processes that still write to its folder.
	folder, err := os.MkdirTemp("", "downloads-rabbit-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	ports := freePorts(t, 3)
	r := &rabbit{program: program, folder: folder, url: "amqp://guest:guest@127.0.0.1:" + ports[0]}
	r.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + folder,
		"RABBITMQ_NODENAME=downloads" + ports[0] + "@localhost",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + ports[0],
		"RABBITMQ_DIST_PORT=" + ports[1], "ERL_EPMD_PORT=" + ports[2], "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE=" + folder, "RABBITMQ_LOG_BASE=" + folder,
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(folder, "none"), "RABBITMQ_CONF_ENV_FILE=" + filepath.Join(folder, "none"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(folder, "plugins"),
		"RABBITMQ_PID_FILE=" + filepath.Join(folder, "pid"),
	}
	t.Cleanup(r.stopNames)
	t.Cleanup(r.stop)
	r.start(t)
	return r
}

func (r *rabbit) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir, c.Env = r.folder, r.env
	return c
}

// start starts the server and waits until it accepts connections.
func (r *rabbit) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(r.folder, "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r.process = r.command(r.program)
	r.process.Stdout, r.process.Stderr = log, log
	r.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it is a script that starts others
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1200 {
		if c, err := amqp.Dial(r.url); err == nil {
			c.Close()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	t.Fatalf("RabbitMQ does not start:\n%s", text)
}

// stop kills the server.
func (r *rabbit) stop() {
	if r.process != nil {
		_ = syscall.Kill(-r.process.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = r.process.Wait()
		r.process = nil
	}
}

// stopNames ends the daemon that the server has started for the names of nodes. It
// refuses to end as long as it knows a node.
func (r *rabbit) stopNames() {
	for range 100 {
		if r.command("epmd", "-kill").Run() == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// declare creates an exchange and a queue that survive a restart, as an operator would.
func (r *rabbit) declare(t *testing.T, exchange, queue string) {
	t.Helper()
	c, err := amqp.Dial(r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeDeclare(exchange, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(queue, "", exchange, false, nil); err != nil {
		t.Fatal(err)
	}
}

func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

// RabbitMQ delivers each message, again if it was not acknowledged; after the server was
// killed and started, both ends connect again.
func TestRabbitMQ(t *testing.T) {
	broker := newRabbit(t)
	broker.declare(t, "files", "downloads")
	t.Setenv("RABBIT_SERVER_URL", broker.url)
	q, err := Open(t.Context(), "rabbit://files", "rabbit://downloads")
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	want := make(map[string]bool)
	for n := range 20 {
		id := fmt.Sprintf("file%d-2026-02-28", n)
		if err := q.Send(ctx, id); err != nil {
			t.Fatal(err)
		}
		want[id] = true
	}
	rejected := make(map[string]bool)
	for len(want) > 0 {
		m, err := q.Receive(ctx)
		if err != nil {
			t.Fatalf("%d messages are missing: %v", len(want), err)
		}
		id, err := m.FileID()
		if err != nil || !want[id] {
			t.Fatalf("received %q, %v", id, err)
		}
		if !rejected[id] {
			rejected[id] = true
			m.Again()
			continue
		}
		m.Ack()
		delete(want, id)
	}

	broker.stop()
	broker.start(t)
	broker.declare(t, "files", "downloads") // a broker that is killed may lose its last changes
	const late = "late-2026-02-28"
	for q.Send(ctx, late) != nil && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	for {
		m, err := q.Receive(ctx)
		if ctx.Err() != nil {
			t.Fatal("no message arrives after the restart")
		}
		if err != nil {
			continue // the connection of before
		}
		id, _ := m.FileID()
		m.Ack()
		if id == late {
			return
		}
	}
}
