package door

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/server/admission"
)

// Exchange is a request and its reply, with the memory of both. It is used
// again after End, so nobody may keep a part of it but strings.
type Exchange struct {
	Request Request
	Reply   Reply
}

// Request is a request as a Handler sees it, whether the door has read it or
// net/http.
type Request struct {
	Method, Path, Query string
	Host                string
	Length              int64 // of the body; -1 is unknown

	web   http.Header // if net/http has read it
	head  head        // if the door has
	whole []byte      // the body, if hasWhole
	rest  io.Reader   // otherwise
	cut   func()      // ends a read of rest

	hasWhole bool
	buf      []byte
}

// Reply is what a Handler answers. Nothing is sent if Status stays 0, and the
// connection is closed.
type Reply struct {
	Status      int
	ContentType string
	ID          [52]byte    // of the request
	Checksum    uint32      // of the body, if HasChecksum
	HasChecksum bool        // whether it is sent
	More        [][2]string // headers that are seldom sent
	Body        []byte
	Memory      buffer.Memory // for the body

	// Budget bounds the memory of large bodies that clients are slow to read.
	// The handler sets it; nil does not bound them.
	Budget *admission.Replies

	// Stream writes the body instead, if set. It can only be sent through
	// net/http: a Handler does not take a request that it answers so.
	Stream func(io.Writer) error

	out []byte // what is written to the connection
}

// Write makes a text, which was appended to a.Memory.Empty(), the body.
func (a *Reply) Write(text []byte) {
	a.Body = text
	a.Memory.Keep(text)
}

var exchanges = sync.Pool{New: func() any { return new(Exchange) }}

// Begin makes an exchange of a request that net/http has read.
func Begin(w http.ResponseWriter, r *http.Request) *Exchange {
	x := exchanges.Get().(*Exchange)
	x.Request.Method, x.Request.Path, x.Request.Query = r.Method, r.URL.Path, r.URL.RawQuery
	x.Request.Host, x.Request.Length = r.Host, r.ContentLength
	x.Request.web, x.Request.rest = r.Header, r.Body
	x.Request.cut = func() { _ = http.NewResponseController(w).SetReadDeadline(past) } // without one, time will do it
	return x
}

// End gives the memory back.
func (x *Exchange) End() {
	x.Reply.Memory.End()
	x.Request = Request{head: head{fields: x.Request.head.fields[:0]}, buf: buffer.Put(x.Request.buf)}
	x.Reply = Reply{Memory: x.Reply.Memory, out: buffer.Put(x.Reply.out)}
	exchanges.Put(x)
}

// Header is the first value of a header, or nothing.
func (r *Request) Header(name string) []byte {
	if r.web != nil {
		return []byte(r.web.Get(name))
	}
	for _, f := range r.head.fields {
		if is(r.head.text[f.name:f.nameEnd], name) {
			return r.head.text[f.value:f.valueEnd:f.valueEnd]
		}
	}
	return nil
}

// Whole is the body, if it came along with the head and takes no more memory.
func (r *Request) Whole() ([]byte, bool) { return r.whole, r.hasWhole }

// ErrTooLarge is the error of a body that is larger than its limit.
var ErrTooLarge = errors.New("the body is too large")

// past is a deadline that is over.
var past = time.Unix(1, 0)

// Cut ends a Read that waits for the client. It may be called from elsewhere,
// but not after Read has returned.
func (r *Request) Cut() {
	if r.cut != nil {
		r.cut()
	}
}

// Drop gives the memory of a body that was Read back before the exchange ends,
// which a slow client can put off.
func (r *Request) Drop() { r.buf = buffer.Put(r.buf) }

// readAhead is how much of a body must have come before memory is taken for
// all that is announced.
const readAhead = 1 << 20

// Read reads the body, up to a limit. It asks before it takes memory, if take
// is not nil, and gives up when that returns an error.
func (r *Request) Read(limit int64, take func(bytes int64) error) ([]byte, error) {
	if r.hasWhole {
		return r.whole, nil
	}
	if r.Length > limit {
		return nil, ErrTooLarge
	}
	body := io.LimitReader(r.rest, limit+1)
	b := r.buf[:0]
	if err := ask(take, cap(b)); err != nil {
		return nil, err
	}
	for {
		if len(b) == cap(b) {
			size := r.grown(cap(b), limit)
			if err := ask(take, size-cap(b)); err != nil {
				return nil, err
			}
			before := b
			b = append(buffer.Get(size), before...)
			r.buf = b // first: memory must not be given back twice
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

func ask(take func(int64) error, bytes int) error {
	if take == nil || bytes == 0 {
		return nil
	}
	return take(int64(bytes))
}

// grown is the size of the memory that follows one of a given size. It grows
// with what has come, not with what was announced. A body of which much has
// come gets all it needs at once: many that have half of it would wait for
// each other.
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
