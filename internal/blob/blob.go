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

// openers open the places of schemes of URLs that other packages have registered.
var openers = make(map[string]Opener)

// Opener opens a place given by a URL.
type Opener func(context.Context, *url.URL) (Place, error)

// Register sets how URLs of a scheme are opened. Packages call it when they are
// initialized.
func Register(scheme string, open Opener) { openers[scheme] = open }

// Open opens a place: a folder by its path or a file:// URL, which is created
// with the first file; memory by mem://; or a bucket by an s3:// URL, if package
// blob/s3 is part of the program.
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
	case where == "mem://":
		return newMemory(), nil
	case openers[scheme] != nil:
		u, err := url.Parse(where)
		if err != nil {
			return nil, fmt.Errorf("%s is not a URL", withoutQuery(where))
		}
		place, err := openers[scheme](ctx, u)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", withoutQuery(where), err)
		}
		return place, nil
	case scheme == "s3":
		return nil, fmt.Errorf("%s cannot be opened: import github.com/stator-db/stator/s3 for it", withoutQuery(where))
	}
	return nil, fmt.Errorf("files cannot be kept at %s: only folders, file://, s3:// and mem:// are known", withoutQuery(where))
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

// withoutQuery removes the query of a URL, which configures access.
func withoutQuery(where string) string {
	where, _, _ = strings.Cut(where, "?")
	return where
}

// CheckName panics on a name that could lead out of the place. Names are made
// or checked by us, so that is a bug.
func CheckName(name string) {
	if !IsName(name) {
		panic(fmt.Sprintf("blob: %q is not the name of a file", name))
	}
}
