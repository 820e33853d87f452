package encrypted

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/encryption"
)

// RegistryName is the name of the file in a data folder that has its data keys, each of which is
// encrypted with the master key.
const RegistryName = "stator.keys"

// Without the registry nothing can be decrypted, so there are two copies of it. The first one that
// is intact counts; it is replaced first.
const registryCopyName = RegistryName + "-copy"

// registry is the content of the file, which is followed by its SHA-256 and by its authentication
// code under the master key. docs/formats/encryption.md describes it.
type registry struct {
	Format int           `json:"format"`
	Master string        `json:"master"`          // id of the master key
	Active string        `json:"active"`          // id of the data key of new files
	Marks  string        `json:"marks"`           // id of the data key of the checksums in sync marks
	Plain  bool          `json:"plain,omitempty"` // the folder may have files that are not encrypted
	Keys   []wrappedData `json:"keys"`
}

type wrappedData struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Wrapped []byte    `json:"wrapped"`
}

const (
	registryFormat = 1
	// maxRegistryBytes bounds how much is read.
	maxRegistryBytes = 4 << 20
)

// KeyRing is the decrypted registry of a folder.
type KeyRing struct {
	fs       vfs.FS
	dir      string
	master   *encryption.MasterKey
	registry registry

	byID   map[string]*encryption.DataKey
	active *encryption.DataKey
	plain  bool // the folder may have files that are not encrypted
}

// PlainFolderError is returned for a folder whose data is not encrypted, if a key is given.
type PlainFolderError struct{}

// Error completes the sentence "cannot open data in ./data: …".
func (*PlainFolderError) Error() string {
	return "its data is not encrypted: encrypt it with stator encryption enable, or serve it without --encryption-key"
}

// Master returns the id of the master key of a folder; empty if the folder is not encrypted. It
// returns a corruption error if the registry is damaged.
func Master(fs vfs.FS, dir string) (string, error) {
	r, _, err := readRegistry(fs, dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return "", nil
	}
	return r.Master, err
}

// CreateKeys creates the registry of a folder, durably. plain says that the folder has files that
// are not encrypted.
func CreateKeys(fs vfs.FS, dir string, master *encryption.MasterKey, plain bool, now time.Time) (*KeyRing, error) {
	k := &KeyRing{fs: fs, dir: dir, plain: plain, registry: registry{Format: registryFormat, Plain: plain}, byID: make(map[string]*encryption.DataKey)}
	return k, k.Rotate(master, now)
}

// OpenKeys reads the registry of a folder. It returns a *encryption.WrongKeyError if it is that of
// another master key, a corruption error if it is damaged, and fs.ErrNotExist if there is none.
func OpenKeys(fs vfs.FS, dir string, master *encryption.MasterKey) (*KeyRing, error) {
	r, sealed, err := readRegistry(fs, dir)
	if err != nil {
		return nil, err
	}
	if r.Master != master.ID() {
		return nil, &encryption.WrongKeyError{Used: r.Master, Given: master.ID()}
	}
	if !sealed.IsOf(master) {
		return nil, damaged(fs.PathJoin(dir, RegistryName), "it was changed without the key")
	}
	k := &KeyRing{fs: fs, dir: dir, master: master, registry: r, plain: r.Plain, byID: make(map[string]*encryption.DataKey)}
	for _, w := range r.Keys {
		if k.byID[w.ID], err = master.Unwrap(w.ID, w.Wrapped); err != nil {
			return nil, damaged(fs.PathJoin(dir, RegistryName), err.Error())
		}
	}
	if k.active = k.byID[r.Active]; k.active == nil || k.byID[r.Marks] == nil {
		return nil, damaged(fs.PathJoin(dir, RegistryName), "it does not have the key of new files")
	}
	return k, nil
}

// Repair makes both copies of the registry equal.
func (k *KeyRing) Repair() error {
	want := k.encode()
	for _, name := range []string{RegistryName, registryCopyName} {
		b, err := readSmall(k.fs, k.fs.PathJoin(k.dir, name))
		if err == nil && bytes.Equal(b, want) {
			continue
		}
		if err := replaceFile(k.fs, k.dir, name, want); err != nil {
			return err
		}
	}
	return nil
}

