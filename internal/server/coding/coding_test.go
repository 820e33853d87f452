package coding

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     Coding
		ok       bool
	}{
		{"gzip", "gzip", Gzip, true},
		{"in capitals", "GZIP", Gzip, true},
		{"with spaces", " gzip\t", Gzip, true},
		{"deflate", "deflate", Deflate, true},
		{"identity", "identity", Identity, true},
		{"none", "", Identity, true},
		{"Brotli", "br", Identity, false},
		{"the old name of gzip", "x-gzip", Identity, false},
		{"two codings", "gzip, gzip", Identity, false},
		{"identity and another", "identity, gzip", Identity, false},
		{"a parameter", "gzip;q=1", Identity, false},
		{"the chunks of S3", "aws-chunked", Identity, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, ok := Parse([]byte(c.in)); got != c.want || ok != c.ok {
				t.Errorf("Parse(%q) = %v, %v, want %v, %v", c.in, got, ok, c.want, c.ok)
			}
		})
	}
}

func TestNegotiate(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     Coding
	}{
		{"no header", "", Identity},
		{"gzip", "gzip", Gzip},
		{"deflate", "deflate", Deflate},
		{"none", "identity", Identity},
		{"only others", "br, zstd, compress, x-gzip", Identity},
		{"the first of two", "gzip, deflate", Gzip},
		{"the first of two, in the other order", "br, identity, deflate, gzip", Deflate},
		{"capitals", "GZip", Gzip},
		{"empty entries", " other, gzip ,, another", Gzip},
		{"a refusal", "gzip;q=0", Identity},
		{"a refusal with spaces", "gzip ; q=0", Identity},
		{"a refusal in digits", "gzip;q=0.000", Identity},
		{"a refusal, and another coding", "gzip;q=0, deflate;q=0.1", Deflate},
		{"the higher quality", "gzip;q=0.2, deflate;q=0.3", Deflate},
		{"the smallest quality", "gzip;q=0.001", Gzip},
		{"a quality in capitals", "gzip;Q=0", Identity},
		{"any", "*", Gzip},
		{"any with a low quality", "*;q=0.1", Gzip},
		{"any but gzip", "*, gzip;q=0", Deflate},
		{"any, and gzip less", "*, gzip;q=0.5", Deflate},
		{"any, and deflate less", "*, deflate;q=0.5", Gzip},
		{"any, and a name of the same quality", "*, deflate", Deflate},
		{"any less than a name", "deflate, *;q=0.5", Deflate},
		{"none but names", "deflate;q=0.5, *;q=0", Deflate},
		{"none at all", "*;q=0", Identity},
		{"no identity, which is ignored", "identity;q=0", Identity},
		{"identity is preferred, which is ignored", "gzip;q=0.5, identity;q=0.8", Gzip},
		{"quotes", `"gzip"`, Identity},
		{"two words", "gzip br", Identity},
		{"a colon", "gzip:q=1", Identity},
		{"a quality above one", "deflate;q=0.5, gzip;q=31", Gzip},
		{"two above one", "gzip;q=31, deflate;q=51", Gzip},
		{"a quality that is no number", "deflate;q=0.5, gzip;q=0.x", Gzip},
		{"a quality that is not a number", "deflate;q=0.5, gzip;q=NaN", Gzip},
		{"a negative quality", "deflate;q=-0.5, gzip;q=0.2", Gzip},
		{"two qualities", "deflate;q=0.5, gzip;q=1;q=0.2", Gzip},
		{"a name twice", "gzip;q=0, gzip;q=1, gzip;q=0", Gzip},
		{"another parameter", "gzip;level=1;q=0", Identity},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Negotiate([]byte(c.in)); got != c.want {
				t.Errorf("Negotiate(%q) = %v, want %v", c.in, got, c.want)
			}
		})
	}
}

