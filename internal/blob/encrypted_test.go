package blob_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

func openEncrypted(t *testing.T, dir string, key *encryption.MasterKey) blob.Place {
	t.Helper()
	return blob.Encrypted(openFolder(t, dir), key, false)
}

func openFolder(t *testing.T, dir string) blob.Place {
	t.Helper()
	p, err := blob.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// keyFiles returns the key files in a folder.
func keyFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "stator-*.key"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func removeAll(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func noProgress(int, int) {}

// expectText checks that files have the content "text".
func expectText(t *testing.T, p blob.Place, names ...string) {
	t.Helper()
	for _, name := range names {
		if got, err := readText(t, p, name); err != nil || got != "text" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
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
	writeText(t, openEncrypted(t, dir, nil), "plain", text)
	p := openEncrypted(t, dir, one)
	writeText(t, p, "a", text)
	writeText(t, p, "empty", "")
	p = openEncrypted(t, dir, one)
	writeText(t, p, "b", text)
	if names, err := p.Names(t.Context()); err != nil || !slices.Equal(names, []string{"a", "b", "empty", "plain"}) {
		t.Errorf("the files are %v, %v", names, err)
	}
	for _, name := range []string{"a", "b", "plain"} {
		from := p
		if name == "plain" {
			from = blob.Encrypted(openFolder(t, dir), one, true)
		}
		if got, err := readText(t, from, name); err != nil || got != text {
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
	if keys := keyFiles(t, dir); len(keys) != 1 {
		t.Fatalf("there are keys %v", keys)
	}
	var wrong *encryption.WrongKeyError
	if _, err := readText(t, openEncrypted(t, dir, two), "a"); !errors.As(err, &wrong) || wrong.Used != one.ID() {
		t.Errorf("another key: %v", err)
	}
	var needs *encryption.NeedsKeyError
	if _, err := readText(t, openEncrypted(t, dir, nil), "a"); !errors.As(err, &needs) || needs.Used != one.ID() {
		t.Errorf("no key: %v", err)
	}
	if _, err := readText(t, p, "plain"); !errors.As(err, new(*encryption.NotEncryptedError)) {
		t.Errorf("a file that is not encrypted: %v", err)
	}
	removeAll(t, keyFiles(t, dir))
	for _, at := range []int{-1, 10, 50, 90, 200} { // the first is a truncation
		b, err := os.ReadFile(filepath.Join(dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		if at < 0 {
			b = b[:len(b)-1]
		} else {
			b[min(at, len(b)-1)] ^= 1
		}
		if err := os.WriteFile(filepath.Join(dir, "c"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readText(t, p, "c"); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("damaged at %d: %v", at, err)
		}
	}
}

// The data key of a file is in the file. If a rule of the bucket removes the key file, also while a
// server runs, files remain readable.
func TestRemovedKeyFile(t *testing.T) {
	dir, one := t.TempDir(), masterKey(t, 1)
	p := openEncrypted(t, dir, one)
	writeText(t, p, "a", "text")
	removeAll(t, keyFiles(t, dir))
	writeText(t, p, "b", "text")
	expectText(t, p, "a", "b")
	expectText(t, openEncrypted(t, dir, one), "a", "b")
	two := masterKey(t, 2)
	if n, err := blob.RotateKeys(t.Context(), openFolder(t, dir), one, two, noProgress); n != 1 || err != nil {
		t.Errorf("rotated: %d, %v", n, err)
	}
	expectText(t, openEncrypted(t, dir, two), "a", "b")
}

// oldFile writes a file as the first version did: its key is in a key file without a checksum only.
func oldFile(t *testing.T, dir, name, content string, master *encryption.MasterKey) (keyFile string) {
	t.Helper()
	d := encryption.NewDataKey()
	header, c := d.Create(encryption.LargeBlocks)
	sealer := encryption.BlockSealer{Cipher: c, Layout: encryption.LargeBlocks}
	record, err := json.Marshal(map[string]any{"format": 1, "id": d.ID(), "master": master.ID(), "created": time.Unix(1, 0), "wrapped": master.Wrap(d)})
	if err != nil {
		t.Fatal(err)
	}
	keyFile = "stator-" + d.ID() + ".key"
	for name, b := range map[string][]byte{name: sealer.Last(sealer.Append(header, []byte(content))), keyFile: append(record, '\n')} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, keyFile)
}

// Files of the first version are read, and rotated. Without their key file they are damaged, and that
// is noticed by a place that has read it before.
func TestFilesOfFirstVersion(t *testing.T) {
	dir, one, two := t.TempDir(), masterKey(t, 1), masterKey(t, 2)
	key := oldFile(t, dir, "a", "text", one)
	p := openEncrypted(t, dir, one)
	writeText(t, p, "b", "text")
	expectText(t, p, "a", "b")
	if n, err := blob.RotateKeys(t.Context(), openFolder(t, dir), one, two, noProgress); n != 1 || err != nil {
		t.Errorf("rotated: %d, %v", n, err)
	}
	p = openEncrypted(t, dir, two)
	expectText(t, p, "a", "b")
	removeAll(t, []string{key})
	if _, err := readText(t, p, "a"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("without its key file: %v", err)
	}
	if n, err := blob.RewriteFiles(t.Context(), openFolder(t, dir), two, noProgress); n != 0 || !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("rewritten: %d, %v", n, err)
	}
}

// Nothing is read from a place before it is used, so that a server starts without it. What fails then
// is repeated by the next use.
func TestEncryptedPlaceIsReadLate(t *testing.T) {
	dir, one := t.TempDir(), masterKey(t, 1)
	down := &unreachablePlace{Place: openFolder(t, dir)}
	down.fails.Store(true)
	p := blob.Encrypted(down, one, false)
	if _, err := p.Create(t.Context(), "a"); !errors.Is(err, errFailing) {
		t.Errorf("create: %v", err)
	}
	if err := blob.CheckKeys(t.Context(), p); !errors.Is(err, errFailing) {
		t.Errorf("check: %v", err)
	}
	down.fails.Store(false)
	writeText(t, p, "a", "text")
	expectText(t, p, "a")
	if err := blob.CheckKeys(t.Context(), p); err != nil {
		t.Errorf("check: %v", err)
	}
}

// unreachablePlace is a place that fails while it cannot be reached.
type unreachablePlace struct {
	blob.Place
	fails atomic.Bool
}

func (p *unreachablePlace) err() error {
	if p.fails.Load() {
		return errFailing
	}
	return nil
}

func (p *unreachablePlace) Find(ctx context.Context, prefix string) ([]blob.File, error) {
	if err := p.err(); err != nil {
		return nil, err
	}
	return p.Place.Find(ctx, prefix)
}

// A key file that is damaged, or of another master key, does not prevent new files. It is reported
// when a file needs it, as damage and not as another key.
func TestUnusableKeyFile(t *testing.T) {
	dir, one, two := t.TempDir(), masterKey(t, 1), masterKey(t, 2)
	key := oldFile(t, dir, "old", "text", one)
	if _, err := blob.RotateKeys(t.Context(), openFolder(t, dir), one, one, noProgress); err != nil { // to the new format
		t.Fatal(err)
	}
	b, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(one.ID()))
	b[at] ^= 1 // another hexadecimal digit, or none
	if err := os.WriteFile(key, b, 0o600); err != nil {
		t.Fatal(err)
	}
	p := openEncrypted(t, dir, one)
	writeText(t, p, "a", "text")
	expectText(t, p, "a")
	if _, err := readText(t, p, "old"); !errors.Is(err, store.ErrCorrupt) || encryption.IsKeyError(err) {
		t.Errorf("a file that needs it: %v", err)
	}
	if err := blob.CheckKeys(t.Context(), p); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), filepath.Base(key)) {
		t.Errorf("check: %v", err)
	}
	other := openEncrypted(t, dir, two)
	if err := blob.CheckKeys(t.Context(), other); !errors.As(err, new(*encryption.WrongKeyError)) {
		t.Errorf("check with another key: %v", err)
	}
	writeText(t, other, "b", "text")
	expectText(t, other, "b")
	expectText(t, openEncrypted(t, dir, one), "a")
	if _, err := readText(t, other, "a"); !errors.As(err, new(*encryption.WrongKeyError)) {
		t.Errorf("got %v", err)
	}
}

// After a rotation all files are read with the new key, also if the first attempt was interrupted.
func TestRotateKeysOfPlace(t *testing.T) {
	dir := t.TempDir()
	ctx, one, two := t.Context(), masterKey(t, 1), masterKey(t, 2)
	p := openFolder(t, dir)
	rotate := func(p blob.Place, before, after *encryption.MasterKey) (int, error) {
		return blob.RotateKeys(ctx, p, before, after, noProgress)
	}
	if _, err := rotate(p, one, two); err == nil {
		t.Error("a place without keys is rotated")
	}
	writeText(t, openEncrypted(t, dir, one), "a", "text")
	if n, err := rotate(p, one, one); n != 1 || err != nil { // a second data key
		t.Fatal(n, err)
	}
	running := openEncrypted(t, dir, one)
	writeText(t, running, "b", "text")
	if _, err := rotate(p, two, masterKey(t, 3)); !errors.As(err, new(*encryption.WrongKeyError)) {
		t.Errorf("with a wrong key: %v", err)
	}
	if _, err := rotate(&failingCreates{Place: p, after: 1}, one, two); !errors.Is(err, errFailing) {
		t.Fatalf("got %v", err)
	}
	if n, err := rotate(p, one, two); n != 2 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if n, err := rotate(p, one, two); n != 0 || err != nil {
		t.Errorf("repeated: %d, %v", n, err)
	}
	writeText(t, running, "c", "text") // a server that has the old key
	after := openEncrypted(t, dir, two)
	expectText(t, after, "a", "b", "c")
	if _, err := blob.RewriteFiles(ctx, p, two, noProgress); err != nil {
		t.Fatal(err)
	}
	expectText(t, after, "a", "b", "c")
	if keys := keyFiles(t, dir); len(keys) != 1 {
		t.Errorf("after a rewrite there are keys %v", keys)
	}
	for _, name := range []string{"a", "b", "c"} {
		if _, err := readText(t, openEncrypted(t, dir, one), name); !errors.As(err, new(*encryption.WrongKeyError)) {
			t.Errorf("%s with the old key: %v", name, err)
		}
	}
}

// A rotation that was interrupted at any moment is completed by another one: new files have a new
// data key.
func TestInterruptedRotationOfPlace(t *testing.T) {
	for creates := 0; ; creates++ {
		dir, one, two := t.TempDir(), masterKey(t, 1), masterKey(t, 2)
		writeText(t, openEncrypted(t, dir, one), "a", "text")
		old := keyFiles(t, dir)
		_, err := blob.RotateKeys(t.Context(), &failingCreates{Place: openFolder(t, dir), after: creates}, one, two, noProgress)
		if err == nil {
			if creates != 2 {
				t.Errorf("a rotation creates %d files", creates)
			}
			return
		}
		if _, err := blob.RotateKeys(t.Context(), openFolder(t, dir), one, two, noProgress); err != nil {
			t.Fatal(err)
		}
		p := openEncrypted(t, dir, two)
		writeText(t, p, "b", "text")
		expectText(t, p, "a", "b")
		removeAll(t, old)
		expectText(t, openEncrypted(t, dir, two), "b")
		if _, err := readText(t, p, "a"); err == nil {
			t.Errorf("after %d files, the old data key is that of new files", creates)
		}
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
