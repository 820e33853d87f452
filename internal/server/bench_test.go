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

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/server/door"
)

// BenchmarkRequests sends requests over TCP connections, end to end.
func BenchmarkRequests(b *testing.B) {
	b.Run("memory", func(b *testing.B) { requests(b, stator.Options{}) })
	b.Run("disk", func(b *testing.B) { requests(b, stator.Options{Dir: b.TempDir()}) })
}

func requests(b *testing.B, o stator.Options) {
	db, err := stator.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	front := door.New(db.Handler().(door.Handler), &http.Server{Handler: db.Handler()}, slog.New(slog.DiscardHandler))
	go func() { _ = front.Serve(listener) }()
	b.Cleanup(func() {
		_ = front.Close()
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	var item strings.Builder
	for i := range 9 {
		fmt.Fprintf(&item, `, "attribute%d": {"S": "%0100d"}`, i, i)
	}
	c := dial(b, listener)
	c.ask(b, request("CreateTable", `{"TableName": "Items", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`))
	put := request("PutItem", `{"TableName": "Items", "Item": {"id": {"S": "1"}`+item.String()+`}}`)
	c.ask(b, put)
	for name, sent := range map[string]string{
		"GetItem": request("GetItem", `{"TableName": "Items", "Key": {"id": {"S": "1"}}}`),
		"PutItem": put,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(p *testing.PB) {
				c := dial(b, listener)
				for p.Next() {
					c.ask(b, sent)
				}
			})
		})
	}
}

func request(operation, body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: DynamoDB_20120810.%s\r\n"+
		"X-Amz-Date: 20260101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date;x-amz-target, Signature=%064d\r\nContent-Length: %d\r\n\r\n%s",
		operation, 0, len(body), body)
}

type benchConn struct {
	net.Conn
	in *bufio.Reader
}

func dial(b *testing.B, l net.Listener) *benchConn {
	b.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return &benchConn{c, bufio.NewReaderSize(c, 8<<10)}
}

// ask sends a request and skips the reply, which must be a 200.
func (c *benchConn) ask(b *testing.B, sent string) {
	if _, err := io.WriteString(c, sent); err != nil {
		b.Error(err)
		return
	}
	length := 0
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil || first && string(line[:12]) != "HTTP/1.1 200" {
			b.Errorf("%q, %v", line, err)
			return
		}
		if len(line) == 2 {
			break
		}
		if value, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			_, _ = fmt.Sscan(value, &length)
		}
	}
	if _, err := c.in.Discard(length); err != nil {
		b.Error(err)
	}
}
