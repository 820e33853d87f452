package door

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/buffer"
)

// A body is read unchanged, whatever the size of its buffer; a large one releases
// its memory when it is dropped; and exactly the allocated memory is reserved.
func TestBodiesOfAllSizes(t *testing.T) {
	const limit = 16 << 20
	for _, size := range []int{0, 1, 4095, 4096, 100_000, 1 << 20, 1<<20 + 1, 3 << 20, limit} {
		for _, length := range []int64{int64(size), -1} {
			t.Run(fmt.Sprintf("%d of %d", size, length), func(t *testing.T) {
				want := bytes.Repeat([]byte("body "), size/5+1)[:size]
				var reserved int64
				r := &Request{Length: length, rest: bytes.NewReader(want)}
				got, err := r.Read(limit, func(bytes int64) error { reserved += bytes; return nil })
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes are read (%v)", len(got), err)
				}
				if int64(cap(got)) != reserved {
					t.Errorf("%d bytes are allocated, and %d reserved", cap(got), reserved)
				}
				if r.Drop(); cap(r.buf) > buffer.Small {
					t.Errorf("%d bytes are kept", cap(r.buf))
				}
			})
		}
	}
}

// The head of a request stays readable until the request is answered, wherever in
// the buffer it was when its body arrived.
func TestHeadStaysReadable(t *testing.T) {
	var in, want []string
	for i, r := range []struct{ framing, body string }{
		{"Content-Length: 3", "abc"},
		{"Content-Length: 5", "defgh"},
		{"Transfer-Encoding: chunked", "3\r\nijk\r\n0\r\n\r\n"},
		{"Transfer-Encoding: chunked", "2\r\nlm\r\n1\r\nn\r\n0\r\n\r\n"},
		{"Content-Length: 9000", strings.Repeat("o", 9000)},
		{"Content-Length: 2", "pq"},
	} {
		key := fmt.Sprintf("key%d", i)
		in = append(in, request("Host: "+key, "X-Amz-Target: "+key, "Authorization: "+key, r.framing)+r.body)
		want = append(want, fmt.Sprintf("host %q target %q authorization %q", key, key, key))
	}
	for step := 1; step < 2000; step += 1 + step/20 {
		h := new(recordingHandler)
		s := New(h, new(http.Server), slog.New(slog.DiscardHandler))
		s.addConn(newScriptedConn([]byte(strings.Join(in, "")), step)).serve()
		if len(h.seen) != len(want) || h.direct != len(want) {
			t.Fatalf("in steps of %d bytes %d requests were seen, %d by the door", step, len(h.seen), h.direct)
		}
		for i := range want {
			if !strings.Contains(h.seen[i], want[i]) {
				t.Fatalf("in steps of %d bytes request %d is %.200s, want %s", step, i, h.seen[i], want[i])
			}
		}
	}
}
