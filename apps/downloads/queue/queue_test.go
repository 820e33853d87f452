package queue

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"gocloud.dev/pubsub"
)

// Valid and invalid messages.
func TestFileID(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"as it is sent", `{"FileID":"accounts-2026-02-28"}`, "accounts-2026-02-28"},
		{"with more", `{"FileID":"a-2026-02-28","other":1}`, "a-2026-02-28"},
		{"nothing", ``, ""},
		{"half of it", `{"FileID":"acc`, ""},
		{"no JSON", "\x00\xff", ""},
		{"a list", `["accounts-2026-02-28"]`, ""},
		{"a number", `{"FileID":7}`, ""},
		{"no id", `{}`, ""},
		{"a long id", `{"FileID":"` + strings.Repeat("a", 300) + `"}`, ""},
		{"a long message", strings.Repeat(" ", 10_000) + `{"FileID":"a"}`, ""},
	} {
		got, err := (&Message{&pubsub.Message{Body: []byte(c.body)}}).FileID()
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// Invalid URLs.
func TestOpen(t *testing.T) {
	for _, c := range [][2]string{{"mem://a", ""}, {"", "mem://a"}, {"mem://a", "mem://b"}, {"what://a", ""}, {"", "no URL"}} {
		if q, err := Open(t.Context(), c[0], c[1]); err == nil {
			q.Close(t.Context())
			t.Errorf("%q is accepted", c)
		}
	}
}

// After a broker is restarted, both ends connect again.
func TestBrokerComesBack(t *testing.T) {
	broker := run(t, port())
	t.Setenv("NATS_SERVER_URL", broker.ClientURL())
	var q *Queue
	for {
		var err error
		if q, err = Open(t.Context(), "nats://files?natsv2", "nats://files?queue=d&natsv2"); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond) // the library's connection is that of an earlier run, and reconnects
	}
	defer q.Close(context.Background())
	one := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		got := make(chan string)
		go func() {
			for ctx.Err() == nil {
				if m, err := q.Receive(ctx); err == nil {
					id, _ := m.FileID()
					m.Again() // has no effect if the broker does not support it
					if id == "between" {
						continue // it was not lost
					}
					got <- id
					return
				}
			}
			close(got)
		}()
		// Messages without a receiver are lost, which is allowed.
		for {
			if err := q.Send(ctx, "a-2026-02-28"); err != nil && ctx.Err() != nil {
				t.Fatal(err)
			}
			select {
			case id := <-got:
				if id != "a-2026-02-28" {
					t.Fatalf("received %q", id)
				}
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	one()
	broker.Shutdown()
	broker.WaitForShutdown()
	_ = q.Send(t.Context(), "between")
	run(t, port())
	one()
}

// port returns a free port, the same one during the life of the process, as the
// library's connection is.
var port = sync.OnceValue(func() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
})

func run(t *testing.T, port int) *server.Server {
	t.Helper()
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	broker.Start()
	t.Cleanup(broker.Shutdown)
	if !broker.ReadyForConnections(10 * time.Second) {
		t.Fatal("the broker does not start")
	}
	return broker
}
