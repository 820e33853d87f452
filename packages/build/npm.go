package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// An npm package is a tar file with everything below package/, as npm pack makes it.

// npmPlatform writes @stator-db/PLATFORM, which has the binary. npm installs it only where
// os and cpu fit.
func (r *release) npmPlatform(p platform) error {
	system, cpu, _ := strings.Cut(p.npm, "-")
	manifest, err := json.MarshalIndent(map[string]any{
		"name": "@stator-db/" + p.npm, "version": r.version, "license": "Apache-2.0",
		"description": "The binary of stator-db for " + p.npm, "repository": "github:stator-db/stator",
		"os": []string{system}, "cpu": []string{cpu}, "files": []string{p.executable()},
	}, "", "  ")
	if err != nil {
		return err
	}
	files, err := r.read("LICENSE")
	if err != nil {
		return err
	}
	binary, err := r.readBinary(p, p.executable())
	if err != nil {
		return err
	}
	files = append(files, packed{name: "package.json", content: append(manifest, '\n')}, binary)
	return r.writeNPM("stator-db-"+p.npm, files)
}

// npmMain writes stator-db, which depends on the packages of all platforms of the release.
func (r *release) npmMain() error {
	folder := filepath.Join(r.root, "packages", "npm", "stator-db")
	files, err := r.read("LICENSE")
	if err != nil {
		return err
	}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if name == "package.json" {
			if content, err = r.npmManifest(content); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		name = filepath.ToSlash(name)
		files = append(files, packed{name: name, content: content, executable: strings.HasPrefix(name, "bin/")})
		return nil
	})
	if err != nil {
		return err
	}
	return r.writeNPM("stator-db", files)
}

// npmManifest puts the version and the dependencies into a package.json.
func (r *release) npmManifest(text []byte) ([]byte, error) {
	var manifest map[string]any
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, err
	}
	binaries := make(map[string]string)
	for _, p := range r.chosen {
		binaries["@stator-db/"+p.npm] = r.version
	}
	manifest["version"], manifest["optionalDependencies"] = r.version, binaries
	changed, err := json.MarshalIndent(manifest, "", "  ")
	return append(changed, '\n'), err
}

func (r *release) writeNPM(name string, files []packed) error {
	path := filepath.Join(r.out, fmt.Sprintf("npm-%s-%s.tgz", name, r.version))
	return writeFile(path, func(w io.Writer) error { return writeTar(w, "package/", files) })
}
