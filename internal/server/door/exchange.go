package door

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/server/admission"
)

// Exchange is a request and its reply, with the memory of both. It is reused after
// End, so callers may keep its strings but no other part of it.
type Exchange struct {
	Request Request
	Reply   Reply
}

// Request is a request as a Handler sees it, whether the door or net/http has read
// it.
type Request struct {
	Method, Path, Query string
	EscapedPath         string // as it was sent
	Host                string
	Length              int64  // of the body; -1 is unknown
	Remote              string // the IP address of the client; empty if it is not known
	Secure              bool   // the connection has TLS
	TLS                 TLS

	// Kept is where the handler keeps what it knows of the connection. Requests that net/http
	// has read have none.
	Kept *any

	web   http.Header // if net/http has read the request
	head  head        // if the door has read it
	whole []byte      // the body, if hasWhole
	rest  io.Reader   // otherwise
	cut   func()      // ends a read of rest

	hasWhole bool
	buf      []byte
}

// Reply is filled in by a Handler. If Status stays 0, nothing is sent and the
// connection is closed.
type Reply struct {
	Status      int
	Cut         bool // the client is still there, and is to see the connection closed
	Last        bool // the connection is closed after the reply
	ContentType string
	ID          [52]byte    // of the request
	Checksum    uint32      // of the body, if HasChecksum
	HasChecksum bool        // whether it is sent
	More        [][2]string // headers that are seldom sent
	Body        []byte
	Memory      buffer.Scratch // for the body

	// Room is the memory that the request holds until the reply is sent.
	Room admission.Room
	// Pending lists large replies that clients are slow to read, so that they can
	// be cut. The handler sets it; nil cuts none.
	Pending *admission.Replies

	// Stream writes the body, if set. Only net/http sends streams: a Handler does
	// not accept requests that it answers with a stream.
	Stream func(io.Writer) error

	out []byte // what is written to the connection
}

// Write sets the body to text, which was appended to a.Memory.Empty().
func (a *Reply) Write(text []byte) {
	a.Body = text
	a.Memory.Keep(text)
}

var exchanges = sync.Pool{New: func() any { return new(Exchange) }}

// Begin returns the exchange of a request that net/http has read.
func Begin(w http.ResponseWriter, r *http.Request) *Exchange {
	x := exchanges.Get().(*Exchange)
	x.Request.Method, x.Request.Path, x.Request.Query = r.Method, r.URL.Path, r.URL.RawQuery
	x.Request.EscapedPath, x.Request.Host, x.Request.Length = r.URL.EscapedPath(), r.Host, r.ContentLength
	x.Request.web, x.Request.rest = r.Header, r.Body
	x.Request.Remote, x.Request.Secure, x.Request.TLS = AddressOf(r.RemoteAddr), IsSecure(r), TLSFrom(r.Context())
	x.Request.cut = func() { _ = http.NewResponseController(w).SetReadDeadline(past) } // a writer without deadlines relies on the timeout
	return x
}

// IsSecure reports whether a request that net/http has read arrived over TLS.
func IsSecure(r *http.Request) bool { return r.TLS != nil || r.Context().Value(secureKey{}) != nil }

// Receive returns the exchange of a POST of the API that another handler has read.
func Receive(remote, host string, secure bool, header http.Header, body []byte) *Exchange {
	x := exchanges.Get().(*Exchange)
	x.Request.Method, x.Request.Path, x.Request.EscapedPath, x.Request.Host, x.Request.Length = http.MethodPost, "/", "/", host, int64(len(body))
	x.Request.Remote, x.Request.Secure, x.Request.web = remote, secure, header
	x.Request.whole, x.Request.hasWhole = body, true
	return x
}

// AddressOf returns the IP address of a client in an address with a port, without its zone, as policies
// compare it; empty if there is none.
func AddressOf(address string) string {
	if parsed, err := netip.ParseAddrPort(address); err == nil {
		return parsed.Addr().Unmap().WithZone("").String()
	}
	return ""
}

// End returns the exchange to its pool.
func (x *Exchange) End() {
	x.Reply.Memory.End()
	x.Reply.Room.Release()
	x.Request = Request{head: head{fields: x.Request.head.fields[:0]}, buf: buffer.Put(x.Request.buf)}
	x.Reply = Reply{Memory: x.Reply.Memory, out: buffer.Put(x.Reply.out)}
	exchanges.Put(x)
}

// Received returns a request that did not arrive over HTTP, with the headers that it would
// have.
func Received(remote, host string, secure bool, header http.Header) *Request {
	return &Request{Remote: remote, Host: host, Secure: secure, web: header}
}

