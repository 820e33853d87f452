package dax

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
)

var rewrite = flag.Bool("rewrite", false, "write what the requests of testdata mean")

// recording is a request in testdata/requests.txt.
type recording struct{ name, operation, bytes, meaning string }

func recordings(t testing.TB) (all []recording) {
	t.Helper()
	lines := readLines(t, "requests.txt")
	for len(lines) >= 5 {
		if lines[0] != "" {
			t.Fatalf("requests.txt: an empty line is missing before %q", lines[0])
		}
		all = append(all, recording{lines[1], lines[2], lines[3], lines[4]})
		lines = lines[5:]
	}
	return all
}

// decodeBytes reads and decodes one request.
func decodeBytes(t testing.TB, b []byte) (Request, error) {
	t.Helper()
	r := NewReader(bytes.NewReader(b))
	raw, err := ReadRequest(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err == nil {
		t.Error("bytes follow the request")
	}
	return raw.Decode(newTestCatalog())
}

// What the JavaScript client sends is read as what it was asked for.
func TestRequests(t *testing.T) {
	all := recordings(t)
	for i, rec := range all {
		t.Run(rec.name, func(t *testing.T) {
			request, err := decodeBytes(t, unhex(t, rec.bytes))
			if err != nil {
				t.Fatal(err)
			}
			if request.Operation != rec.operation {
				t.Errorf("operation is %s, want %s", request.Operation, rec.operation)
			}
			got := show(request.In)
			all[i].meaning = got
			if got != rec.meaning && !*rewrite {
				t.Errorf("means\n%s, want\n%s", got, rec.meaning)
			}
		})
	}
	if *rewrite {
		rewriteRequests(t, all)
	}
}

func rewriteRequests(t *testing.T, all []recording) {
	old, err := os.ReadFile("testdata/requests.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(old)) {
		if strings.HasPrefix(line, "#") {
			out.WriteString(line)
		}
	}
	for _, rec := range all {
		fmt.Fprintf(&out, "\n%s\n%s\n%s\n%s\n", rec.name, rec.operation, rec.bytes, rec.meaning)
	}
	if err := os.WriteFile("testdata/requests.txt", []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// However a request is damaged, it is read without a panic, and either ends the connection or
// is answered.
func TestDamagedRequests(t *testing.T) {
	c := newTestCatalog()
	for _, rec := range recordings(t) {
		whole := unhex(t, rec.bytes)
		damage(whole, func(b []byte) { checkRequest(t, c, b) })
	}
}

// checkRequest reads bytes as a connection does.
func checkRequest(t testing.TB, c Catalog, b []byte) {
	t.Helper()
	r := NewReader(bytes.NewReader(b))
	raw, err := ReadRequest(r)
	if err != nil {
		return
	}
	request, err := raw.Decode(c)
	if err == nil {
		if request.In == nil {
			t.Fatalf("%x is read as nothing", b)
		}
		show(request.In)
		return
	}
	if _, ok := err.(*apierror.Error); !ok {
		t.Fatalf("%x: %v is not a fault", b, err)
	}
}

// A hello is read from all clients.
func TestHello(t *testing.T) {
	const prefix = "674a37796e65354700" // J7yne5G, 0
	for _, c := range []struct {
		name, rest string
		want       Hello
		lenient    bool
	}{
		{"JavaScript", "4401020304" + "a169557365724167656e74" + "62" + hex.EncodeToString([]byte("js")) + "00", Hello{"\x01\x02\x03\x04", "js"}, false},
		{"Go", "623432" + "a169557365724167656e74" + "65" + hex.EncodeToString([]byte("DaxGo")) + "00", Hello{"42", "DaxGo"}, true},
		{"no session", "f6" + "a0" + "00", Hello{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader(bytes.NewReader(unhex(t, prefix+c.rest)))
			got, err := ReadHello(r)
			if err != nil || got != c.want || r.lenient != c.lenient {
				t.Errorf("got %q, %v, lenient %v, want %q, lenient %v", got, err, r.lenient, c.want, c.lenient)
			}
		})
	}
	for _, c := range []struct{ name, bytes string }{
		{"another protocol", hex.EncodeToString([]byte("GET / HTTP/1.1\r\n\r\n"))},
		{"another text", "65" + hex.EncodeToString([]byte("hello")) + "00f6a000"},
		{"another layering", "674a37796e65354701f6a000"},
		{"headers of numbers", prefix + "f6a1010200"},
		{"too long", prefix + "f6a1" + "6161" + "7a00ffffff"},
		{"cut", prefix + "f6"},
		{"nothing", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if h, err := ReadHello(NewReader(bytes.NewReader(unhex(t, c.bytes)))); err == nil {
				t.Errorf("it is read as %q", h)
			}
		})
	}
}