// encoded encodes a text with the standard library.
func encoded(t testing.TB, c Coding, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := io.WriteCloser(gzip.NewWriter(&b))
	if c == Deflate {
		w = zlib.NewWriter(&b)
	}
	_, err := w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(c Coding, sent []byte) ([]byte, error) {
	d := NewDecoder(context.Background(), c, sent)
	defer d.Close()
	return io.ReadAll(d)
}

var both = []Coding{Gzip, Deflate}

func TestDecoder(t *testing.T) {
	text := []byte(`{"TableName": "Orders", "Limit": 1}`)
	gz, zl := encoded(t, Gzip, text), encoded(t, Deflate, text)
	var raw bytes.Buffer
	w, _ := flate.NewWriter(&raw, 6)
	w.Write(text)
	w.Close()
	var named bytes.Buffer
	n := gzip.NewWriter(&named)
	n.Name, n.Comment, n.Extra = "a.json", "a request", make([]byte, 1<<16-1)
	n.Write(text)
	n.Close()
	halves := append(encoded(t, Gzip, text[:10]), encoded(t, Gzip, text[10:])...)
	flipped := bytes.Clone(gz)
	flipped[len(flipped)-5] ^= 1 // of the checksum
	for _, c := range []struct {
		name   string
		coding Coding
		sent   []byte
		want   string // "" is ErrMalformed
	}{
		{"gzip", Gzip, gz, string(text)},
		{"deflate", Deflate, zl, string(text)},
		{"gzip with a name, a comment and an extra field", Gzip, named.Bytes(), string(text)},
		{"two members", Gzip, halves, string(text)},
		{"an empty member between two", Gzip, bytes.Join([][]byte{gz, encoded(t, Gzip, nil), gz}, nil), string(text) + string(text)},
		{"bytes after the last member", Gzip, append(bytes.Clone(gz), "junk"...), string(text)},
		{"zeros after the last member", Gzip, append(bytes.Clone(gz), make([]byte, 512)...), string(text)},
		{"half a header after the last member", Gzip, append(bytes.Clone(gz), gz[:5]...), string(text)},
		{"a second member that is truncated", Gzip, append(bytes.Clone(gz), gz[:len(gz)-1]...), ""},
		{"a second member with a wrong checksum", Gzip, append(bytes.Clone(gz), flipped...), ""},
		{"bytes after the zlib stream", Deflate, append(bytes.Clone(zl), "junk"...), string(text)},
		{"two zlib streams, of which the first counts", Deflate, append(bytes.Clone(zl), zl...), string(text)},
		{"plain text as gzip", Gzip, text, ""},
		{"plain text as deflate", Deflate, text, ""},
		{"gzip as deflate", Deflate, gz, ""},
		{"deflate as gzip", Gzip, zl, ""},
		{"bare deflate", Deflate, raw.Bytes(), ""},
		{"no bytes as gzip", Gzip, nil, ""},
		{"no bytes as deflate", Deflate, nil, ""},
		{"a wrong checksum", Gzip, flipped, ""},
		{"a dictionary that nobody has", Deflate, []byte{0x78, 0xbb, 1, 2, 3, 4}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // the second time with a decoder that was used
				got, err := decode(c.coding, c.sent)
				if c.want == "" && !errors.Is(err, ErrMalformed) || c.want != "" && (err != nil || string(got) != c.want) {
					t.Errorf("got %q, %v, want %q", got, err, c.want)
				}
			}
		})
	}
}

