package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A response is as much of one as a load generator needs.
type response struct {
	status int
	body   []byte
	last   bool // the server closes the connection after it
}

const (
	maxHeaders   = 200
	maxBodyBytes = 64 << 20
)

var errLongLine = errors.New("a line of the response is too long")

// readResponse reads one response to a POST. The body is written into buf if
// it has room. Only what DynamoDB and its like send is understood: a body with
// a length or in chunks.
func readResponse(in *bufio.Reader, buf []byte) (response, error) {
	line, err := readLine(in)
	if err != nil {
		return response{}, err
	}
	r := response{body: buf[:0]}
	if r.status, err = parseStatus(line); err != nil {
		return response{}, err
	}
	old := bytes.HasPrefix(line, []byte("HTTP/1.0"))
	r.last = old
	length, chunked, err := readHeaders(in, &r)
	switch {
	case err != nil:
		return response{}, err
	case chunked && old:
		err = errors.New("the response is in chunks, which HTTP/1.0 does not have")
	case chunked:
		r.body, err = readChunks(in, r.body)
	case length >= 0:
		r.body, err = readBytes(in, r.body, length)
	default:
		err = errors.New("the response has neither a length nor chunks")
	}
	return r, err
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

// readHeaders reads headers to the empty line. The length is negative if none
// is told.
func readHeaders(in *bufio.Reader, r *response) (length int, chunked bool, err error) {
	length = -1
	for range maxHeaders {
		line, err := readLine(in)
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
		// The lengths of the three names differ, so that others cost nothing.
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

// readLine reads a line without its end. It is valid until the next read.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errLongLine
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
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
			return 0, fmt.Errorf("%.40q is no length", digits)
		}
		n = n*base + v
	}
	if len(digits) == 0 || n > maxBodyBytes {
		return 0, fmt.Errorf("%.40q is no length", digits)
	}
	return n, nil
}

func readBytes(in *bufio.Reader, buf []byte, n int) ([]byte, error) {
	if len(buf)+n > maxBodyBytes {
		return buf, errors.New("the response is too long")
	}
	buf = slices.Grow(buf, n)
	to := buf[len(buf) : len(buf)+n]
	if _, err := io.ReadFull(in, to); err != nil {
		return buf, err
	}
	return buf[:len(buf)+n], nil
}

func readChunks(in *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		line, err := readLine(in)
		if err != nil {
			return buf, err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := parseLength(bytes.TrimSpace(size), 16)
		if err != nil {
			return buf, err
		}
		if n == 0 {
			return buf, skipTrailer(in)
		}
		if buf, err = readBytes(in, buf, n); err != nil {
			return buf, err
		}
		if line, err = readLine(in); err != nil {
			return buf, err
		}
		if len(line) > 0 {
			return buf, fmt.Errorf("a chunk of the response goes on with %.40q", line)
		}
	}
}

func skipTrailer(in *bufio.Reader) error {
	for range maxHeaders {
		if line, err := readLine(in); err != nil || len(line) == 0 {
			return err
		}
	}
	return fmt.Errorf("the response has more than %d trailers", maxHeaders)
}
