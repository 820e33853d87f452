package server_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/virtualtime"
)

// encode encodes a body as a client would.
func encode(t testing.TB, coding string, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w, _ = gzip.NewWriterLevel(&b, flate.BestSpeed)
	case "deflate":
		w, _ = zlib.NewWriterLevel(&b, flate.BestSpeed)
	default:
		return body
	}
	_, err := w.Write(body)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// spaces is a request of this many bytes, at least two.
func spaces(size int) []byte {
	b := bytes.Repeat([]byte(" "), size)
	copy(b, "{}")
	return b
}

// requestOf is a request, with further headers as lines. With a query it is for net/http.
func requestOf(uri, operation, headers string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n", uri, len(body))
	signed("DynamoDB_20120810." + operation).Write(&b)
	b.WriteString(headers + "\r\n")
	b.Write(body)
	return b.Bytes()
}

// bothReaders serves a handler, and returns the function that sends a request once through
// the door and once through net/http, and returns the reply, which must be the same.
func bothReaders(t *testing.T, h *server.Handler) (ask func(operation, headers string, body []byte) *http.Response) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counted := &countingDoorHandler{Handler: h}
	s := door.New(counted, &http.Server{Handler: h}, slog.New(slog.DiscardHandler))
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-served })
	one := func(uri, operation, headers string, body []byte) (*http.Response, string) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() { _, _ = c.Write(requestOf(uri, operation, headers, body)) }() // it may be rejected before its end
		reply, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"x-amzn-RequestId", "Date", "Connection"} {
			reply.Header.Del(name)
		}
		reply.Body = io.NopCloser(bytes.NewReader(text))
		return reply, fmt.Sprintf("%s %v %x", reply.Status, reply.Header, text)
	}
	return func(operation, headers string, body []byte) *http.Response {
		t.Helper()
		before := counted.answered.Load()
		reply, direct := one("/", operation, headers, body)
		if counted.answered.Load() == before && strings.Count(headers, "Content-Encoding") < 2 {
			t.Error("the door did not read the request")
		}
		if _, web := one("/?", operation, headers, body); web != direct {
			t.Errorf("the reply is\n%.300s through the door,\n%.300s through net/http", direct, web)
		}
		return reply
	}
}

// A body is decoded, to the limit of one that is not compressed, and no further. Both readers
// answer alike.
func TestCompressedBodies(t *testing.T) {
	ask := bothReaders(t, newHandler(t))
	const limit = 16 << 20
	for _, coding := range []string{"gzip", "deflate", "identity"} {
		for _, c := range []struct{ size, code int }{
			{0, 400}, {1, 400}, {2, 200}, {1 << 10, 200}, {128 << 10, 200}, {128<<10 + 1, 200}, {1 << 20, 200}, {limit - 1, 200}, {limit, 200}, {limit + 1, 413}, {2 * limit, 413},
		} {
			if coding == "identity" && c.size > 1<<20 {
				continue // as in TestBodyLimit
			}
			t.Run(fmt.Sprint(coding, " ", c.size), func(t *testing.T) {
				body := encode(t, coding, spaces(c.size))
				reply := ask("ListTables", "Content-Encoding: "+coding+"\r\n", body)
				text, _ := io.ReadAll(reply.Body)
				want := map[int]string{200: `{"TableNames":[]}`, 400: `{"__type":"com.amazon.coral.service#SerializationException"}`, 413: "<RequestEntityTooLargeException/>\n"}[c.code]
				if reply.StatusCode != c.code || string(text) != want {
					t.Errorf("a body of %d bytes gets %d %s, want %d", len(body), reply.StatusCode, text, c.code)
				}
			})
		}
	}
}

