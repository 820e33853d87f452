package server_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/virtualtime"
)

// A reply of 4 KB or more is compressed for a client that accepts that. Its checksum is of
// the bytes that are sent. Both readers answer alike.
func TestCompressedReplies(t *testing.T) {
	h := newHandler(t)
	ask := bothReaders(t, h)
	fillLarge(t, h)
	put := func(size int) string {
		must(t, h, "PutItem", fmt.Sprintf(`{"TableName":"Large","Item":{"p":{"S":"x"},"k":{"N":"%d"},"s":{"S":"%s"}}}`, size, strings.Repeat("y", size)))
		return fmt.Sprintf(`{"TableName":"Large","Key":{"p":{"S":"x"},"k":{"N":"%d"}},"ProjectionExpression":"s"}`, size)
	}
	const around = len(`{"Item":{"s":{"S":""}}}`)
	for _, c := range []struct {
		name, accept       string
		operation, request string
		size               int // of the reply; 0 is any
		want               string
	}{
		{"no Accept-Encoding", "", "GetItem", put(10_000), 10_000 + around, ""},
		{"identity", "identity", "GetItem", put(10_000), 10_000 + around, ""},
		{"a refusal", "gzip;q=0", "GetItem", put(10_000), 10_000 + around, ""},
		{"gzip", "gzip", "GetItem", put(10_000), 10_000 + around, "gzip"},
		{"deflate", "deflate", "GetItem", put(10_000), 10_000 + around, "deflate"},
		{"any", "*", "GetItem", put(10_000), 10_000 + around, "gzip"},
		{"a list", "br;q=1.0, gzip;q=0.8, *;q=0.1", "GetItem", put(10_000), 10_000 + around, "gzip"},
		{"a small reply", "gzip", "GetItem", put(4095 - around), 4095, ""},
		{"the smallest that is compressed", "gzip", "GetItem", put(4096 - around), 4096, "gzip"},
		{"a large item", "gzip", "GetItem", largeReads["GetItem"], 0, "gzip"},
		{"a page", "gzip", "Query", largeReads["Query"], 0, "gzip"},
		{"a batch", "deflate", "BatchGetItem", largeReads["BatchGetItem"], 0, "deflate"},
		{"a long error", "gzip", "PutItem", `{"TableName":"Large","Item":{"p":{"S":"x"},"k":{"N":"10000"}},"ConditionExpression":"attribute_not_exists(p)","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`, 0, "gzip"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plainReply := ask(c.operation, "", []byte(c.request))
			want, _ := io.ReadAll(plainReply.Body)
			if c.size > 0 && len(want) != c.size {
				t.Fatalf("the reply has %d bytes, want %d", len(want), c.size)
			}
			reply := ask(c.operation, "Accept-Encoding: "+c.accept+"\r\n", []byte(c.request))
			sent, _ := io.ReadAll(reply.Body)
			if got := reply.Header.Get("X-Amz-Crc32"); got != fmt.Sprint(crc32.ChecksumIEEE(sent)) {
				t.Errorf("the checksum is %s", got)
			}
			if got := reply.Header.Get("Content-Length"); got != fmt.Sprint(len(sent)) {
				t.Errorf("the length is %s, want %d", got, len(sent))
			}
			if got := reply.Header.Get("Content-Encoding"); got != c.want || reply.StatusCode != plainReply.StatusCode {
				t.Errorf("the reply is %s with the coding %q, want %q", reply.Status, got, c.want)
			}
			if got := decodeReply(t, c.want, sent); !bytes.Equal(got, want) {
				t.Errorf("the reply is %.200s, want %.200s", got, want)
			}
		})
	}
}

func decodeReply(t *testing.T, coding string, sent []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(sent)
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "deflate":
		r, err = zlib.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Only the first of two Accept-Encoding counts, as in DynamoDB. Replies that are not of the
// API are never compressed.
func TestOtherRepliesAreNotCompressed(t *testing.T) {
	h := newHandler(t)
	fillLarge(t, h)
	for _, c := range []struct {
		accept []string
		want   string
	}{{[]string{"identity", "gzip"}, ""}, {[]string{"gzip", "identity"}, "gzip"}} {
		header := signed("DynamoDB_20120810.Query")
		header["Accept-Encoding"] = c.accept
		if w := send(h, "POST", "/", header, strings.NewReader(largeReads["Query"])); w.Header().Get("Content-Encoding") != c.want {
			t.Errorf("Accept-Encoding %v gets the coding %q", c.accept, w.Header().Get("Content-Encoding"))
		}
	}
	for _, path := range []string{"/", "/healthz", "/metrics", "/shapes"} {
		header := signed(listTables)
		header.Set("Accept-Encoding", "gzip")
		if w := send(h, "GET", path, header, nil); w.Header().Get("Content-Encoding") != "" {
			t.Errorf("GET %s has the coding %q", path, w.Header().Get("Content-Encoding"))
		}
	}
}

// A large reply that is compressed keeps no more memory than the compressed bytes need until
// the client reads it: a request that needs all memory does not wait. The control is a reply
// that is not compressed.
func TestMemoryOfCompressedReplies(t *testing.T) {
	for accept, waits := range map[string]bool{"gzip": false, "identity": true} {
		t.Run(accept, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				h := newHandler(t)
				fillLarge(t, h)
				h.SetMemory(16 << 20)
				dial := serve(t, h)
				send := func(c net.Conn, operation string) {
					_, _ = c.Write(requestOf("/", operation, "Accept-Encoding: "+accept+"\r\n", []byte(largeReads[operation]))) // it may be cut
				}
				go send(dial(), "Query")
				synctest.Wait()
				began := time.Now()
				other := dial()
				go send(other, "BatchGetItem") // needs all memory
				if status, _ := readReply(t, other); (status == 200 && time.Since(began) == 0) == waits {
					t.Errorf("a request that needs all memory gets %d after %v", status, time.Since(began))
				}
			})
		})
	}
}
