// Package blob is a place for whole files outside of the database: a folder,
// or an object store by its URL.
//
// A file appears under its name when it is complete and safe, or not at all.
// What is in it is the caller's.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Place holds files by name; a slash in a name stands behind that of a folder.
// Its methods may be called at once from many goroutines.
type Place interface {
	// Create begins a file. It is there when Commit has returned.
	Create(ctx context.Context, name string) (Writer, error)

	// Open reads a file; ErrNotFound if there is none.
	Open(ctx context.Context, name string) (io.ReadCloser, error)

	// Names are those of all files, in order, but not of those in folders.
	Names(ctx context.Context) ([]string, error)

	// Find is all files whose names begin with a prefix, also those in
	// folders, in order.
	Find(ctx context.Context, prefix string) ([]File, error)

	// Remove takes a file away. It is no error if there is none.
	Remove(ctx context.Context, name string) error

	// String tells people where it is.
	String() string

	Close() error
}

// Writer writes one file. Either Commit or Cancel ends it.
type Writer interface {
	io.Writer
	Commit() error
	Cancel()
}

// ErrNotFound tells that there is no file of that name.
var ErrNotFound = errors.New("no such file")

// Open opens a place: a folder by its path or a file:// URL, which is made when
// the first file is, a bucket by an s3:// URL, or with mem:// memory.
func Open(ctx context.Context, where string) (Place, error) {
	scheme, _, isURL := strings.Cut(where, "://")
	switch {
	case where == "":
		return nil, errors.New("no place for files is named")
	case !isURL:
		return newFolder(where), nil
	case scheme == "file":
		u, err := url.Parse(where)
		if err != nil || u.Host != "" || u.Path == "" {
			return nil, fmt.Errorf("%s is not a URL of a folder, such as file:///var/backups", where)
		}
		return newFolder(u.Path), nil
	case scheme == "s3" || scheme == "mem":
		return openBucket(ctx, where)
	}
	return nil, fmt.Errorf("files cannot be kept at %s: only folders, file://, s3:// and mem:// are known", where)
}

// File is what Find tells of a file.
type File struct {
	Name  string
	Bytes int64
}

// IsName tells whether a text can be the name of a file: one that stays inside
// of the place, and is not hidden there.
func IsName(name string) bool {
	if len(name) > maxName || !utf8.ValidString(name) || strings.ContainsAny(name, "\\\x00") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") {
			return false
		}
	}
	return true
}

// maxName is how long a name may be, as in S3.
const maxName = 1024

// checkName refuses what could lead out of the place. Names are made by us, or
// looked at before, so anything else is a mistake of ours.
func checkName(name string) {
	if !IsName(name) {
		panic(fmt.Sprintf("blob: %q is not the name of a file", name))
	}
}
