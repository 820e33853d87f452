package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/store"
)

func masterKey(t *testing.T, n byte) *encryption.MasterKey {
	t.Helper()
	k, err := encryption.NewMasterKey(bytes.Repeat([]byte{n}, encryption.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func openEncrypted(ctx context.Context, dir string, key *encryption.MasterKey) (blob.Place, error) {
	p, err := blob.Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	return blob.Encrypted(ctx, p, key)
}

func mustOpenEncrypted(t *testing.T, dir string, key *encryption.MasterKey) blob.Place {
	t.Helper()
	p, err := openEncrypted(t.Context(), dir, key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func writeText(t *testing.T, p blob.Place, name, text string) {
	t.Helper()
	w, err := p.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

func readText(t *testing.T, p blob.Place, name string) (string, error) {
	r, err := p.Open(t.Context(), name)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

func TestEncryptedPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	one, two := masterKey(t, 1), masterKey(t, 2)
	const text = "a text that is encrypted"
	writeText(t, mustOpenEncrypted(t, dir, nil), "plain", text)
	p := mustOpenEncrypted(t, dir, one)
	writeText(t, p, "a", text)
	writeText(t, p, "empty", "")
	p = mustOpenEncrypted(t, dir, one)
	writeText(t, p, "b", text)
	if names, err := p.Names(t.Context()); err != nil || !slices.Equal(names, []string{"a", "b", "empty", "plain"}) {
		t.Errorf("the files are %v, %v", names, err)
	}
	for _, name := range []string{"a", "b", "plain"} {
		if got, err := readText(t, p, name); err != nil || got != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Contains(string(b), text) != (name == "plain") {
			t.Errorf("%s: %v, the file is %q", name, err, b)
		}
	}
	if got, err := readText(t, p, "empty"); err != nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
	keys, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(keys) != 1 {
		t.Fatalf("there are keys %v, %v", keys, err)
	}
	if _, err := openEncrypted(t.Context(), dir, two); !errors.As(err, new(*encryption.WrongKeyError)) {
		t.Errorf("another key: %v", err)
	}
	if _, err := readText(t, mustOpenEncrypted(t, dir, nil), "a"); !errors.As(err, new(*encryption.NeedsKeyError)) {
		t.Errorf("no key: %v", err)
	}
	for _, at := range []int{0, 10, 50, 90} {
		if at == 0 {
			at = -1 // truncated
		}
		b, err := os.ReadFile(filepath.Join(dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		if at < 0 {
			b = b[:len(b)-1]
		} else {
			b[at] ^= 1
		}
		if err := os.WriteFile(filepath.Join(dir, "c"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readText(t, p, "c"); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("damaged at %d: %v", at, err)
		}
	}
	if err := os.Remove(keys[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := readText(t, mustOpenEncrypted(t, dir, one), "a"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("without its key file: %v", err)
	}
}

// After a rotation all files are read with the new key, also if the first attempt was interrupted.
func TestRotateKeysOfPlace(t *testing.T) {
	dir := t.TempDir()
	ctx, one, two := t.Context(), masterKey(t, 1), masterKey(t, 2)
	p, err := blob.Open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blob.RotateKeys(ctx, p, one, two); err == nil {
		t.Error("a place without keys is rotated")
	}
	writeText(t, mustOpenEncrypted(t, dir, one), "a", "text")
	if n, err := blob.RotateKeys(ctx, p, one, one); n != 1 || err != nil { // a second data key
		t.Fatal(n, err)
	}
	writeText(t, mustOpenEncrypted(t, dir, one), "b", "text")
	running := mustOpenEncrypted(t, dir, one)
	if _, err := blob.RotateKeys(ctx, p, two, masterKey(t, 3)); !errors.As(err, new(*encryption.WrongKeyError)) {
		t.Errorf("with a wrong key: %v", err)
	}
	if _, err := blob.RotateKeys(ctx, &failingCreates{Place: p, after: 1}, one, two); !errors.Is(err, errFailing) {
		t.Fatalf("got %v", err)
	}
	for _, key := range []*encryption.MasterKey{one, two} {
		mustOpenEncrypted(t, dir, key) // one key is rotated, the other is not
	}
	if n, err := blob.RotateKeys(ctx, p, one, two); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if n, err := blob.RotateKeys(ctx, p, one, two); n != 0 || err != nil {
		t.Errorf("repeated: %d, %v", n, err)
	}
	writeText(t, running, "c", "text") // a server that has the old key
	after := mustOpenEncrypted(t, dir, two)
	for _, name := range []string{"a", "b", "c"} {
		if got, err := readText(t, after, name); err != nil || got != "text" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := openEncrypted(ctx, dir, one); !errors.As(err, new(*encryption.WrongKeyError)) {
		t.Errorf("the old key: %v", err)
	}
}

var errFailing = errors.New("it fails")

// failingCreates is a place that fails after some files were created.
type failingCreates struct {
	blob.Place
	after int
}

func (f *failingCreates) Create(ctx context.Context, name string) (blob.Writer, error) {
	if f.after--; f.after < 0 {
		return nil, errFailing
	}
	return f.Place.Create(ctx, name)
}
