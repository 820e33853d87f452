package encryption

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func master(t *testing.T, n byte) *MasterKey {
	t.Helper()
	k, err := NewMasterKey(bytes.Repeat([]byte{n}, KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func seal(t *testing.T, k *DataKey, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewStreamWriter(&b, k, master(t, 1))
	for rest := content; len(rest) > 0; {
		n := min(len(rest), 1+len(rest)/3)
		if _, err := w.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unseal reads a stream with the data key in its envelope.
func unseal(m *MasterKey, b []byte) ([]byte, error) {
	from := iotest.OneByteReader(bytes.NewReader(b))
	h, err := ReadStreamHeader(from)
	if err != nil {
		return nil, err
	}
	k, err := h.Unwrap(m)
	if err != nil {
		return nil, err
	}
	r, err := NewStreamReader(from, h, k)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func TestStream(t *testing.T) {
	k := NewDataKey()
	block := LargeBlocks.BlockBytes()
	for _, size := range []int{0, 1, 100, block - 1, block, block + 1, 2 * block, 2*block + 5} {
		content := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		b := seal(t, k, content)
		if got, err := unseal(master(t, 1), b); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
		if bytes.Contains(b, []byte("0123456789")) {
			t.Errorf("%d bytes: the content is readable", size)
		}
		if bytes.Equal(b, seal(t, k, content)) {
			t.Errorf("%d bytes: two files are equal", size)
		}
	}
}

// A file is not read if a bit is changed, at any truncation, or with another key.
func TestDamagedStream(t *testing.T) {
	k := NewDataKey()
	content := bytes.Repeat([]byte("0123456789"), 20)
	b := seal(t, k, content)
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x40
		if _, err := unseal(master(t, 1), damaged); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d is changed: %v", i, err)
		}
		if _, err := unseal(master(t, 1), b[:i]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("truncated at byte %d: %v", i, err)
		}
	}
	if _, err := unseal(master(t, 2), b); !errors.Is(err, ErrDamaged) {
		t.Errorf("another key: %v", err)
	}
	// A file that is cut between two blocks has no last block.
	long := seal(t, k, make([]byte, 3*LargeBlocks.BlockBytes()))
	for n := 1; n < 3; n++ {
		if _, err := unseal(master(t, 1), long[:HeaderBytes+envelopeBytes+n*(LargeBlocks.BlockBytes()+TagBytes)]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of 3 blocks: %v", n, err)
		}
	}
}

// The envelope says which master key a stream needs. If it is damaged, it does not name another one.
func TestStreamEnvelope(t *testing.T) {
	k := NewDataKey()
	b := seal(t, k, []byte("text"))
	h, err := ReadStreamHeader(bytes.NewReader(b))
	if err != nil || h.Master != master(t, 1).ID() || h.KeyID != k.ID() {
		t.Fatalf("got %+v, %v", h, err)
	}
	for i := HeaderBytes; i < HeaderBytes+envelopeBytes; i++ {
		damaged := bytes.Clone(b)
		damaged[i] ^= 1
		h, err := ReadStreamHeader(bytes.NewReader(damaged))
		if err != nil || h.Master != "" {
			t.Fatalf("byte %d is changed: %+v, %v", i, h, err)
		}
		if r, err := NewStreamReader(bytes.NewReader(damaged[HeaderBytes+envelopeBytes:]), h, k); err != nil {
			t.Fatalf("byte %d is changed: %v", i, err)
		} else if got, err := io.ReadAll(r); err != nil || string(got) != "text" {
			t.Fatalf("byte %d is changed: %q, %v", i, got, err)
		}
	}
}

// A stream of version 1 has no envelope. It is read with its data key.
func TestStreamOfVersion1(t *testing.T) {
	k := NewDataKey()
	header, c := k.Create(LargeBlocks)
	sealer := BlockSealer{Cipher: c, Layout: LargeBlocks}
	from := bytes.NewReader(sealer.Last(sealer.Append(header, []byte("text"))))
	h, err := ReadStreamHeader(from)
	if err != nil || h.Master != "" || h.KeyID != k.ID() {
		t.Fatalf("got %+v, %v", h, err)
	}
	r, err := NewStreamReader(from, h, k)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "text" {
		t.Errorf("got %q, %v", got, err)
	}
}

// After an error neither a reader nor a writer continues: the next block would be taken for the
// missing one.
func TestStreamErrorsRemain(t *testing.T) {
	k := NewDataKey()
	b := seal(t, k, bytes.Repeat([]byte("0123456789"), 3*LargeBlocks.BlockBytes()/10))
	b[HeaderBytes+envelopeBytes+5] ^= 1
	from := bytes.NewReader(b)
	h, err := ReadStreamHeader(from)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewStreamReader(from, h, k)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, ErrDamaged) {
			t.Errorf("read %d bytes, %v", n, err)
		}
	}
	full := &fullOnce{}
	w := NewStreamWriter(full, k, master(t, 1))
	for range 2 {
		if _, err := w.Write(make([]byte, 2*LargeBlocks.BlockBytes())); !errors.Is(err, errFull) {
			t.Errorf("write: %v", err)
		}
	}
	if err := w.Finish(); !errors.Is(err, errFull) {
		t.Errorf("finish: %v", err)
	}
}

var errFull = errors.New("full")

// fullOnce is a disk that fails the first write.
type fullOnce struct{ failed bool }

func (f *fullOnce) Write(p []byte) (int, error) {
	if !f.failed {
		f.failed = true
		return 0, errFull
	}
	return len(p), nil
}

// A bit that changes in a sealed record is detected without the key, and a record that somebody
// else has sealed with it.
func TestSealedRecord(t *testing.T) {
	one, two := master(t, 1), master(t, 2)
	b := one.SealRecord([]byte(`{"master":"x"}`))
	r, ok := ReadSealed(b)
	if !ok || string(r.Content) != `{"master":"x"}` || !r.IsOf(one) || r.IsOf(two) {
		t.Errorf("got %+v, %v", r, ok)
	}
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 1
		if r, ok := ReadSealed(damaged); ok && r.IsOf(one) {
			t.Errorf("byte %d is changed", i)
		}
		if _, ok := ReadSealed(b[:i]); ok {
			t.Errorf("truncated at %d", i)
		}
	}
}

func TestWrap(t *testing.T) {
	one, two, d := master(t, 1), master(t, 2), NewDataKey()
	wrapped := one.Wrap(d)
	got, err := one.Unwrap(d.ID(), wrapped)
	if err != nil || !bytes.Equal(got.secret, d.secret) {
		t.Errorf("got %v", err)
	}
	if bytes.Contains(wrapped, d.secret) {
		t.Error("the key is readable")
	}
	for name, unwrap := range map[string]func() error{
		"another master key": func() error { _, err := two.Unwrap(d.ID(), wrapped); return err },
		"another id":         func() error { _, err := one.Unwrap(NewDataKey().ID(), wrapped); return err },
		"truncated":          func() error { _, err := one.Unwrap(d.ID(), wrapped[:10]); return err },
		"no id":              func() error { _, err := one.Unwrap("x", wrapped); return err },
	} {
		if err := unwrap(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if one.ID() == two.ID() || one.ID() != master(t, 1).ID() {
		t.Errorf("the ids are %s and %s", one.ID(), two.ID())
	}
}

// No position of a part has the nonce of another.
func TestNonces(t *testing.T) {
	seen := make(map[string]Position)
	for kind := HeaderPart; kind <= LogPart; kind++ {
		for _, length := range []int{0, 1, 255, 256, 65535, 65536} {
			for _, at := range []uint64{0, 1, 255, 256, 1 << 40} {
				p := Position{kind, length, at}
				nonce := string(p.nonce(new([12]byte)))
				if other, ok := seen[nonce]; ok {
					t.Errorf("%v and %v have the same nonce", p, other)
				}
				seen[nonce] = p
			}
		}
	}
}

func TestLoadKey(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, KeyBytes)
	text := strings.Repeat("07", KeyBytes)
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", text+"\n", 0o600)
	for _, c := range []struct{ name, source, want string }{
		{"hexadecimal", good, ""},
		{"base64", file("base64", base64.StdEncoding.EncodeToString(secret), 0o600), ""},
		{"a command", "command:cat '" + good + "'", ""},
		{"other users", file("open", text, 0o644), "chmod 600"},
		{"no file", filepath.Join(dir, "none"), "no such file"},
		{"too short", file("short", text[:60], 0o600), "45 bytes, but a key has 32"},
		{"no key", file("text", "not a key, but a text of some words", 0o600), "35 characters are neither"},
		{"empty", file("empty", "", 0o600), "0 bytes"},
		{"a command that fails", "command:echo no access >&2; exit 3", "exit status 3: no access"},
		{"a command with other output", "command:echo " + text[:62], "62 characters are neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, err := LoadKey(context.Background(), c.source)
			if c.want == "" {
				if err != nil || k.ID() != master(t, 7).ID() {
					t.Errorf("got %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "0707") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	k, err := LoadKey(context.Background(), file("new", NewKeyText(), 0o600))
	if err != nil || k.ID() == master(t, 7).ID() {
		t.Errorf("a new key: %v", err)
	}
}
