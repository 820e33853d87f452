// Package encrypted is a file system that encrypts Pebble's files.
//
// DESIGN.md in this folder explains why it has this shape.
package encrypted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/encryption"
)

// FileSystem encrypts the files that are created on it. The header of a file is in the file, so
// that names can be changed and linked by the file system below.
//
// An empty file remains empty: Pebble's markers and locks are names without content.
type FileSystem struct {
	vfs.FS
	keys *KeyRing
}

// New returns a file system that encrypts what is written to another.
func New(below vfs.FS, keys *KeyRing) *FileSystem { return &FileSystem{below, keys} }

// Unwrap returns the file system below, for which Pebble asks.
func (f *FileSystem) Unwrap() vfs.FS { return f.FS }

// isTable reports whether a file is read at random offsets.
func isTable(name string) bool {
	kind := kindOf(name)
	return kind == "sst" || kind == "blob"
}

// kindOf returns which kind of file with content of the database has a name: "MANIFEST", "OPTIONS",
// "log", "sst" or "blob"; empty for other files. In the quarantine a number may follow the kind.
func kindOf(name string) string {
	name = filepath.Base(name)
	for _, kind := range []string{"MANIFEST", "OPTIONS"} {
		if strings.HasPrefix(name, kind+"-") {
			return kind
		}
	}
	number, kind, _ := strings.Cut(name, ".")
	kind, _, _ = strings.Cut(kind, ".")
	if number == "" || strings.Trim(number, "0123456789") != "" || !slices.Contains([]string{"sst", "log", "blob"}, kind) {
		return ""
	}
	return kind
}

// Create creates a file.
func (f *FileSystem) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	return newWriter(file, name, f.keys.active), nil
}

func newWriter(file vfs.File, name string, k *encryption.DataKey) vfs.File {
	if isTable(name) {
		return newTableWriter(file, k)
	}
	return newLogWriter(file, k)
}

// ReuseForWrite turns an obsolete log into a new one, which has a key of its own. A sync of a file
// whose size does not change is faster. What is left of the old content has the old key, and cannot
// be decrypted; if a crash keeps the old header, all of it is old, and Pebble recognises that.
func (f *FileSystem) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if isTable(name) {
		return nil, fmt.Errorf("reuse %s: %w", before, vfs.ErrUnsupported)
	}
	file, err := f.FS.ReuseForWrite(before, name, category)
	if err != nil {
		return nil, err
	}
	return newLogWriter(file, f.keys.active), nil
}

// OpenReadWrite is not supported: a file is written once.
func (f *FileSystem) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, fmt.Errorf("open %s to change it: %w", name, vfs.ErrUnsupported)
}

// Open opens a file for reading.
func (f *FileSystem) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	opened, err := f.reader(file, name)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return opened, nil
}

// reader returns the reader of a file. That of an empty file is the file itself.
func (f *FileSystem) reader(file vfs.File, name string) (vfs.File, error) {
	var buf [encryption.HeaderBytes]byte
	n, err := file.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	header := buf[:n]
	switch {
	case n == 0:
		return file, nil
	case !encryption.HasMagic(header) && f.keys.plain:
		return file, nil
	case !isTable(name) && n < len(buf):
		// A crash has left it without its beginning, of which nothing was synced: otherwise the
		// sync marks say so.
		return emptyFile{file}, nil
	case !isTable(name) && isZero(header):
		// The same, unless something follows: then its beginning was lost.
		switch empty, err := isZeroFile(file); {
		case err != nil:
			return nil, err
		case empty:
			return emptyFile{file}, nil
		}
		return nil, damaged(name, "its header is lost, and with it what follows")
	case !encryption.HasMagic(header):
		return nil, damaged(name, "it is not encrypted, or its header is damaged")
	}
	h, err := encryption.ReadHeader(header)
	if err != nil {
		return nil, damaged(name, err.Error())
	}
	key, ok := f.keys.byID[h.KeyID]
	if !ok {
		return nil, damaged(name, fmt.Sprintf("it is encrypted with the data key %s, which %s does not have", h.KeyID, RegistryName))
	}
	c, err := key.Open(header)
	if err != nil {
		return nil, damaged(name, err.Error())
	}
	if h.Layout == encryption.Log {
		return newLogReader(file, name, c)
	}
	return newTableReader(file, name, c, h.Layout)
}

// Stat describes a file. Its size is that of the content.
func (f *FileSystem) Stat(name string) (vfs.FileInfo, error) {
	info, err := f.FS.Stat(name)
	if err != nil || info.IsDir() || info.Size() == 0 {
		return info, err
	}
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	info, err = file.Stat()
	return info, errors.Join(err, file.Close())
}

// damaged returns the error of a file that is not what was written.
func damaged(name, why string) error {
	return fmt.Errorf("%s: %s: %w", name, why, pebble.ErrCorruption)
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// emptyFile is a file whose content was never synced.
type emptyFile struct{ vfs.File }

// Read returns io.EOF.
func (emptyFile) Read([]byte) (int, error) { return 0, io.EOF }

// ReadAt returns io.EOF.
func (emptyFile) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// Stat describes the file. Its size is zero.
func (f emptyFile) Stat() (vfs.FileInfo, error) { return statOf(f.File, 0) }

// isZeroFile reports whether a file has nothing but zeros.
func isZeroFile(file vfs.File) (bool, error) {
	buf := make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := file.ReadAt(buf, at)
		if !isZero(buf[:n]) {
			return false, nil
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		at += int64(n)
	}
}

// contentInfo describes a file by the size of its content.
type contentInfo struct {
	vfs.FileInfo
	size int64
}

// Size returns the size of the content.
func (i contentInfo) Size() int64 { return i.size }

func statOf(file vfs.File, size int64) (vfs.FileInfo, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return contentInfo{info, size}, nil
}
