package door

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
)

// With a limit, an idle connection makes room for a new one, and as many connections are
// served one after the other as come. Without a limit all stay open.
func TestConnectionsAreLimited(t *testing.T) {
	for name, limit := range map[string]int{"limit": 2, "control: no limit": 0} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			h := fixedReply{[]byte("some reply")}
			s := New(h, newWeb(h), slog.New(slog.DiscardHandler))
			s.LimitConns(limit)
			go s.Serve(l)
			defer s.Close()
			const clients = 10
			ended := make(chan error, clients)
			for i := range clients {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				first := opening
				if i%2 == 1 {
					first = "POST /? HTTP/1.1\r\nConnection: close\r\n" // net/http answers
				}
				exchange(t, c, first+"Host: a\r\nContent-Length: 2\r\n\r\n{}")
				go func() {
					_, err := c.Read(make([]byte, 1))
					ended <- err
				}()
			}
			closed := 0
			for closed < clients/2 { // those of net/http end by themselves
				<-ended
				closed++
			}
			for limit > 0 && closed < clients-limit-1 {
				if err := <-ended; !errors.Is(err, io.EOF) {
					t.Errorf("a connection ends with %v", err)
				}
				closed++
			}
			if limit == 0 && len(ended) > 0 {
				t.Error("a connection was closed without a limit")
			}
		})
	}
}
