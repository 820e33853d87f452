package door

import (
	"fmt"
	"strings"
	"testing"
)

// request returns a head with these lines after the opening.
func request(lines ...string) string {
	return opening + strings.Join(append(lines, "", ""), "\r\n")
}

func TestHead(t *testing.T) {
	const host = "Host: localhost:8000"
	many := make([]string, maxFields)
	for i := range many {
		many[i] = fmt.Sprintf("X-%d: %d", i, i)
	}
	for _, c := range []struct {
		name, in string
		want     verdict
	}{
		{"a head with a length", request(host, "Content-Length: 5"), done},
		{"names in any case", request("hOST: a", "cONTENT-lENGTH: 5"), done},
		{"a chunked one", request(host, "Transfer-Encoding: chunked"), done},
		{"no body at all", request(host), done},
		{"spaces around a value", request("Host: \t a \t"), done},
		{"no space before a value", request("Host:a"), done},
		{"an empty value", request(host, "X:"), done},
		{"keep-alive", request(host, "Connection: Keep-Alive"), done},
		{"close", request(host, "Connection: close"), done},
		{"the maximum of headers", request(append([]string{host}, many[1:]...)...), done},

		{"nothing yet", "", more},
		{"a beginning", "POST / HT", more},
		{"a line", opening, more},
		{"half a header", opening + "Host: loc", more},
		{"a header and no end", opening + host + "\r\n", more},
		{"all but a byte", strings.TrimSuffix(request(host), "\n"), more},

		{"another method", "G", pass},
		{"another path", "POST /a", pass},
		{"a query", "POST /?X-Amz-Algorithm=a HTTP/1.1\r\n", pass},
		{"a whole URL", "POST http://a/ HTTP/1.1\r\n", pass},
		{"HTTP/1.0", "POST / HTTP/1.0", pass},
		{"two spaces", "POST  / HTTP/1.1", pass},
		{"a small method", "post / HTTP/1.1", pass},
		{"an empty line first", "\r\nPOST / HTTP/1.1", pass},
		{"a hello of TLS", "\x16\x03\x01", pass},
		{"a bare LF after the opening", "POST / HTTP/1.1\nHost: a\n\n", pass},
		{"a bare LF after a header", opening + "Host: a\n", pass},
		{"a bare LF as the end", opening + "Host: a\r\n\n", pass},
		{"two targets", request(host, "X-Amz-Target: a", "x-amz-target: a"), pass},
		{"two signatures", request(host, "Authorization: a", "authorization: b"), pass},
		{"a bare CR in a value", request(host, "X: a\rb"), pass},
		{"a NUL in a value", request(host, "X: a\x00b"), pass},
		{"a control byte in a value", request(host, "X: a\x01b"), pass},
		{"a DEL in a value", request(host, "X: a\x7fb"), pass},
		{"a value that is not ASCII", request(host, "X: \xc3\xa9"), pass},
		{"a space before the colon", request(host, "Content-Length : 5"), pass},
		{"a tab before the colon", request(host, "Content-Length\t: 5"), pass},
		{"a continued line", request(host, "X: a", " b"), pass},
		{"a continued line first", request(" " + host), pass},
		{"no colon", request(host, "Content-Length"), pass},
		{"no name", request(host, ": 5"), pass},
		{"a name that is not a token", request(host, "X(y): 5"), pass},
		{"a name that is not ASCII", request(host, "\xe2\x84\xaaeep: 5"), pass},
		{"no host", request("Content-Length: 5"), pass},
		{"an empty host", request("Host: "), pass},
		{"two hosts", request(host, host), pass},
		{"two hosts in different case", request(host, "hOst: b"), pass},
		{"a strange host", request("Host: a/b"), pass},
		{"two lengths", request(host, "Content-Length: 5", "Content-Length: 6"), pass},
		{"the same length twice", request(host, "Content-Length: 5", "Content-Length: 5"), pass},
		{"two lengths in one", request(host, "Content-Length: 5, 5"), pass},
		{"a length with a sign", request(host, "Content-Length: +5"), pass},
		{"a negative length", request(host, "Content-Length: -5"), pass},
		{"a length in hexadecimal", request(host, "Content-Length: 0x5"), pass},
		{"a length with an underscore", request(host, "Content-Length: 1_0"), pass},
		{"an empty length", request(host, "Content-Length:"), pass},
		{"a length that overflows", request(host, "Content-Length: 18446744073709551621"), pass},
		{"a length and chunks", request(host, "Content-Length: 5", "Transfer-Encoding: chunked"), pass},
		{"chunks and a length", request(host, "Transfer-Encoding: chunked", "Content-Length: 5"), pass},
		{"chunks twice", request(host, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), pass},
		{"chunks in a list", request(host, "Transfer-Encoding: chunked, chunked"), pass},
		{"compressed chunks", request(host, "Transfer-Encoding: gzip, chunked"), pass},
		{"no chunks", request(host, "Transfer-Encoding: identity"), pass},
		{"chunks with a vertical tab", request(host, "Transfer-Encoding: \x0bchunked"), pass},
		{"something like chunks", request(host, "Transfer-Encoding: xchunked"), pass},
		{"an expectation", request(host, "Expect: 100-continue"), pass},
		{"an upgrade", request(host, "Connection: Upgrade", "Upgrade: h2c"), pass},
		{"an upgrade alone", request(host, "Upgrade: h2c"), pass},
		{"announced trailers", request(host, "Transfer-Encoding: chunked", "Trailer: X"), pass},
		{"two Connection headers", request(host, "Connection: close", "Connection: keep-alive"), pass},
		{"a list in Connection", request(host, "Connection: keep-alive, close"), pass},
		{"too many headers", request(append([]string{host}, many...)...), pass},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := new(head)
			if got := whole.scan([]byte(c.in)); got != c.want {
				t.Fatalf("%q: verdict %d, want %d", c.in, got, c.want)
			}
			// Byte by byte the verdict is the same.
			slow, got := new(head), more
			for i := 0; i <= len(c.in) && got == more; i++ {
				got = slow.scan([]byte(c.in[:i]))
			}
			if got != c.want {
				t.Errorf("%q: verdict %d byte by byte, want %d", c.in, got, c.want)
			}
			if got == done && fmt.Sprint(*slow) != fmt.Sprint(*whole) {
				t.Errorf("%q: read %v byte by byte, %v at once", c.in, *slow, *whole)
			}
		})
	}
}

