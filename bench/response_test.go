package main

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, in string
		status   int
		body     string
		last     bool
	}{
		{"with a length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", false},
		{"names in any case", "HTTP/1.1 400 Bad Request\r\ncontent-LENGTH:2\r\nCONNECTION: Close\r\n\r\n{}", 400, "{}", true},
		{"in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n001;x=y\r\n}\r\n0\r\nA: b\r\n\r\n", 200, "{}", false},
		{"without a reason", "HTTP/1.1 500\r\nContent-Length: 0\r\n\r\n", 500, "", false},
		{"an old server closes", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := []byte(c.in + "HTTP/1.1 201 Next\r\nContent-Length: 0\r\n\r\n")
			got, used, err := parse(in)
			if err != nil || got.status != c.status || string(got.body) != c.body || got.last != c.last {
				t.Errorf("got %d %q %v, %v", got.status, got.body, got.last, err)
			}
			if next, _, err := parse(in[used:]); err != nil || next.status != 201 {
				t.Errorf("the next response is %v, %v", next, err)
			}
			for n := range len(c.in) {
				if got, _, err := parse(in[:n]); err != errMore {
					t.Errorf("after %d bytes: %v, %v", n, got, err)
				}
			}
		})
	}
}

func TestInvalidResponses(t *testing.T) {
	for _, c := range []struct{ name, in string }{
		{"nothing", ""},
		{"another protocol", "SSH-2.0-OpenSSH\r\n\r\n"},
		{"a status that is not a number", "HTTP/1.1 2x0 OK\r\n\r\n"},
		{"neither length nor chunks", "HTTP/1.1 200 OK\r\n\r\n{}"},
		{"a body that is cut off", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}"},
		{"chunks that are cut off", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"},
		{"a chunk longer than it says", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"},
		{"a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"},
		{"a length that overflows", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"},
		{"headers without end", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", maxHeaders)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _, err := parse([]byte(c.in)); err == nil {
				t.Errorf("read as %d %q", got.status, got.body)
			}
		})
	}
}

// A response that both parse and net/http accept is read alike.
func FuzzParse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x\r\n}\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 404 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	post, err := http.NewRequest(http.MethodPost, "/", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ours, _, err := parse(in)
		if err != nil {
			return
		}
		theirs, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(in))), post)
		if err != nil || theirs.StatusCode == http.StatusNoContent || theirs.StatusCode == http.StatusNotModified {
			return // these two have no body, and DynamoDB does not send them
		}
		body, err := io.ReadAll(theirs.Body)
		if err != nil {
			return
		}
		if ours.status != theirs.StatusCode || string(ours.body) != string(body) {
			t.Errorf("we read %d %q, net/http %d %q", ours.status, ours.body, theirs.StatusCode, body)
		}
	})
}
