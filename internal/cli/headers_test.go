package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// stator serve takes 16 KB of headers and answers far more of them with 431.
func TestHeadersAreLimited(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	cmd := serveCommand()
	cmd.SetArgs([]string{"--in-memory", "--addr", "127.0.0.1:0", "--log", "error"})
	lines, stderr := io.Pipe()
	cmd.SetErr(stderr)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	first, err := bufio.NewReader(lines).ReadString('\n')
	addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(first)
	if err != nil || addr == "" {
		t.Fatalf("the server prints %q, %v", first, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	for _, c := range []struct {
		method string
		bytes  int
		code   int
	}{
		{"GET", 15 << 10, 200}, {"GET", 24 << 10, 431},
		{"POST", 15 << 10, 400}, {"POST", 24 << 10, 431}, // a POST without a body is an error
	} {
		t.Run(fmt.Sprintf("%s with %d bytes", c.method, c.bytes), func(t *testing.T) {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			head := c.method + " / HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: 0\r\n"
			for i := 0; len(head) < c.bytes; i++ {
				head += fmt.Sprintf("X-%d: %s\r\n", i, strings.Repeat("x", 1000))
			}
			go func() { _, _ = io.Copy(conn, bytes.NewReader([]byte(head+"\r\n"))) }()
			reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer reply.Body.Close()
			if reply.StatusCode != c.code {
				t.Errorf("it answers %s, want %d", reply.Status, c.code)
			}
		})
	}
}