// Rotate makes a new data key the one of new files, and encrypts all data keys with a master key,
// which may be a new one. Data keys that no file needs are removed. When it returns an error, the
// registry is as before, or as it is to be.
func (k *KeyRing) Rotate(master *encryption.MasterKey, now time.Time) error {
	used, err := k.used()
	if err != nil {
		return err
	}
	d := encryption.NewDataKey()
	keys := []wrappedData{{d.ID(), now.UTC().Truncate(time.Second), master.Wrap(d)}}
	for _, w := range k.registry.Keys {
		if used[w.ID] || w.ID == k.registry.Marks {
			keys = append(keys, wrappedData{w.ID, w.Created, master.Wrap(k.byID[w.ID])})
		}
	}
	k.byID[d.ID()] = d
	k.master, k.active = master, d
	k.registry.Master, k.registry.Active, k.registry.Keys = master.ID(), d.ID(), keys
	k.registry.Marks = cmp.Or(k.registry.Marks, d.ID())
	return k.save()
}

// SetPlain records whether the folder may have files that are not encrypted.
func (k *KeyRing) SetPlain(plain bool) error {
	k.plain, k.registry.Plain = plain, plain
	return k.save()
}

// AllowsPlain reports whether the folder may have files that are not encrypted.
func (k *KeyRing) AllowsPlain() bool { return k.plain }

// MasterID returns the id of the master key.
func (k *KeyRing) MasterID() string { return k.master.ID() }

// Keyed returns a function of the checksum of a manifest. Without the key, its result does not
// reveal anything about the manifest.
func (k *KeyRing) Keyed() func(number uint64, end int64, crc uint32) uint32 {
	secret := k.byID[k.registry.Marks].Derive("checksums of manifests")
	return func(number uint64, end int64, crc uint32) uint32 {
		h := hmac.New(sha256.New, secret)
		var b [20]byte
		binary.BigEndian.PutUint64(b[:], number)
		binary.BigEndian.PutUint64(b[8:], uint64(end))
		binary.BigEndian.PutUint32(b[16:], crc)
		h.Write(b[:])
		return binary.BigEndian.Uint32(h.Sum(nil))
	}
}

func (k *KeyRing) save() error {
	b := k.encode()
	if err := replaceFile(k.fs, k.dir, RegistryName, b); err != nil {
		return err
	}
	return replaceFile(k.fs, k.dir, registryCopyName, b)
}

func (k *KeyRing) encode() []byte {
	b, err := json.Marshal(k.registry)
	if err != nil {
		panic(fmt.Sprintf("the registry of keys cannot be encoded: %v", err))
	}
	return k.master.SealRecord(b)
}

// RemoveKeys removes the registry of a folder, durably.
func RemoveKeys(fs vfs.FS, dir string) error {
	for _, name := range []string{RegistryName, registryCopyName} {
		if err := fs.Remove(fs.PathJoin(dir, name)); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
	}
	return syncDir(fs, dir)
}

// readRegistry reads the first copy of the registry that is intact.
func readRegistry(fs vfs.FS, dir string) (registry, encryption.SealedRecord, error) {
	absent := 0
	var failed error // to read a copy, as of a bad sector
	for _, name := range []string{RegistryName, registryCopyName} {
		b, err := readSmall(fs, fs.PathJoin(dir, name))
		if errors.Is(err, iofs.ErrNotExist) {
			absent++
			continue
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if r, sealed, ok := decodeRegistry(b); ok {
			if r.Format != registryFormat {
				return registry{}, encryption.SealedRecord{}, fmt.Errorf("%s has format %d, and this version of stator knows format %d: use the version that has written it", name, r.Format, registryFormat)
			}
			return r, sealed, nil
		}
	}
	if absent == 2 {
		return registry{}, encryption.SealedRecord{}, iofs.ErrNotExist
	}
	if failed != nil {
		return registry{}, encryption.SealedRecord{}, failed
	}
	return registry{}, encryption.SealedRecord{}, damaged(fs.PathJoin(dir, RegistryName), "it is damaged, and so is its copy: without the keys in it nothing can be decrypted; restore the file from a copy of the folder, or the tables from backups")
}

func decodeRegistry(b []byte) (r registry, sealed encryption.SealedRecord, ok bool) {
	sealed, ok = encryption.ReadSealed(b)
	ok = ok && json.Unmarshal(sealed.Content, &r) == nil
	return r, sealed, ok
}

func readSmall(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRegistryBytes))
	return b, errors.Join(err, f.Close())
}

// replaceFile replaces a file by one that is complete and durable.
func replaceFile(fs vfs.FS, dir, name string, content []byte) error {
	path, temporary := fs.PathJoin(dir, name), fs.PathJoin(dir, name+".new")
	f, err := fs.Create(temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(slices.Clone(content)) // Write may change it
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fs.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, fs.Remove(temporary))
	}
	return syncDir(fs, dir)
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