// A body that is not in its coding, and a coding that is not supported, have defined answers.
func TestMalformedBodies(t *testing.T) {
	ask := bothReaders(t, newHandler(t))
	body := spaces(1000)
	gz, zl := encode(t, "gzip", body), encode(t, "deflate", body)
	large := encode(t, "gzip", spaces(1<<20))
	random := make([]byte, 300<<10) // a sent body that is large
	const (
		fine      = `200 {"TableNames":[]}`
		malformed = `500 {"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"The body is not in its Content-Encoding, or it is incomplete."}`
		unknown   = `500 {"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"The Content-Encoding is not supported. The codings gzip and deflate are."}`
		unreadIt  = `400 {"__type":"com.amazon.coral.service#SerializationException"}`
	)
	for _, c := range []struct {
		name, headers string
		body          []byte
		want          string
	}{
		{"no coding", "", body, fine},
		{"an empty Content-Encoding", "Content-Encoding:\r\n", body, fine},
		{"identity", "Content-Encoding: identity\r\n", body, fine},
		{"capitals", "CONTENT-ENCODING: GZIP\r\n", gz, fine},
		{"two members", "Content-Encoding: gzip\r\n", append(encode(t, "gzip", body[:1]), encode(t, "gzip", body[1:])...), fine},
		{"bytes after the last member", "Content-Encoding: gzip\r\n", append(bytes.Clone(gz), "junk"...), fine},
		{"two zlib streams, of which the first counts", "Content-Encoding: deflate\r\n", append(encode(t, "deflate", body[:1]), encode(t, "deflate", body[1:])...), unreadIt},
		{"gzip without Content-Encoding", "", gz, unreadIt},
		{"gzip as identity", "Content-Encoding: identity\r\n", gz, unreadIt},
		{"a truncated body", "Content-Encoding: gzip\r\n", gz[:len(gz)-1], malformed},
		{"a truncated large body", "Content-Encoding: gzip\r\n", large[:len(large)-1], malformed},
		{"a truncated zlib stream", "Content-Encoding: deflate\r\n", zl[:len(zl)-1], malformed},
		{"an empty body", "Content-Encoding: gzip\r\n", nil, malformed},
		{"an empty body as deflate", "Content-Encoding: deflate\r\n", nil, malformed},
		{"a body that is not compressed", "Content-Encoding: gzip\r\n", body, malformed},
		{"a large body that is not compressed", "Content-Encoding: deflate\r\n", random, malformed},
		{"deflate as gzip", "Content-Encoding: gzip\r\n", zl, malformed},
		{"gzip as deflate", "Content-Encoding: deflate\r\n", gz, malformed},
		{"Brotli", "Content-Encoding: br\r\n", body, unknown},
		{"two codings", "Content-Encoding: gzip, gzip\r\n", encode(t, "gzip", gz), unknown},
		{"two headers", "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n", encode(t, "gzip", gz), unknown},
		{"identity and gzip", "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", gz, unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply := ask("ListTables", c.headers, c.body)
			text, _ := io.ReadAll(reply.Body)
			if got := fmt.Sprintf("%d %s", reply.StatusCode, text); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Requests of DynamoDB Streams may be compressed, too.
func TestCompressedBodyOfStreams(t *testing.T) {
	header := signed("DynamoDBStreams_20120810.ListStreams")
	header.Set("Content-Encoding", "gzip")
	w := send(newHandler(t), "POST", "/", header, bytes.NewReader(encode(t, "gzip", []byte("{}"))))
	if w.Code != 200 || w.Body.String() != `{"Streams":[]}` {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A request whose target or signature is at fault is answered before its body is decoded.
func TestSignatureBeforeDecoding(t *testing.T) {
	h := newHandler(t)
	header := signed(listTables)
	header.Del("Authorization")
	header.Set("Content-Encoding", "gzip")
	if w := send(h, "POST", "/", header, strings.NewReader("not gzip")); !strings.Contains(w.Body.String(), "MissingAuthenticationTokenException") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// The bytes that a body is decoded into are counted as those of other bodies: while there is
// no memory for them, the request is rejected, although the body that it sends fits in the
// buffer of its connection. What is decoded into more than 128 KB may need the largest size,
// until it is decoded. The control has enough memory.
func TestDecodedBodiesAreCounted(t *testing.T) {
	const all, megabyte = 96 << 20, 1 << 20
	for _, c := range []struct {
		name     string
		size     int
		free     int64
		rejected bool
	}{
		{"no memory", megabyte, 0, true},
		{"less than the largest body", megabyte, 16 * megabyte, true},
		{"enough memory", megabyte, 17 * megabyte, false},
		{"enough memory for a body that is too large", 20 * megabyte, 17 * megabyte, false},
		{"a small body needs none of it", 100 << 10, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				h := newHandler(t)
				dial := serve(t, h)
				release := h.HoldBodies(t.Context(), all-c.free)
				body := encode(t, "gzip", spaces(c.size))
				conn, began := dial(), time.Now()
				go func() { _, _ = conn.Write(requestOf("/", "ListTables", "Content-Encoding: gzip\r\n", body)) }()
				status, text := readReply(t, conn)
				if rejected := status == 400 && strings.Contains(text, "ThrottlingException"); rejected != c.rejected || rejected != (time.Since(began) == maxBodyWait) {
					t.Errorf("a body of %d bytes gets %d %s after %v", len(body), status, text, time.Since(began))
				}
				release()
				began = time.Now()
				h.HoldBodies(t.Context(), all)()
				if waited := time.Since(began); waited > 0 {
					t.Errorf("its memory is free after %v", waited)
				}
			})
		})
	}
}

// A body that is decoded holds the memory of its bytes, not of those that it might have had,
// while its request waits for a slot.
func TestDecodedBodyReturnsMemory(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := newHandler(t)
		dial := serve(t, h)
		for range admission.LimitsFor(0).Requests {
			if err := h.Slots().Acquire(t.Context(), 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		conn := dial()
		go func() {
			_, _ = conn.Write(requestOf("/", "ListTables", "Content-Encoding: gzip\r\n", encode(t, "gzip", spaces(1<<20))))
		}()
		synctest.Wait()
		began := time.Now()
		h.HoldBodies(t.Context(), 94<<20)()
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the rest of the memory is free after %v", waited)
		}
		h.Slots().Release()
		if status, text := readReply(t, conn); status != 200 {
			t.Errorf("the request gets %d %s", status, text)
		}
	})
}

// Bodies that wait to be decoded hold no memory that plain large bodies need: one of them is answered
// at once. Then bodies whose compressed form is small are decoded before large ones.
func TestBodiesThatWaitToBeDecoded(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := newHandler(t)
		dial := serve(t, h)
		release := h.HoldDecoding(t.Context())
		var large bytes.Buffer
		w, _ := gzip.NewWriterLevel(&large, flate.NoCompression)
		_, _ = w.Write(spaces(3 << 20))
		_ = w.Close() // writing to memory does not fail
		small := encode(t, "gzip", spaces(1<<20))
		var running sync.WaitGroup
		var order []string // of the answers, guarded by mu
		var mu sync.Mutex
		send := func(name, headers string, body []byte) {
			conn := dial()
			running.Go(func() {
				go func() { _, _ = conn.Write(requestOf("/", "ListTables", headers, body)) }()
				status, text := readReply(t, conn)
				if status != 200 {
					t.Errorf("%s: the reply is %d %s", name, status, text)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			})
			synctest.Wait()
		}
		for range 2 { // these are the next, whatever comes
			send("first", "Content-Encoding: gzip\r\n", small)
		}
		for range 4 {
			send("large", "Content-Encoding: gzip\r\n", large.Bytes())
		}
		send("small", "Content-Encoding: gzip\r\n", small)
		began := time.Now()
		plain := dial()
		go func() { _, _ = plain.Write(requestOf("/", "ListTables", "", spaces(15<<20))) }()
		if status, text := readReply(t, plain); status != 200 || time.Since(began) > 0 {
			t.Errorf("a plain body gets %d %s after %v", status, text, time.Since(began))
		}
		release()
		running.Wait()
		if len(order) != 7 || slices.Index(order, "small") > 4 { // of those that are answered one after the other, some may arrive in another order
			t.Errorf("the answers are %v", order)
		}
	})
}

// A body that has many bytes and little text takes long to decode, so it waits for its turn.
func TestBodyOfBlocksWithoutText(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := newHandler(t)
		dial := serve(t, h)
		release := h.HoldDecoding(t.Context())
		var body bytes.Buffer
		w := gzip.NewWriter(&body)
		_, _ = w.Write([]byte("{}"))
		for body.Len() < 200<<10 {
			_ = w.Flush()
		}
		_ = w.Close() // writing to memory does not fail
		conn, began := dial(), time.Now()
		go func() { _, _ = conn.Write(requestOf("/", "ListTables", "Content-Encoding: gzip\r\n", body.Bytes())) }()
		const held = time.Second
		time.AfterFunc(held, release)
		if status, text := readReply(t, conn); status != 200 || time.Since(began) != held {
			t.Errorf("it gets %d %s after %v", status, text, time.Since(began))
		}
	})
}

