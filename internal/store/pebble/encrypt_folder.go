package pebble

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/store/pebble/encrypted"
	"github.com/stator-db/stator/internal/store/pebble/walguard"
)

// EncryptionState returns how a folder is encrypted. An engine may have it open meanwhile.
func EncryptionState(dir string) (encrypted.FolderState, error) {
	return encrypted.StateOf(vfs.Default, dir)
}

// EncryptFolder encrypts all files of a folder that is not encrypted, or not completely. If it is
// interrupted, the folder can be opened with o.Key, or without one if nothing was encrypted yet,
// and EncryptFolder can be called again.
func EncryptFolder(o Options, progress encrypted.Progress) error {
	key := o.Key
	master, err := encrypted.Master(o.withDefaults().FS, o.Dir)
	if err != nil {
		return openFailure(err)
	}
	if master == "" {
		o.Key = nil
	}
	return withClosed(o, func(o Options) error {
		if o.keys == nil {
			if o.keys, err = beginEncryption(o, key); err != nil {
				return err
			}
		}
		if err := o.keys.Encrypt(progress); err != nil {
			return err
		}
		if o.keys.AllowsPlain() {
			return o.keys.SetPlain(false)
		}
		return nil
	})
}

// beginEncryption creates the keys of a folder that is not encrypted. Its sync marks have checksums
// of another kind, and are removed once they are verified.
func beginEncryption(o Options, key *encryption.MasterKey) (*encrypted.KeyRing, error) {
	if err := removeMarks(o); err != nil {
		return nil, err
	}
	names, err := o.FS.List(o.Dir)
	if err == nil {
		err = addFolderFormat(o.FS, o.Dir, names, encryptedFormat)
	}
	if err != nil {
		return nil, err
	}
	return encrypted.CreateKeys(o.FS, o.Dir, key, true, o.Now())
}

// DecryptFolder decrypts all files of an encrypted folder. If it is interrupted, the folder can be
// opened with o.Key, and DecryptFolder can be called again.
func DecryptFolder(o Options, progress encrypted.Progress) error {
	return withClosed(o, func(o Options) error {
		if err := o.keys.SetPlain(true); err != nil {
			return err
		}
		if err := o.keys.Decrypt(progress); err != nil {
			return err
		}
		if err := removeMarks(o); err != nil {
			return err
		}
		if err := encrypted.RemoveKeys(o.FS, o.Dir); err != nil {
			return err
		}
		// After the keys: older versions do not know them. A crash in between only keeps these
		// versions from opening the folder.
		format := o.FS.PathJoin(o.Dir, folderFormatPrefix+strconv.Itoa(encryptedFormat))
		if err := o.FS.Remove(format); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return syncDir(o.FS, o.Dir)
	})
}

// RotateKeys makes a new data key the one of new files, and replaces the master key o.Key of a
// folder by another, or by itself. It rewrites no file.
func RotateKeys(o Options, master *encryption.MasterKey) error {
	return withLock(o, func(o Options) error { return o.keys.Rotate(master, o.Now()) })
}

// RewriteFolder encrypts all files of an encrypted folder with the newest data key, and removes the
// other data keys.
func RewriteFolder(o Options, progress encrypted.Progress) error {
	return withClosed(o, func(o Options) error {
		if err := o.keys.Encrypt(progress); err != nil {
			return err
		}
		if err := removeMarks(o); err != nil {
			return err
		}
		return o.keys.Prune()
	})
}

// withClosed opens a folder and closes it, so that it has no writes that are in the WAL only, and
// calls change while it is locked.
func withClosed(o Options, change func(Options) error) error {
	e, err := Open(o)
	if err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	return withLock(o, change)
}

// withLock calls change with the keys of a folder, if it has some, while the folder is locked.
func withLock(o Options, change func(Options) error) (err error) {
	o = o.withDefaults()
	if o.FS == vfs.Default {
		if o.Dir, err = filepath.Abs(o.Dir); err != nil {
			return err
		}
		o.FS = privateFS{o.FS}
	}
	lock, err := lockDir(o.FS, o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	if o.Key != nil {
		o.keys, err = encrypted.OpenKeys(o.FS, o.Dir, o.Key)
		if errors.Is(err, fs.ErrNotExist) {
			err = &encrypted.PlainFolderError{}
		}
		if err != nil {
			return openFailure(err)
		}
	}
	return change(o)
}

// removeMarks removes the sync marks of a folder that was closed. They must agree with its files, which
// have the same content after they were rewritten: otherwise nothing would report the difference.
func removeMarks(o Options) error {
	marks := walguard.OpenMarks(o.FS, o.Dir, o.Log)
	if o.keys != nil {
		marks.Keyed = o.keys.Keyed()
	}
	err := errors.Join(marks.CheckFiles(o.encrypt(o.FS), o.Dir), marks.Close())
	if err != nil {
		return failure("compare the files with the sync marks", err)
	}
	err = o.FS.Remove(o.FS.PathJoin(o.Dir, walguard.MarksName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(o.FS, o.Dir)
}
