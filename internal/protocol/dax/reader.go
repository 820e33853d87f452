package dax

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// MaxRequest is the largest size of a request in bytes.
const MaxRequest = 17 << 20

// maxHello is the largest size of a hello in bytes.
const maxHello = 4 << 10

// ErrProtocol is returned for bytes that are not a hello or a request. The reader is out of
// step with the client, and the connection must be closed.
var ErrProtocol = errors.New("not a request of the DAX protocol")

// errTooLarge ends a connection, because the rest of the request is not read.
var errTooLarge = &apierror.Error{
	Code: "RequestEntityTooLargeException", Status: http.StatusRequestEntityTooLarge,
	Message: fmt.Sprintf("The request is larger than %d bytes.", MaxRequest),
}

// Reader reads the requests of a connection, one after another.
type Reader struct {
	// Reserve, if set, is called before the memory of a request grows to this many bytes: when
	// its buffer grows, where an error ends the connection, and when it is decoded.
	Reserve func(bytes int) error

	stream  cbor.Stream
	lenient bool // see selects
}

// NewReader returns a Reader of a connection.
func NewReader(in io.Reader) *Reader {
	return &Reader{stream: cbor.Stream{In: bufio.NewReaderSize(in, 4096)}}
}

// Wait waits for the first byte of the next request. The error is io.EOF if the client has
// closed the connection.
func (r *Reader) Wait() error {
	_, err := r.stream.In.Peek(1)
	return err
}

// keptBuffer is how large a buffer may be to be used for the next request.
const keptBuffer = 8 << 10

// begin prepares the buffer for values of a total size.
func (r *Reader) begin(limit int, tooLarge error) {
	if cap(r.stream.Buffer) > keptBuffer {
		r.stream.Buffer = nil
	}
	r.stream.Buffer, r.stream.Limit = r.stream.Buffer[:0], limit
	r.stream.Grow, r.stream.ErrLimit = r.Reserve, tooLarge
}

// read reads n values, and returns their bytes. The end of the connection within them is not
// io.EOF.
func (r *Reader) read(n int) ([]byte, error) {
	from := len(r.stream.Buffer)
	for range n {
		if err := r.stream.Read(); err != nil {
			if err == io.EOF && len(r.stream.Buffer) > 0 {
				err = io.ErrUnexpectedEOF
			}
			if errors.Is(err, cbor.ErrMalformed) {
				err = fmt.Errorf("%w: %w", ErrProtocol, err)
			}
			return nil, err
		}
	}
	return r.stream.Buffer[from:], nil
}

// Hello is what a client sends first. It is not answered.
type Hello struct {
	Session   string
	UserAgent string
}

const magic = "J7yne5G"

// ReadHello reads the beginning of a connection. An error ends the connection.
func ReadHello(r *Reader) (Hello, error) {
	r.begin(maxHello, ErrProtocol)
	// The first value alone, so that a client of another protocol is not waited for.
	first, err := r.read(1)
	if err != nil {
		return Hello{}, err
	}
	if d := cbor.NewDecoder(first); !isText(&d, magic) {
		return Hello{}, ErrProtocol
	}
	rest, err := r.read(4)
	if err != nil {
		return Hello{}, err
	}
	h, err := decodeHello(cbor.NewDecoder(rest))
	if err != nil {
		return Hello{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	// The Go client sends ALL_ATTRIBUTES for a query or scan that has no Select.
	r.lenient = strings.HasPrefix(h.UserAgent, "DaxGo")
	return h, nil
}

func isText(d *cbor.Decoder, want string) bool {
	text, err := d.Text()
	return err == nil && string(text) == want
}

// decodeHello reads what follows the magic text: a layering, which is 0, the session, headers
// and the mode of the client.
func decodeHello(d cbor.Decoder) (h Hello, err error) {
	if layering, err := d.Int(); err != nil || layering != 0 {
		return h, errors.Join(err, cbor.ErrRange)
	}
	var session []byte
	switch d.Kind() { // differs between clients
	case cbor.Null:
		d.Null()
	case cbor.Bytes:
		session, err = d.Bytes()
	default:
		session, err = d.Text()
	}
	if err != nil {
		return h, err
	}
	h.Session = string(bytes.ToValidUTF8(session, []byte("?")))
	headers, err := d.Map()
	if err != nil {
		return h, err
	}
	for {
		more, err := d.Next(&headers)
		if err != nil {
			return h, err
		}
		if !more {
			break
		}
		name, err := d.Text()
		if err != nil {
			return h, err
		}
		value, err := d.Text()
		if err != nil {
			return h, err
		}
		if string(name) == "UserAgent" {
			h.UserAgent = string(value)
		}
	}
	_, err = d.Int()
	return h, err
}

// Raw is a request before its arguments are interpreted. It is valid until the next request
// is read.
type Raw struct {
	method  method
	args    []byte // well-formed CBOR
	lenient bool
	buffer  int             // size of the memory that args are in
	reserve func(int) error // may be nil
}

// Size is the size of the arguments in bytes.
func (r Raw) Size() int { return len(r.args) }

const service = 1

// ReadRequest reads the next request. Any error ends the connection: io.EOF if the client has
// closed it between two requests, and an *apierror.Error, possibly wrapped, if the client
// should be told first.
func ReadRequest(r *Reader) (Raw, error) {
	r.begin(MaxRequest, errTooLarge)
	head, err := r.read(2)
	if err != nil {
		return Raw{}, err
	}
	d := cbor.NewDecoder(head)
	id, err := d.Int()
	if err != nil || id != service {
		return Raw{}, fmt.Errorf("%w: service %d", ErrProtocol, id)
	}
	method, err := d.Int()
	if err != nil {
		return Raw{}, fmt.Errorf("%w: the method is not a number", ErrProtocol)
	}
	m, ok := methods[method]
	if !ok { // how many arguments follow is not known
		return Raw{}, fmt.Errorf("%w: method %d: %w", ErrProtocol, method, apierror.UnknownOperation())
	}
	args, err := r.read(m.args)
	if err != nil {
		return Raw{}, err
	}
	return Raw{method: m, args: args, lenient: r.lenient, buffer: cap(r.stream.Buffer), reserve: r.Reserve}, nil
}
