// Package blob stores whole files outside of the database: in a folder, or in
// an object store given by its URL.
//
// A file appears under its name when it is complete and durable, or not at
// all. The package does not interpret its content.
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

// Place holds files by name; a slash in a name separates folders. Its methods
// may be called concurrently.
type Place interface {
	// Create begins a file. The file exists once Commit has returned.
	Create(ctx context.Context, name string) (Writer, error)

	// Open opens a file for reading. It returns ErrNotFound if there is no
	// such file.
	Open(ctx context.Context, name string) (io.ReadCloser, error)

	// Names returns the names of all files, in order, except those in
	// folders.
	Names(ctx context.Context) ([]string, error)

	// Find returns all files whose names begin with a prefix, including those
	// in folders, in order.
	Find(ctx context.Context, prefix string) ([]File, error)

	// Remove deletes a file. It is not an error if the file does not exist.
	Remove(ctx context.Context, name string) error

	// String returns the location, for people.
	String() string

	Close() error
}

// Writer writes one file, until Commit or Cancel is called.
type Writer interface {
	io.Writer
	Commit() error
	Cancel()
}

// ErrNotFound is returned when there is no file of that name.
var ErrNotFound = errors.New("no such file")

// Open opens a place: a folder by its path or a file:// URL, which is created
// with the first file; a bucket by an s3:// URL; or memory by mem://.
func Open(ctx context.Context, where string) (Place, error) {
	scheme, _, isURL := strings.Cut(where, "://")
	switch {
	case where == "":
		return nil, errors.New("no location for files is given")
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

// File describes a file that Find found.
type File struct {
	Name  string
	Bytes int64
}

// IsName reports whether a text can be the name of a file: one that stays
// inside of the place, and is not hidden there.
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

// maxName is the longest name that S3 allows.
const maxName = 1024

// checkName panics on a name that could lead out of the place. Names are made
// or checked by us, so that is a bug.
func checkName(name string) {
	if !IsName(name) {
		panic(fmt.Sprintf("blob: %q is not the name of a file", name))
	}
}
