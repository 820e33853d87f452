package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wheel writes a Python wheel with the binary of a platform: a zip file whose RECORD has the
// checksums of all others (PEP 427).
func (r *release) wheel(p platform) error {
	folder := filepath.Join(r.root, "packages", "python")
	var files []packed
	sources, err := filepath.Glob(filepath.Join(folder, "stator_db", "*.py"))
	if err != nil {
		return err
	}
	for _, source := range sources {
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		files = append(files, packed{name: "stator_db/" + filepath.Base(source), content: content})
	}
	binary, err := r.readBinary(p, "stator_db/bin/"+p.executable())
	if err != nil {
		return err
	}
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		return err
	}
	licence, err := r.read("LICENSE")
	if err != nil {
		return err
	}
	info := fmt.Sprintf("stator_db-%s.dist-info/", r.version)
	files = append(files, binary,
		packed{name: info + "LICENSE", content: licence[0].content},
		packed{name: info + "METADATA", content: r.metadata(readme)},
		packed{name: info + "WHEEL", content: wheelFile(p)},
		packed{name: info + "entry_points.txt", content: []byte("[console_scripts]\nstator = stator_db.__main__:main\n\n[pytest11]\nstator = stator_db.pytest_plugin\n")},
	)
	files = append(files, record(info+"RECORD", files))
	name := fmt.Sprintf("stator_db-%s-py3-none-%s.whl", r.version, p.wheel)
	return writeFile(filepath.Join(r.out, name), func(w io.Writer) error { return writeZip(w, files) })
}

func (r *release) metadata(readme []byte) []byte {
	return fmt.Appendf(nil, `Metadata-Version: 2.1
Name: stator-db
Version: %s
Summary: A DynamoDB-compatible database for tests and development: one binary, a fork for each test
Home-page: https://github.com/stator-db/stator
License: Apache-2.0
Classifier: Framework :: Pytest
Requires-Python: >=3.8
Description-Content-Type: text/markdown

%s`, r.version, readme)
}

// wheelFile is the file WHEEL; it has a line for each tag.
func wheelFile(p platform) []byte {
	text := []byte("Wheel-Version: 1.0\nGenerator: stator\nRoot-Is-Purelib: false\n")
	for tag := range strings.SplitSeq(p.wheel, ".") {
		text = fmt.Appendf(text, "Tag: py3-none-%s\n", tag)
	}
	return text
}

// record is the file RECORD of a wheel.
func record(name string, files []packed) packed {
	var b bytes.Buffer
	for _, f := range files {
		sum := sha256.Sum256(f.content)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.content))
	}
	fmt.Fprintf(&b, "%s,,\n", name)
	return packed{name: name, content: slices.Clone(b.Bytes())}
}