// In the smallest process there is memory for a body of the largest size that compression has
// not made smaller.
func TestLargestCompressedBodyInASmallProcess(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := newHandler(t)
		h.SetBodies(1)
		var body bytes.Buffer
		w, _ := gzip.NewWriterLevel(&body, flate.NoCompression)
		_, _ = w.Write(spaces(16<<20 - 64<<10))
		_ = w.Close() // writing to memory does not fail
		header := signed(listTables)
		header.Set("Content-Encoding", "gzip")
		if w := send(h, "POST", "/", header, &body); w.Code != 200 {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	})
}

// In a process with little memory, compressed bodies that arrive at once do not hold, as they are sent,
// the memory that each needs to be decoded: both are answered, without a wait for the other to give up.
func TestLargeCompressedBodiesInASmallProcess(t *testing.T) {
	for _, megabytes := range []int{9, 15} {
		t.Run(fmt.Sprint(megabytes, " MB"), func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				h := newHandler(t)
				h.SetBodies(512 << 20)
				dial := serve(t, h)
				release := h.HoldDecoding(t.Context())
				var body bytes.Buffer
				w, _ := gzip.NewWriterLevel(&body, flate.NoCompression)
				_, _ = w.Write(spaces(megabytes << 20))
				_ = w.Close() // writing to memory does not fail
				var running sync.WaitGroup
				began := time.Now()
				for range 3 {
					conn := dial()
					running.Go(func() {
						go func() {
							_, _ = conn.Write(requestOf("/", "ListTables", "Content-Encoding: gzip\r\n", body.Bytes()))
						}()
						if status, text := readReply(t, conn); status != 200 || time.Since(began) > 0 {
							t.Errorf("a body gets %d %s after %v", status, text, time.Since(began))
						}
					})
				}
				synctest.Wait()
				release()
				running.Wait()
			})
		})
	}
}

