//go:build unix

package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/server/door"
)

// BenchmarkAnswer answers requests of connections that need no system calls, one for each
// processor, so that its figures are those of the server alone. Its items and requests are
// those of bench/. make cost compiles this file with the code of an earlier commit, too: what
// that does not have is in BenchmarkAnswerWith.
func BenchmarkAnswer(b *testing.B) {
	const onDemand = `"BillingMode": "PAY_PER_REQUEST"`
	answers(b, stator.Options{}, onDemand, false, "GetItem", "Query", "PutItem", "UpdateItem") // reads first: writes leave versions behind
}

// answers runs the operations on a database of its own. All requests carry the same signature
// unless they are signed.
func answers(b *testing.B, o stator.Options, billing string, signed bool, operations ...string) {
	db, err := stator.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	l := &loopListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	front := door.New(db.Handler().(door.Handler), &http.Server{Handler: db.Handler()}, slog.New(slog.DiscardHandler))
	go func() { _ = front.Serve(l) }()
	b.Cleanup(func() {
		_ = front.Close()
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	l.send(b, 1, benchRequest(signed, "CreateTable", `{"TableName": "Items", `+billing+`, "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "S"}],
		"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]}`))
	const partitions = 64
	var puts, gets, updates, queries [][]byte
	for p := range partitions {
		queries = append(queries, benchRequest(signed, "Query", fmt.Sprintf(`{"TableName":"Items","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p%09d"}}}`, p)))
		for s := range 10 {
			key := fmt.Sprintf(`"pk":{"S":"p%09d"},"sk":{"S":"s%03d"}`, p, s)
			puts = append(puts, benchRequest(signed, "PutItem", fmt.Sprintf(`{"TableName":"Items","Item":{%s,"shop":{"S":"g%09d"},"placed":{"N":"%d"},"hits":{"N":"1"},"price":{"N":"19.99"},"paid":{"BOOL":true},"title":{"S":"%s"},"note":{"S":"%s"},"body":{"S":"%s"}}}`,
				key, s, 1_700_000_001+p, strings.Repeat("t", 40), strings.Repeat("n", 200), strings.Repeat("b", 708))))
			gets = append(gets, benchRequest(signed, "GetItem", `{"TableName":"Items","Key":{`+key+`}}`))
			updates = append(updates, benchRequest(signed, "UpdateItem", `{"TableName":"Items","Key":{`+key+`},"UpdateExpression":"SET hits = hits + :one","ConditionExpression":"attribute_exists(pk) AND hits >= :one","ExpressionAttributeValues":{":one":{"N":"1"}}}`))
		}
	}
	l.send(b, len(puts), puts...)
	requests := map[string][][]byte{"GetItem": gets, "Query": queries, "PutItem": puts, "UpdateItem": updates}
	for _, operation := range operations {
		b.Run(operation, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime(b)
			l.sendParallel(b, b.N, requests[operation])
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// benchRequest returns a request with the headers of bench/ and the key AKID.
func benchRequest(signed bool, operation, body string) []byte {
	authorization := "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=content-length;content-type;host;x-amz-date;x-amz-target, Signature=" + strings.Repeat("0123456789abcdef", 4)
	sent := "20260101T000000Z"
	if signed {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8000/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		sum := sha256.Sum256([]byte(body))
		credentials := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "the secret"}
		if err := v4.NewSigner().SignHTTP(context.Background(), credentials, r, hex.EncodeToString(sum[:]), "dynamodb", "us-east-1", time.Now()); err != nil {
			panic(err)
		}
		authorization, sent = r.Header.Get("Authorization"), r.Header.Get("X-Amz-Date")
	}
	return fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: stator-bench\r\nAccept-Encoding: identity\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: DynamoDB_20120810.%s\r\n"+
		"Authorization: %s\r\nX-Amz-Date: %s\r\nContent-Length: %d\r\n\r\n%s", operation, authorization, sent, len(body), body)
}

// cpuTime returns the processor time of this process, which a busy machine disturbs less than
// the time of the clock.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// loopListener accepts connections that have their requests in memory.
type loopListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *loopListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *loopListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *loopListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000} }

// send sends n requests over one connection, and waits for the replies, which must be 200.
func (l *loopListener) send(b *testing.B, n int, requests ...[]byte) {
	b.Helper()
	c := &loopConn{requests: requests, left: n, done: make(chan struct{})}
	l.conns <- c
	<-c.done
	if c.failed != "" {
		b.Error(c.failed)
	}
}

// sendParallel sends n requests over as many connections as there are processors.
func (l *loopListener) sendParallel(b *testing.B, n int, requests [][]byte) {
	conns := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			at := i * len(requests) / conns // no two connections write the same item at once
			l.send(b, (n+i)/conns, slices.Concat(requests[at:], requests[:at])...)
		})
	}
	wg.Wait()
}

// loopConn is a connection whose client sends the next of some requests when the server
// reads, until none are left.
type loopConn struct {
	requests [][]byte
	left, at int
	failed   string
	done     chan struct{}
}

func (c *loopConn) Read(p []byte) (int, error) {
	if c.left == 0 || c.failed != "" {
		return 0, io.EOF
	}
	c.left--
	n := copy(p, c.requests[c.at])
	if c.at++; c.at == len(c.requests) {
		c.at = 0
	}
	return n, nil
}

func (c *loopConn) Write(p []byte) (int, error) {
	if c.failed == "" && !bytes.HasPrefix(p, []byte("HTTP/1.1 200")) {
		c.failed = string(p)
	}
	return len(p), nil
}

func (c *loopConn) Close() error                     { close(c.done); return nil }
func (c *loopConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *loopConn) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9} }
func (c *loopConn) SetDeadline(time.Time) error      { return nil }
func (c *loopConn) SetReadDeadline(time.Time) error  { return nil }
func (c *loopConn) SetWriteDeadline(time.Time) error { return nil }
