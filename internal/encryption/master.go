// Package encryption encrypts files with AES-256-GCM, under keys that are wrapped by a master
// key.
//
// The operator has the master key. It wraps data keys, which are stored next to the data. Each
// file has its own key, derived from a data key and a random salt in the header of the file.
package encryption

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/process"
)

// KeyBytes is the size of master keys and data keys.
const KeyBytes = 32

// MasterKey is the key of the operator. It encrypts data keys only.
type MasterKey struct {
	id   string
	wrap cipher.AEAD
	mac  []byte
}

// NewMasterKey returns the master key that consists of 32 bytes.
func NewMasterKey(secret []byte) (*MasterKey, error) {
	if len(secret) != KeyBytes {
		return nil, fmt.Errorf("it has %d bytes, but a key has %d", len(secret), KeyBytes)
	}
	return &MasterKey{
		id:   hex.EncodeToString(derive(secret, nil, "stator master key id", 8)),
		wrap: newGCM(derive(secret, nil, "stator wrapping of data keys", KeyBytes)),
		mac:  derive(secret, nil, "stator authentication of records", KeyBytes),
	}, nil
}

// ID identifies the key, and reveals nothing about it.
func (k *MasterKey) ID() string { return k.id }

// MAC returns the authentication code of a record.
func (k *MasterKey) MAC(record []byte) []byte {
	h := hmac.New(sha256.New, k.mac)
	h.Write(record)
	return h.Sum(nil)
}

// commandPrefix is the beginning of a source that is a command.
const commandPrefix = "command:"

// commandTime bounds how long a command may take.
const commandTime = time.Minute

// LoadKey reads a master key from a file, which only its owner may access, or from the output of
// a command ("command:" and a command line of the shell). It is 64 hexadecimal digits, or 32
// bytes in base64. No error contains a part of it.
func LoadKey(ctx context.Context, source string) (*MasterKey, error) {
	command, isCommand := strings.CutPrefix(source, commandPrefix)
	read := func() ([]byte, error) { return readKeyFile(source) }
	if isCommand {
		read = func() ([]byte, error) { return runKeyCommand(ctx, command) }
	}
	text, err := read()
	if err != nil {
		return nil, fmt.Errorf("cannot read the encryption key: %w", err)
	}
	secret, err := decodeKey(text)
	if err == nil {
		var k *MasterKey
		if k, err = NewMasterKey(secret); err == nil {
			return k, nil
		}
	}
	from := "file " + source
	if isCommand {
		from = "output of the command"
	}
	return nil, fmt.Errorf("the %s is not an encryption key: %w; a key is 64 hexadecimal digits or 44 characters of base64, as stator encryption new-key writes it", from, err)
}

// NewKeyText returns a random master key as text.
func NewKeyText() string {
	secret := make([]byte, KeyBytes)
	rand.Read(secret) //nolint:errcheck // never fails
	return hex.EncodeToString(secret) + "\n"
}

// maxKeyText bounds how much of a file or an output is read.
const maxKeyText = 4 << 10

func readKeyFile(path string) ([]byte, error) {
	if key, err := decodeKey([]byte(path)); err == nil && len(key) == KeyBytes {
		return nil, errors.New("this is a key, and not the name of a file that has one")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written to it
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && process.Exposed(info) {
		return nil, fmt.Errorf("other users can access the file %s, whose mode is %04o: change that with chmod 600", path, info.Mode().Perm())
	}
	return io.ReadAll(io.LimitReader(f, maxKeyText))
}

func runKeyCommand(ctx context.Context, line string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	out, errs := boundedBuffer{most: maxKeyText}, boundedBuffer{most: maxKeyText}
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the command did not end within %v", commandTime)
	}
	if err != nil {
		const most = 400
		text := strings.TrimSpace(errs.String())
		return nil, fmt.Errorf("the command failed: %w: %s", err, text[:min(len(text), most)])
	}
	return out.Bytes(), nil
}

// boundedBuffer keeps the beginning of what is written to it.
type boundedBuffer struct {
	bytes.Buffer
	most int
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, b.most-b.Len()))])
	return len(p), nil
}

// decodeKey decodes the text of a key. Its errors do not quote it.
func decodeKey(text []byte) ([]byte, error) {
	t := strings.TrimSpace(string(text))
	if len(t) == hex.EncodedLen(KeyBytes) {
		if b, err := hex.DecodeString(t); err == nil {
			return b, nil
		}
	}
	b, err := base64.StdEncoding.DecodeString(t)
	if err != nil {
		return nil, fmt.Errorf("its %d characters are neither hexadecimal digits nor base64", len(t))
	}
	return b, nil
}

// derive derives a key from a secret that is uniformly random.
func derive(secret, salt []byte, purpose string, bytes int) []byte {
	key, err := hkdf.Key(sha256.New, secret, salt, purpose, bytes)
	if err != nil {
		panic(fmt.Sprintf("derive a key of %d bytes: %v", bytes, err))
	}
	return key
}

func newGCM(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(fmt.Sprintf("a key of %d bytes: %v", len(key), err))
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err.Error())
	}
	return gcm
}

// ErrDamaged is returned for bytes that are not what was encrypted.
var ErrDamaged = errors.New("it is damaged, or was changed")

// WrongKeyError is returned when a master key is not the one that was used.
type WrongKeyError struct{ Used, Given string } // ids

// Error completes the sentence "cannot open data in ./data: …".
func (e *WrongKeyError) Error() string {
	return fmt.Sprintf("it is encrypted with another key: with %s, and --encryption-key is %s", e.Used, e.Given)
}

// NeedsKeyError is returned when a key is needed, and none is given.
type NeedsKeyError struct{ Used string } // the id of the master key; may be empty

// Error completes the sentence "cannot open data in ./data: …".
func (e *NeedsKeyError) Error() string {
	with := ""
	if e.Used != "" {
		with = " with the key " + e.Used
	}
	return fmt.Sprintf("it is encrypted%s: name the key with --encryption-key", with)
}

// NotEncryptedError is returned for a backup that is not encrypted, if there is a key.
type NotEncryptedError struct{}

// Error completes the sentence "cannot read the backup: …".
func (*NotEncryptedError) Error() string {
	return "it is not encrypted, so that everybody who can write to the place of the backups may have made it: if you trust it, allow it with --allow-plain-backups"
}

// IsKeyError reports whether an error says that something is not damaged, but is not of the key that
// is given: it needs another key, or any, or is not encrypted.
func IsKeyError(err error) bool {
	return errors.As(err, new(*WrongKeyError)) || errors.As(err, new(*NeedsKeyError)) || errors.As(err, new(*NotEncryptedError))
}
