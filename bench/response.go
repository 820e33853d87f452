package main

import (
	"bytes"
	"errors"
	"fmt"
)

// A response holds the parts of a response that a load generator needs.
type response struct {
	status int
	body   []byte
	last   bool // the server closes the connection after it
}

const (
	maxHeaders   = 200
	maxLine      = 64 << 10
	maxBodyBytes = 64 << 20
)

var errLongLine = errors.New("a line of the response is too long")

// errMore is returned when a response is not complete yet.
var errMore = errors.New("the response is cut off")

// parse reads one response to a POST from the beginning of b, and returns how
// many bytes it has. It supports what DynamoDB servers send: a body with a
// length or in chunks.
func parse(b []byte) (r response, used int, err error) {
	in := input{b: b}
	line, err := in.line()
	if err != nil {
		return response{}, 0, err
	}
	if r.status, err = parseStatus(line); err != nil {
		return response{}, 0, err
	}
	old := bytes.HasPrefix(line, []byte("HTTP/1.0"))
	r.last = old
	length, chunked, err := in.headers(&r)
	switch {
	case err != nil:
		return response{}, 0, err
	case chunked && old:
		err = errors.New("the response is in chunks, which HTTP/1.0 does not have")
	case chunked:
		r.body, err = in.chunks()
	case length >= 0:
		r.body, err = in.bytes(length)
	default:
		err = errors.New("the response has neither a length nor chunks")
	}
	return r, in.at, err
}

// input is a partially received response and the position up to which it was read.
type input struct {
	b  []byte
	at int
}

// parseStatus reads "HTTP/1.1 200 OK".
func parseStatus(line []byte) (int, error) {
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return 0, fmt.Errorf("the response begins with %.40q", line)
	}
	status := 0
	for _, d := range line[9:12] {
		if d < '0' || d > '9' {
			return 0, fmt.Errorf("the response begins with %.40q", line)
		}
		status = status*10 + int(d-'0')
	}
	if status < 200 {
		return 0, fmt.Errorf("the response's status is %d", status)
	}
	return status, nil
}

// headers reads up to the empty line. The length is negative if there is none.
func (in *input) headers(r *response) (length int, chunked bool, err error) {
	length = -1
	for range maxHeaders {
		line, err := in.line()
		if err != nil {
			return 0, false, err
		}
		if len(line) == 0 {
			return length, chunked, nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return 0, false, fmt.Errorf("the response has a header %.40q", line)
		}
		// The three names differ in length, so other headers are skipped by length alone.
		switch len(name) {
		case len("connection"):
			if fold(name, "connection") && fold(bytes.TrimSpace(value), "close") {
				r.last = true
			}
		case len("content-length"):
			if fold(name, "content-length") {
				n, err := parseLength(bytes.TrimSpace(value), 10)
				if err != nil || length >= 0 && length != n {
					return 0, false, fmt.Errorf("the response has a header %.40q", line)
				}
				length = n
			}
		case len("transfer-encoding"):
			if fold(name, "transfer-encoding") {
				if chunked = fold(bytes.TrimSpace(value), "chunked"); !chunked {
					return 0, false, fmt.Errorf("the response has a header %.40q", line)
				}
			}
		}
	}
	return 0, false, fmt.Errorf("the response has more than %d headers", maxHeaders)
}

func fold(b []byte, s string) bool { return bytes.EqualFold(b, []byte(s)) }

// line reads a line without its end.
func (in *input) line() ([]byte, error) {
	n := bytes.IndexByte(in.b[in.at:], '\n')
	switch {
	case n > maxLine || n < 0 && len(in.b)-in.at > maxLine:
		return nil, errLongLine
	case n < 0:
		return nil, errMore
	}
	line := in.b[in.at : in.at+n]
	in.at += n + 1
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

func parseLength(digits []byte, base int) (int, error) {
	n := 0
	for _, d := range digits {
		v := base
		switch {
		case d >= '0' && d <= '9':
			v = int(d - '0')
		case d|0x20 >= 'a' && d|0x20 <= 'f':
			v = int(d|0x20-'a') + 10
		}
		if v >= base || n > maxBodyBytes {
			return 0, fmt.Errorf("%.40q is not a length", digits)
		}
		n = n*base + v
	}
	if len(digits) == 0 || n > maxBodyBytes {
		return 0, fmt.Errorf("%.40q is not a length", digits)
	}
	return n, nil
}

func (in *input) bytes(n int) ([]byte, error) {
	if len(in.b)-in.at < n {
		return nil, errMore
	}
	in.at += n
	return in.b[in.at-n : in.at], nil
}

func (in *input) chunks() (buf []byte, err error) {
	for {
		line, err := in.line()
		if err != nil {
			return buf, err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := parseLength(bytes.TrimSpace(size), 16)
		if err != nil {
			return buf, err
		}
		if n == 0 {
			return buf, in.skipTrailer()
		}
		if len(buf)+n > maxBodyBytes {
			return buf, errors.New("the response is too long")
		}
		chunk, err := in.bytes(n)
		if err != nil {
			return buf, err
		}
		buf = append(buf, chunk...)
		if line, err = in.line(); err != nil {
			return buf, err
		}
		if len(line) > 0 {
			return buf, fmt.Errorf("a chunk of the response is followed by %.40q", line)
		}
	}
}

func (in *input) skipTrailer() error {
	for range maxHeaders {
		if line, err := in.line(); err != nil || len(line) == 0 {
			return err
		}
	}
	return fmt.Errorf("the response has more than %d trailers", maxHeaders)
}
