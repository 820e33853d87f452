package encrypted

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/stator-db/stator/internal/encryption"
)

// KeyUsage is how many files of a folder are encrypted with a data key.
type KeyUsage struct {
	Key     string    `json:"key"`              // id of the data key; empty for files that are not encrypted
	Created time.Time `json:"created,omitzero"` // zero for files that are not encrypted
	Active  bool      `json:"active"`           // whether it is the key of new files
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"` // as stored
}

// FolderState is how a folder is encrypted.
type FolderState struct {
	Master string     `json:"master"` // id of the master key; empty if the folder is not encrypted
	Mixed  bool       `json:"mixed"`  // it may have files that are not encrypted, as stator encryption enable or disable was interrupted
	Keys   []KeyUsage `json:"keys"`
}

// StateOf returns how a folder is encrypted. It needs no key, and changes nothing.
func StateOf(fs vfs.FS, dir string) (FolderState, error) {
	r, _, err := readRegistry(fs, dir)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return FolderState{}, err
	}
	s := FolderState{Master: r.Master, Mixed: r.Plain}
	for _, k := range r.Keys {
		s.Keys = append(s.Keys, KeyUsage{Key: k.ID, Created: k.Created, Active: k.ID == r.Active})
	}
	files, err := contentFiles(fs, dir)
	if err != nil {
		return FolderState{}, err
	}
	for _, f := range files {
		if f.key == headerCut {
			continue // it has no content
		}
		i := slices.IndexFunc(s.Keys, func(k KeyUsage) bool { return k.Key == f.key })
		if i < 0 {
			i, s.Keys = len(s.Keys), append(s.Keys, KeyUsage{Key: f.key})
		}
		s.Keys[i].Files++
		s.Keys[i].Bytes += f.bytes
	}
	return s, nil
}

// contentFile is a file with content of the database.
type contentFile struct {
	path  string
	key   string // id of its data key; empty if it is not encrypted, or headerCut
	bytes int64  // as stored
}

// contentFiles returns the files of a folder, and of the folders in it, that have content of the
// database. Files that are removed meanwhile are omitted.
func contentFiles(fs vfs.FS, dir string) (files []contentFile, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case info.IsDir() && name == quarantineName:
			more, err := contentFiles(fs, path)
			if err != nil {
				return nil, err
			}
			files = append(files, more...)
			continue
		case info.IsDir() || info.Size() == 0 || kindOf(name) == "":
			continue
		}
		key, err := keyOf(fs, path)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, contentFile{path, key, info.Size()})
	}
	return files, nil
}

// quarantineName is the folder for tables that the manifest does not name.
const quarantineName = "quarantine"

// headerCut is the key of a log of which a crash has left only a part of the header. It reads as empty.
const headerCut = "(part of a header)"

// keyOf returns the id of the data key in the header of a file; empty if it is not encrypted.
func keyOf(fs vfs.FS, path string) (string, error) {
	f, err := fs.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	var b [encryption.HeaderBytes]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if !encryption.HasMagic(b[:n]) {
		return "", nil
	}
	if n < len(b) && !isTable(path) {
		return headerCut, nil
	}
	h, err := encryption.ReadHeader(b[:n])
	if err != nil {
		return "", damaged(path, err.Error())
	}
	return h.KeyID, nil
}

// Progress is told how many of the bytes are rewritten.
type Progress func(done, total int64)

// rewritingName is a file that is not complete.
const rewritingName = "stator.rewriting"

// Encrypt encrypts all files of a folder with the active key, one after the other. No engine may
// have the folder open. It can be repeated after a crash.
func (k *KeyRing) Encrypt(progress Progress) error {
	return k.rewrite(k.active.ID(), progress, func(f vfs.File, name string) vfs.File { return newWriter(f, name, k.active) })
}

// Decrypt decrypts all files of a folder. SetPlain(true) must have been called.
func (k *KeyRing) Decrypt(progress Progress) error {
	return k.rewrite("", progress, func(f vfs.File, _ string) vfs.File { return f })
}

// rewrite copies the files that are not encrypted with a key, and replaces them.
func (k *KeyRing) rewrite(key string, progress Progress, writer func(vfs.File, string) vfs.File) error {
	// What an interrupted command has left may be plain.
	if err := k.fs.Remove(k.fs.PathJoin(k.dir, rewritingName)); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	files, err := contentFiles(k.fs, k.dir)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f contentFile) bool { return f.key == key })
	var done, total int64
	for _, f := range files {
		total += f.bytes
	}
	from := New(k.fs, k)
	for _, f := range files {
		if err := k.checkLog(from, f.path); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := k.rewriteFile(from, f.path, writer); err != nil {
			return err
		}
		done += f.bytes
		progress(done, total)
	}
	return nil
}

// checkLog reads a log, before any file is replaced.
func (k *KeyRing) checkLog(from *FileSystem, path string) error {
	if isTable(path) {
		return nil // it is large, and what is read of it is authenticated
	}
	in, err := from.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, onlyReader{in})
	if err == nil {
		err = k.checkRead(in, path)
	}
	return errors.Join(err, in.Close())
}

// checkRead returns an error if a part of a log, which was read to its end, cannot be decrypted. The
// copy would have other bytes there, with a valid authentication. The end of a WAL file may be what a
// crash has left, or an older one that was reused, and that of a manifest which was replaced, too.
func (k *KeyRing) checkRead(in vfs.File, path string) error {
	r, ok := in.(*logReader)
	if !ok || r.lost == 0 && r.cut == 0 {
		return nil
	}
	isWhole := kindOf(path) == "OPTIONS"
	if kindOf(path) == "MANIFEST" {
		current, err := atomicfs.ReadMarker(k.fs, k.dir, "manifest")
		if err != nil {
			return err
		}
		isWhole = k.fs.PathBase(path) == current
	}
	if r.lost == 0 && !isWhole {
		return nil
	}
	return damaged(path, fmt.Sprintf("%d bytes of it cannot be decrypted, and the file was not replaced: check the folder with stator verify, and restore it from a copy, or its tables from backups", r.lost+r.cut))
}

func (k *KeyRing) rewriteFile(from *FileSystem, path string, writer func(vfs.File, string) vfs.File) error {
	in, err := from.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	temporary := k.fs.PathJoin(k.dir, rewritingName)
	file, err := k.fs.Create(temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	out := writer(file, path)
	const bufferBytes = 1 << 20
	_, err = io.CopyBuffer(onlyWriter{out}, onlyReader{in}, make([]byte, bufferBytes))
	if err == nil {
		err = k.checkRead(in, path)
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close(), in.Close()); err == nil {
		err = k.fs.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, k.fs.Remove(temporary))
	}
	return errors.Join(syncDir(k.fs, k.fs.PathDir(path)), syncDir(k.fs, k.dir))
}

// onlyWriter and onlyReader have no other methods, which io.Copy would prefer.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// Prune removes the data keys that no file is encrypted with. The folder must not have sync marks:
// the checksums in them have another key from now on.
func (k *KeyRing) Prune() error {
	used, err := k.used()
	if err != nil {
		return err
	}
	k.registry.Marks = k.registry.Active
	k.registry.Keys = slices.DeleteFunc(k.registry.Keys, func(w wrappedData) bool { return !used[w.ID] && w.ID != k.registry.Active })
	return k.save()
}

// used returns the ids of the data keys that files are encrypted with.
func (k *KeyRing) used() (map[string]bool, error) {
	files, err := contentFiles(k.fs, k.dir)
	used := make(map[string]bool)
	for _, f := range files {
		used[f.key] = true
	}
	return used, err
}
