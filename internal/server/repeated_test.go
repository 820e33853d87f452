package server_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/server/door"
)

// A request that says twice what it asks for, who signs it, which host it is for or
// where it ends is rejected: two readers could take it for two different requests.
// The control says each once.
func TestRepeatedHeaders(t *testing.T) {
	h := newHandler(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := door.New(h, &http.Server{Handler: h}, slog.New(slog.DiscardHandler))
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	defer func() { s.Close(); <-served }()
	for _, c := range []struct{ name, repeated, want string }{
		{"the control", "X-Other: a", "200"},
		{"another target", "X-Amz-Target: DynamoDB_20120810.DescribeLimits", "400 UnknownOperationException"},
		{"the same target", "x-amz-target: " + listTables, "400 UnknownOperationException"},
		{"another signature", "Authorization: AWS4-HMAC-SHA256 Credential=b", "400 InvalidSignatureException"},
		{"another host", "Host: b", "400"},
		{"another length", "Content-Length: 3", "400"},
	} {
		for _, uri := range []string{"/", "/?"} {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n", uri)
			if err := signed(listTables).Write(conn); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "%s\r\n\r\n{}", c.repeated)
			reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(reply.Body)
			conn.Close()
			status, code, _ := strings.Cut(c.want, " ")
			if err != nil || !strings.HasPrefix(reply.Status, status) || !strings.Contains(string(text), code) {
				t.Errorf("%s: POST %s gets %s %s, %v, want %s", c.name, uri, reply.Status, text, err, c.want)
			}
		}
	}
}
