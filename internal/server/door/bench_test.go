//go:build unix

package door

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkDoor compares servers that send constant replies of 1 KB over sixteen
// persistent loopback connections. The client is the same and allocates nothing.
// Bare is a loop that knows the length of the request and does not parse it: the
// cost of the system and the client.
func BenchmarkDoor(b *testing.B) {
	h := fixedReply{[]byte(strings.Repeat("x", 1024))}
	log := slog.New(slog.DiscardHandler)
	type server interface {
		Serve(net.Listener) error
		Close() error
	}
	for _, c := range []struct {
		name string
		make func() server
	}{
		{"net-http", func() server { return &http.Server{Handler: h} }},
		{"bare", func() server { return new(bare) }},
		{"door", func() server { return New(h, &http.Server{Handler: h}, log) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			s := c.make()
			go s.Serve(l)
			defer s.Close()
			request := []byte(sample + strings.Repeat("y", 1024))
			b.ReportAllocs()
			before := cpuTime(b)
			defer func() { b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op") }()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				conn, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Error(err)
					return
				}
				defer conn.Close()
				r := bufio.NewReaderSize(conn, 4096)
				for pb.Next() {
					if _, err := conn.Write(request); err != nil {
						b.Error(err)
						return
					}
					if err := skipReply(r); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// cpuTime is the processor time of client and server. On a shared machine it
// varies less than wall-clock time.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bare answers requests of one size without parsing them.
type bare struct{ l net.Listener }

func (s *bare) Serve(l net.Listener) error {
	s.l = l
	reply := []byte("HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024))
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			b := make([]byte, len(sample)+1024)
			for {
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				if _, err := c.Write(reply); err != nil {
					return
				}
			}
		}()
	}
}

func (s *bare) Close() error { return s.l.Close() }

// skipReply reads one reply of 1 KB.
func skipReply(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			if n, err := r.Discard(1024); err != nil || n < 1024 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}
	}
}