// Header returns the first value of a header, or nil.
func (r *Request) Header(name string) []byte {
	if r.web != nil {
		return []byte(r.web.Get(name))
	}
	for i := range r.head.fields {
		f := &r.head.fields[i]
		if int(f.nameEnd-f.name) == len(name) && is(r.head.text[f.name:f.nameEnd], name) {
			return r.head.text[f.value:f.valueEnd:f.valueEnd]
		}
	}
	return nil
}

// HeaderAt returns the first value of a header from a position on, in the order of arrival, and the
// position after it; not ok if there is none. The first position is 0.
func (r *Request) HeaderAt(name []byte, from int) (value []byte, next int, ok bool) {
	if r.web != nil {
		return r.webHeaderAt(string(name), from)
	}
	for i := from; i < len(r.head.fields); i++ {
		if f := &r.head.fields[i]; int(f.nameEnd-f.name) == len(name) && sameName(r.head.text[f.name:f.nameEnd], name) {
			return r.head.text[f.value:f.valueEnd:f.valueEnd], i + 1, true
		}
	}
	return nil, 0, false
}

// sameName reports whether two names of headers are equal, ignoring case. Unlike bytes.EqualFold it
// compares the lengths first, and knows ASCII only, as names do.
func sameName[T []byte | string](a []byte, b T) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if d := b[i]; c != d && (c|0x20 != d|0x20 || c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// webHeaderAt is HeaderAt for a request that net/http has read, which removes some headers.
func (r *Request) webHeaderAt(name string, i int) ([]byte, int, bool) {
	values := r.web.Values(name)
	switch {
	case strings.EqualFold(name, "Host"):
		values = []string{r.Host}
	case len(values) == 0 && strings.EqualFold(name, "Content-Length") && r.Length >= 0:
		values = []string{strconv.FormatInt(r.Length, 10)}
	}
	if i >= len(values) {
		return nil, 0, false
	}
	return []byte(values[i]), i + 1, true
}

// ContentEncoding returns the Content-Encoding, as a list if the request has several. The
// door passes such requests to net/http.
func (r *Request) ContentEncoding() []byte {
	switch {
	case r.web != nil:
		return []byte(strings.Join(r.web["Content-Encoding"], ","))
	case r.head.hasCoding:
		return r.Header("Content-Encoding")
	}
	return nil
}

// Repeats reports whether a request has X-Amz-Target or Authorization more than once.
// The door passes such requests to net/http.
func (r *Request) Repeats(name string) bool { return r.web != nil && len(r.web.Values(name)) > 1 }

// Whole returns the body if it is in the buffer with the head and needs no more
// memory.
func (r *Request) Whole() ([]byte, bool) { return r.whole, r.hasWhole }

// ErrTooLarge is returned when a body is larger than its limit.
var ErrTooLarge = errors.New("the body is too large")

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Cut ends a Read that waits for the client. It may be called from another
// goroutine, but not after Read has returned.
func (r *Request) Cut() {
	if r.cut != nil {
		r.cut()
	}
}

// Drop releases the memory of a body that was Read, before the exchange ends: a
// client that is slow to read its reply can delay that.
func (r *Request) Drop() { r.buf = buffer.Put(r.buf) }

// readAhead is how much of a body must have arrived before memory is allocated for
// its whole Content-Length.
const readAhead = 1 << 20

// Read reads the body, up to a limit. It calls reserve, if that is not nil, before
// it allocates memory, and returns the error of reserve.
func (r *Request) Read(limit int64, reserve func(bytes int64) error) ([]byte, error) {
	if r.hasWhole {
		return r.whole, nil
	}
	if r.Length > limit {
		return nil, ErrTooLarge
	}
	body := io.LimitReader(r.rest, limit+1)
	b := r.buf[:0]
	if err := reserveBytes(reserve, cap(b)); err != nil {
		return nil, err
	}
	for {
		if len(b) == cap(b) {
			size := r.grown(cap(b), limit)
			if err := reserveBytes(reserve, size-cap(b)); err != nil {
				return nil, err
			}
			before := b
			b = append(buffer.Get(size), before...)
			r.buf = b // before Put: memory must not be put back twice
			buffer.Put(before)
		}
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		r.buf = b
		switch {
		case int64(len(b)) > limit:
			return nil, ErrTooLarge
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		}
	}
}

func reserveBytes(reserve func(int64) error, bytes int) error {
	if reserve == nil || bytes == 0 {
		return nil
	}
	return reserve(int64(bytes))
}

// grown is the size of the buffer that replaces one of a given size. It grows with
// the bytes that have arrived, not with Content-Length. A body that is larger than
// readAhead gets all that it needs at once: many bodies with half of their memory
// would wait for each other.
func (r *Request) grown(size int, limit int64) int {
	most := limit + 1
	if r.Length >= 0 {
		most = r.Length + 1
	}
	next := int(min(most, int64(2*size)))
	if size >= readAhead && r.Length >= 0 {
		next = int(most)
	}
	return max(4096, buffer.Size(next))
}
