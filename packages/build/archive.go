package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// packed is a file of an archive.
type packed struct {
	name       string
	content    []byte
	executable bool
}

// epoch is the time of all files, so that the same sources make the same bytes.
var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func (f *packed) mode() int64 {
	if f.executable {
		return 0o755
	}
	return 0o644
}

// read reads files of the repository.
func (r *release) read(names ...string) (files []packed, err error) {
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, packed{name: filepath.Base(name), content: content})
	}
	return files, nil
}

// readBinary reads the binary of a platform.
func (r *release) readBinary(p platform, name string) (packed, error) {
	content, err := os.ReadFile(r.binary(p))
	return packed{name: name, content: content, executable: true}, err
}

// archive writes the archive for people: the binary with its licence and README.
func (r *release) archive(p platform) error {
	files, err := r.read("LICENSE", "README.md", "CHANGELOG.md", "packages/deploy/stator.service")
	if err != nil {
		return err
	}
	binary, err := r.readBinary(p, p.executable())
	if err != nil {
		return err
	}
	files = append(files, binary)
	name := fmt.Sprintf("stator_%s_%s_%s", r.version, p.os, p.arch)
	if p.os == "windows" {
		return writeFile(filepath.Join(r.out, name+".zip"), func(w io.Writer) error { return writeZip(w, files) })
	}
	return writeFile(filepath.Join(r.out, name+".tar.gz"), func(w io.Writer) error { return writeTar(w, name+"/", files) })
}

// writeFile creates a file.
func writeFile(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func writeTar(w io.Writer, folder string, files []packed) error {
	compressed := gzip.NewWriter(w)
	out := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{Name: folder + f.name, Mode: f.mode(), Size: int64(len(f.content)), ModTime: epoch, Format: tar.FormatPAX}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := out.Write(f.content); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), compressed.Close())
}

func writeZip(w io.Writer, files []packed) error {
	out := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(os.FileMode(f.mode()))
		part, err := out.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := part.Write(f.content); err != nil {
			return err
		}
	}
	return out.Close()
}

// checksums writes the SHA-256 of all artefacts.
func (r *release) checksums() error {
	var lines []string
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "binaries": // they are in the artefacts
			return filepath.SkipDir
		case d.IsDir() || slices.Contains([]string{".md5", ".sha1"}, filepath.Ext(path)):
			return nil
		}
		name, err := filepath.Rel(r.out, path)
		if err != nil {
			return err
		}
		sum, err := sumOf(path)
		lines = append(lines, sum+"  "+filepath.ToSlash(name)+"\n")
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}

func sumOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
