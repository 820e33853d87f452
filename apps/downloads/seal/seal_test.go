package seal

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Only the owner of the key can unwrap and decrypt.
func TestRoundTrip(t *testing.T) {
	folder := t.TempDir()
	made, err := MakeKey(filepath.Join(folder, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := ReadKey(filepath.Join(folder, "key.pem"))
	if err != nil || !own.Equal(made) {
		t.Fatalf("the key that is read differs from the one that was written: %v", err)
	}
	if info, _ := os.Stat(filepath.Join(folder, "key.pem")); info.Mode().Perm() != 0o600 {
		t.Errorf("other users can read the key: %v", info.Mode())
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key, iv, text := make([]byte, 32), make([]byte, 16), []byte(strings.Repeat("some text, ", 1000))
	rand.Read(key)
	rand.Read(iv)
	wrapped, err := Wrap(&own.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Unwrap(own, wrapped)
	if err != nil || !bytes.Equal(got, key) {
		t.Fatalf("unwrapped: %v", err)
	}
	if _, err := Unwrap(other, wrapped); err == nil || !strings.Contains(err.Error(), Fingerprint(&other.PublicKey)) {
		t.Errorf("unwrapped with another key: %v", err)
	}
	for _, forged := range []string{"", "%%%", "AAAA", wrapped[:len(wrapped)-8], base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 256))} {
		if _, err := Unwrap(own, forged); err == nil {
			t.Errorf("the forged key %.20q is accepted", forged)
		}
	}
	short, _ := Wrap(&own.PublicKey, key[:16])
	if _, err := Unwrap(own, short); err == nil {
		t.Error("a short AES key is accepted")
	}
	seal, err := Stream(key, base64.StdEncoding.EncodeToString(iv))
	if err != nil {
		t.Fatal(err)
	}
	sealed := make([]byte, len(text))
	seal.XORKeyStream(sealed, text)
	open, _ := Stream(got, base64.StdEncoding.EncodeToString(iv))
	// In two pieces, as after an interruption.
	open.XORKeyStream(sealed[:777], sealed[:777])
	open.XORKeyStream(sealed[777:], sealed[777:])
	if !bytes.Equal(sealed, text) {
		t.Error("the decrypted text differs")
	}
	for _, iv := range []string{"", "AAAA", "!"} {
		if _, err := Stream(key, iv); err == nil {
			t.Errorf("the IV %q is accepted", iv)
		}
	}
}

// Files without a key.
func TestReadKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.pem")
	for _, text := range []string{"", "no PEM", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKey(file); err == nil {
			t.Errorf("%q is accepted as a key", text)
		}
	}
	if _, err := ReadKey(file + ".none"); err == nil {
		t.Error("a missing file is accepted as a key")
	}
}