// Bodies that would be decoded to a gigabyte take no more memory than a body of the largest
// size, and a good client is served among them. The control decodes 64 MB without a bound.
func TestBombs(t *testing.T) {
	h := newHandler(t)
	bomb := bytes.Repeat(encode(t, "gzip", spaces(64<<20)), 16)
	header := signed(listTables)
	header.Set("Content-Encoding", "gzip")
	const clients, most = 32, 24 << 20
	allocated := func(fn func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		fn()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	bytesOfAll := allocated(func() {
		var running sync.WaitGroup
		for range clients {
			running.Go(func() {
				if w := send(h, "POST", "/", header, bytes.NewReader(bomb)); w.Code != 413 && !strings.Contains(w.Body.String(), "Throttling") {
					t.Errorf("a bomb gets %d %s", w.Code, w.Body)
				}
			})
			if w := send(h, "POST", "/", signed(listTables), strings.NewReader("{}")); w.Code != 200 {
				t.Errorf("a good client gets %d %s", w.Code, w.Body)
			}
		}
		running.Wait()
	})
	if bytesOfAll > clients*most {
		t.Errorf("a bomb takes %d bytes, want %d at most", bytesOfAll/clients, most)
	}
	control := allocated(func() {
		r, err := gzip.NewReader(io.LimitReader(bytes.NewReader(bomb), int64(len(bomb)/16)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	})
	if control <= most {
		t.Errorf("the control takes %d bytes, want more than %d", control, most)
	}
}

// A decoder of a body never reads more than the limit from a source without an end. The
// control reads the same source without a limit.
func TestDecodingIsBounded(t *testing.T) {
	const most = 17 << 20 // the limit, in units of the memory that is reserved
	bounded := &endless{left: 64 << 20}
	if err := server.ReadDecoded(bounded); !errors.Is(err, door.ErrTooLarge) {
		t.Errorf("a source without an end gives %v", err)
	}
	if bounded.read > most {
		t.Errorf("%d bytes are read, want %d at most", bounded.read, most)
	}
	unbounded := &endless{left: 64 << 20}
	if _, err := io.ReadAll(unbounded); err != nil || unbounded.read <= most {
		t.Errorf("the control reads %d bytes, %v", unbounded.read, err)
	}
}

// endless counts the bytes that are read of it.
type endless struct{ left, read int }

func (e *endless) Read(p []byte) (int, error) {
	n := min(len(p), e.left)
	if n == 0 {
		return 0, io.EOF
	}
	e.left -= n
	e.read += n
	return n, nil
}