func TestHeaderLookup(t *testing.T) {
	var r Request
	in := request("Host: a", "X-Amz-Target: one", "X-Other: one", "x-OTHER: two", "Empty:", "Content-Length: 0012")
	if v := r.head.scan([]byte(in + "left over")); v != done {
		t.Fatalf("verdict %d", v)
	}
	for name, want := range map[string]string{"x-amz-TARGET": "one", "X-Other": "one", "host": "a", "HOST": "a", "Empty": "", "Absent": ""} {
		if got := string(r.Header(name)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if r.head.next != len(in) || r.head.length != 12 {
		t.Errorf("the head has %d bytes and a body of %d, want %d and 12", r.head.next, r.head.length, len(in))
	}
}

func TestChunked(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     verdict
		data     string
		left     int
	}{
		{"one chunk", "5\r\nhello\r\n0\r\n\r\n", done, "hello", 0},
		{"several", "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", done, "abc", 0},
		{"none", "0\r\n\r\n", done, "", 0},
		{"both cases of digits", "a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n", done, "01234567890123456789a", 0},
		{"leading zeros", "0005\r\nhello\r\n000\r\n\r\n", done, "hello", 0},
		{"what follows is not touched", "1\r\na\r\n0\r\n\r\nPOST", done, "a", 4},
		{"data that looks like chunks", "5\r\n0\r\n\r\n\r\n0\r\n\r\n", done, "0\r\n\r\n", 0},

		{"nothing yet", "", more, "", 0},
		{"half a size", "1", more, "", 0},
		{"half a line", "1\r", more, "", 0},
		{"half the data", "5\r\nhel", more, "", 0},
		{"data and no end", "5\r\nhello", more, "", 0},
		{"data and half an end", "5\r\nhello\r", more, "", 0},
		{"no last chunk", "5\r\nhello\r\n", more, "", 0},
		{"half a last chunk", "5\r\nhello\r\n0\r\n\r", more, "", 0},

		{"an extension", "5;a=b\r\n", pass, "", 0},
		{"a trailer", "0\r\nX: y\r\n\r\n", pass, "", 0},
		{"a space after the size", "5 \r\n", pass, "", 0},
		{"a space before the size", " 5\r\n", pass, "", 0},
		{"a sign", "+5\r\n", pass, "", 0},
		{"a negative size", "-5\r\n", pass, "", 0},
		{"a prefix", "0x5\r\n", pass, "", 0},
		{"no size", "\r\n", pass, "", 0},
		{"not a digit", "g\r\n", pass, "", 0},
		{"a huge size", "fffffffffffffffff\r\n", pass, "", 0},
		{"a bare LF after the size", "5\nhello\r\n", pass, "", 0},
		{"a bare CR after the size", "5\rhello\r\n", pass, "", 0},
		{"a bare LF after the data", "5\r\nhello\n", pass, "", 0},
		{"more data than the size says", "5\r\nhello!\r\n", pass, "", 0},
		{"a bare LF at the end", "0\r\n\n", pass, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := []byte(c.in)
			end, v := scanChunked(b)
			if v != c.want || string(b) != c.in {
				t.Fatalf("%q: verdict %d, want %d; the bytes are %q", c.in, v, c.want, b)
			}
			if v == done && (len(c.in)-end != c.left || string(joinChunks(b[:end])) != c.data || string(b[end:]) != c.in[end:]) {
				t.Errorf("%q: the data that ends at %d is not %q", c.in, end, c.data)
			}
			got := more
			for i := 0; i <= len(c.in) && got == more; i++ {
				_, got = scanChunked([]byte(c.in[:i]))
			}
			if got != c.want {
				t.Errorf("%q: verdict %d byte by byte, want %d", c.in, got, c.want)
			}
		})
	}
}

// Testing eight bytes at a time gives the same result as one by one, for each byte
// at each position.
func TestIsText(t *testing.T) {
	for at := range 17 {
		for c := range 256 {
			b := []byte("~ 1234 ~~ abcd ~ ")
			b[at] = byte(c)
			if isText(b) != isTextEach(b) {
				t.Errorf("%q: %v", b, isText(b))
			}
		}
	}
}
