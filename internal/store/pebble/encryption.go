package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/store/pebble/encrypted"
)

// encrypt returns the file system below the one that guards the WAL. The guard reads records, so
// it is above the encryption.
func (o Options) encrypt(below vfs.FS) vfs.FS {
	if o.keys == nil {
		return below
	}
	return encrypted.New(below, o.keys)
}

// openKeys returns the keys of an encrypted folder, nil if the folder is not encrypted. It creates
// those of a folder that has no data yet, if there is a master key.
func openKeys(o Options) (*encrypted.KeyRing, error) {
	if o.Key == nil {
		return nil, checkPlain(o.FS, o.Dir)
	}
	keys, err := encrypted.OpenKeys(o.FS, o.Dir, o.Key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return createKeys(o)
	case err != nil:
		return nil, openFailure(err)
	}
	if err := keys.Repair(); err != nil { // such as on a full disk; one copy is intact
		o.Log.Error("cannot repair a copy of the encryption keys: only one is intact", "file", encrypted.RegistryName, "error", err)
	}
	if keys.AllowsPlain() {
		o.Log.Warn("the data folder may have files that are not encrypted: stop the server and run stator encryption enable to encrypt them", "folder", o.Dir)
	}
	return keys, nil
}

// openFailure adds store.ErrCorrupt to an error that means that. Errors that complete a sentence
// remain as they are.
func openFailure(err error) error {
	if pebble.IsCorruptionError(err) {
		return failure("open", err)
	}
	return err
}

// createKeys creates the keys of a folder that has no data yet. They are durable before data is.
func createKeys(o Options) (*encrypted.KeyRing, error) {
	if err := checkPlain(o.FS, o.Dir); err != nil {
		return nil, err
	}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if isData(name) {
			return nil, &encrypted.PlainFolderError{}
		}
	}
	if err := addFolderFormat(o.FS, o.Dir, names, encryptedFormat); err != nil {
		return nil, err
	}
	return encrypted.CreateKeys(o.FS, o.Dir, o.Key, false, o.Now())
}

// isData reports whether a file is one of those that a folder with data has.
func isData(name string) bool {
	return strings.HasPrefix(name, "MANIFEST-") || strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log")
}

// checkPlain returns an error if a folder is encrypted.
func checkPlain(disk vfs.FS, dir string) error {
	master, err := encrypted.Master(disk, dir)
	if err != nil {
		return openFailure(err)
	}
	if master != "" {
		return &encryption.NeedsKeyError{Used: master}
	}
	name, err := atomicfs.ReadMarker(disk, dir, "manifest")
	if err != nil || name == "" {
		return err
	}
	f, err := disk.Open(disk.PathJoin(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the sync marks report it
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var b [encryption.MagicBytes]byte
	if _, err := io.ReadFull(f, b[:]); err == nil && encryption.HasMagic(b[:]) {
		return openFailure(fmt.Errorf("the data is encrypted, but the file %s, which has its keys, is missing: restore it from a copy of the folder: %w", encrypted.RegistryName, pebble.ErrCorruption))
	}
	return nil
}

// EncryptionKey returns the id of the key that the files are encrypted with; empty if they are not
// encrypted.
func (e *Engine) EncryptionKey() string {
	if e.keys == nil {
		return ""
	}
	return e.keys.MasterID()
}
