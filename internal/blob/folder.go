package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// folder is a Place in a folder of this machine. A file is written under a
// hidden name, synced, and renamed; gocloud's driver for folders does not
// sync.
type folder struct {
	dir  string
	free func(dir string) (free, total uint64, ok bool)
}

func newFolder(dir string) *folder { return &folder{dir, freeBytes} }

const (
	reserveBytes = 128 << 20
	// uncheckedBytes may be written between two checks of the free space.
	uncheckedBytes = 8 << 20
)

// checkSpace returns an error if the disk is almost full. The database may be on
// the same disk, and rejects writes when less than half of this reserve is left.
func (f *folder) checkSpace() error {
	free, total, ok := f.free(f.dir)
	if reserve := min(reserveBytes, total/10); ok && free < reserve+uncheckedBytes {
		return fmt.Errorf("the disk of %s has %d MB left, and files are written only while it has %d MB: %w", f.dir, free>>20, (reserve+uncheckedBytes)>>20, syscall.ENOSPC)
	}
	return nil
}

func (f *folder) String() string { return f.dir }

func (f *folder) Close() error { return nil }

// root opens the folder, so that no name leads out of it.
func (f *folder) root() (*os.Root, error) { return os.OpenRoot(f.dir) }

func (f *folder) Create(_ context.Context, name string) (Writer, error) {
	CheckName(name)
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, err
	}
	if err := f.checkSpace(); err != nil {
		return nil, err
	}
	root, err := f.root()
	if err != nil {
		return nil, err
	}
	if folder := path.Dir(name); folder != "." {
		if err := root.MkdirAll(folder, 0o700); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}
	part := hidden(name)
	file, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	_ = lockFile(file) // a file system without locks has none that removeAbandoned could take
	return &fileWriter{folder: f, root: root, file: file, part: part, name: name}, nil
}

const (
	endPart = ".part"
	// stale is the age from which an incomplete file that no process has locked is
	// considered left over by a crash.
	stale = 24 * time.Hour
)

// hidden returns the name of an incomplete file. Each writer has its own:
// several servers may share a folder.
func hidden(name string) string {
	folder, file := path.Split(name)
	return fmt.Sprintf("%s.%s.%016x%s", folder, file, rand.Uint64(), endPart)
}

func (f *folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	CheckName(name)
	root, err := f.root()
	if err != nil {
		return nil, notFound(err, name)
	}
	defer root.Close()
	file, err := root.Open(name)
	if err != nil {
		return nil, notFound(err, name)
	}
	return file, nil
}

func notFound(err error, name string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return err
}

func (f *folder) Names(context.Context) ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		switch hidden := strings.HasPrefix(e.Name(), "."); {
		case !e.Type().IsRegular():
		case !hidden:
			names = append(names, e.Name())
		case strings.HasSuffix(e.Name(), endPart):
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > stale {
				removeAbandoned(filepath.Join(f.dir, e.Name()))
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// removeAbandoned removes an incomplete file unless its writer, of this process or of
// another, has it locked. Its age is not enough: after a step of the wall clock, a file
// that is being written can look old. If removal fails, the next call of Names tries
// again.
func removeAbandoned(part string) {
	file, err := os.OpenFile(part, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer file.Close() //nolint:errcheck // nothing was written to it
	if lockFile(file) == nil {
		_ = os.Remove(part)
	}
}

func (f *folder) Find(ctx context.Context, prefix string) ([]File, error) {
	root, err := f.root()
	if err != nil {
		return nil, ignoreAbsent(err)
	}
	defer root.Close()
	var found []File
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case name == ".":
			return nil
		case e.IsDir():
			// Only folders on the path to the prefix, or below it.
			if strings.HasPrefix(e.Name(), ".") || !strings.HasPrefix(name+"/", prefix) && !strings.HasPrefix(prefix, name+"/") {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular() || !IsName(name) || !strings.HasPrefix(name, prefix):
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		found = append(found, File{name, info.Size()})
		return nil
	})
	slices.SortFunc(found, byName)
	return found, err
}

func byName(a, b File) int { return strings.Compare(a.Name, b.Name) }

func (f *folder) Remove(_ context.Context, name string) error {
	CheckName(name)
	root, err := f.root()
	if err != nil {
		return ignoreAbsent(err)
	}
	defer root.Close()
	if err := root.Remove(name); err != nil {
		return ignoreAbsent(err)
	}
	return syncFolder(root, path.Dir(name))
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fileWriter writes a file that is not complete yet.
type fileWriter struct {
	folder    *folder
	unchecked int // bytes written since the last check of the free space
	root      *os.Root
	file      *os.File
	part      string // its name until it is complete
	name      string
}

func (w *fileWriter) Write(b []byte) (int, error) {
	if w.unchecked += len(b); w.unchecked > uncheckedBytes {
		w.unchecked = 0
		if err := w.folder.checkSpace(); err != nil {
			return 0, err
		}
	}
	return w.file.Write(b)
}

func (w *fileWriter) Commit() error {
	err := w.file.Sync()
	err = errors.Join(err, w.file.Close())
	if err == nil {
		err = w.root.Rename(w.part, w.name)
	}
	if err == nil {
		err = syncFolders(w.root, w.name)
	} else {
		_ = w.root.Remove(w.part) // a leftover does no harm
	}
	return errors.Join(err, w.root.Close())
}

func (w *fileWriter) Cancel() {
	_ = w.file.Close()
	_ = w.root.Remove(w.part)
	_ = w.root.Close()
}

// syncFolders makes the name of a new file durable, and those of its folders.
func syncFolders(root *os.Root, name string) error {
	for name != "." {
		name = path.Dir(name)
		if err := syncFolder(root, name); err != nil {
			return err
		}
	}
	return nil
}

// syncFolder makes added and removed names in a folder durable.
func syncFolder(root *os.Root, name string) error {
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