// A body that is cut anywhere, or one bit of which is flipped, is malformed or decoded to the
// same text: some bits of a gzip header mean nothing for the text.
func TestDamage(t *testing.T) {
	text := bytes.Repeat([]byte(`{"p": {"S": "abc"}}`), 20)
	for _, c := range both {
		sent := encoded(t, c, text)
		for n := range sent {
			if got, err := decode(c, sent[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%v: the first %d of %d bytes are decoded to %q, %v", c, n, len(sent), got, err)
			}
			for bit := range 8 {
				flipped := bytes.Clone(sent)
				flipped[n] ^= 1 << bit
				if got, err := decode(c, flipped); !errors.Is(err, ErrMalformed) && (err != nil || !bytes.Equal(got, text)) {
					t.Errorf("%v: with bit %d of byte %d flipped, it is decoded to %q, %v", c, bit, n, got, err)
				}
			}
		}
	}
}

// A body that has many blocks or members and no text is not decoded to its end once the request has
// ended, and is not taken for one that is complete or malformed.
func TestDecodingEndsWithTheRequest(t *testing.T) {
	var blocks bytes.Buffer
	w := gzip.NewWriter(&blocks)
	for range 20_000 {
		_ = w.Flush() // writing to memory does not fail
	}
	_ = w.Close()
	members := bytes.Repeat(encoded(t, Gzip, nil), 10_000)
	stored := slices.Concat([]byte{0x78, 0x01}, bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 20_000), []byte{1, 0, 0, 0xff, 0xff, 0, 0, 0, 1})
	for _, c := range []struct {
		name   string
		coding Coding
		sent   []byte
	}{{"blocks", Gzip, blocks.Bytes()}, {"members", Gzip, members}, {"stored blocks", Deflate, stored}} {
		t.Run(c.name, func(t *testing.T) {
			if text, err := decode(c.coding, c.sent); err != nil || len(text) > 0 {
				t.Fatalf("the control is decoded to %d bytes, %v", len(text), err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			d := NewDecoder(ctx, c.coding, c.sent)
			defer d.Close()
			if text, err := io.ReadAll(d); !errors.Is(err, context.Canceled) {
				t.Errorf("it is decoded to %d bytes, %v", len(text), err)
			}
			if read := len(c.sent) - d.sent.Len(); read > 2*examineBytes {
				t.Errorf("%d bytes of %d were read", read, len(c.sent))
			}
		})
	}
}

// Texts of all sizes are encoded and decoded to the same bytes, by encoders that are used
// again. A text that does not become smaller is not encoded.
func TestEncoder(t *testing.T) {
	random := make([]byte, 1<<20)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(random)
	for _, c := range both {
		for _, size := range []int{4096, 64 << 10, 1 << 20, 3 << 20, 1 << 20, 4096} {
			t.Run(fmt.Sprint(c, size), func(t *testing.T) {
				text := bytes.Repeat([]byte(`{"id": {"S": "1"}}`), size/18+1)[:size]
				e := NewEncoder()
				defer e.Close()
				if out, ok := e.Encode(c, random); ok {
					t.Errorf("random bytes are encoded in %d bytes", len(out))
				}
				out, ok := e.Encode(c, text)
				if !ok || len(out) > size/4 {
					t.Fatalf("the text is encoded in %d bytes, %v", len(out), ok)
				}
				if got, err := decode(c, out); err != nil || !bytes.Equal(got, text) {
					t.Errorf("it is decoded to %d bytes, %v", len(got), err)
				}
			})
		}
		e := NewEncoder()
		for _, text := range []string{"", "a", "{}"} {
			if out, ok := e.Encode(c, []byte(text)); ok {
				t.Errorf("%q is encoded as %q", text, out)
			}
		}
		e.Close()
	}
}

// No bytes crash a decoder, and those that the standard library decodes, are decoded alike.
func FuzzDecoder(f *testing.F) {
	for _, c := range both {
		sent := encoded(f, c, []byte(`{"TableName": "Orders"}`))
		f.Add(sent)
		f.Add(append(bytes.Clone(sent), sent...))
		f.Add(sent[:len(sent)-1])
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		const most = 1 << 20
		read := func(r io.Reader, err error) ([]byte, error) {
			if err != nil {
				return nil, err
			}
			return io.ReadAll(io.LimitReader(r, most))
		}
		for _, c := range both {
			var want []byte
			var refused error
			if c == Gzip {
				r, err := gzip.NewReader(bytes.NewReader(sent))
				want, refused = read(r, err)
			} else {
				r, err := zlib.NewReader(bytes.NewReader(sent))
				want, refused = read(r, err)
			}
			d := NewDecoder(t.Context(), c, sent)
			got, err := read(d, nil)
			d.Close()
			if refused == nil && (err != nil || !bytes.Equal(got, want)) {
				t.Errorf("%v %x is decoded to %q, %v, want %q", c, sent, got, err, want)
			}
			if err != nil && !errors.Is(err, ErrMalformed) {
				t.Errorf("%v %x: %v", c, sent, err)
			}
		}
	})
}
