package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// hostOut is the folder of host, which TestMain removes.
var hostOut string

// host builds the artefacts for this machine, once.
var host = sync.OnceValues(func() (*release, error) {
	out, err := os.MkdirTemp("", "stator-release")
	if err != nil {
		return nil, err
	}
	hostOut = out
	r := &release{version: "1.2.3", root: filepath.Join("..", ".."), out: out, jars: func() error { return nil }}
	return r, r.run("host")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if hostOut != "" {
		_ = os.RemoveAll(hostOut) // a temporary folder
	}
	os.Exit(code)
}

func built(t *testing.T) *release {
	t.Helper()
	r, err := host()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// need skips a test without a program.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skip(err)
	}
	return path
}

// in runs a program in a folder, without the proxies and packages of this machine's Python.
func in(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "STATOR_") || strings.HasPrefix(v, "PYTHON") || strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "FORCE_COLOR=")
	}), "NO_COLOR=1") // with CI set, Vitest writes colors within a line
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, text)
	}
	return string(text)
}

// one finds the artefact of a pattern.
func one(t *testing.T, r *release, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.out, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v, want one file", pattern, found, err)
	}
	return found[0]
}

// The npm packages, installed in an empty project, work with Jest and Vitest, in code and on the
// command line.
func TestNPM(t *testing.T) {
	npm := need(t, "npm")
	r := built(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "npm", "example"))); err != nil {
		t.Fatal(err)
	}
	install := []string{"install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"}
	if text, err := exec.Command(npm, "ping").CombinedOutput(); err != nil {
		t.Skipf("the registry of npm does not answer: %s", text)
	}
	in(t, dir, npm, append(install, one(t, r, "npm-stator-db-*-1.2.3.tgz"), one(t, r, "npm-stator-db-1.2.3.tgz"))...)
	text := in(t, dir, npm, "test")
	for _, want := range []string{"Tests:       2 passed", "Tests  2 passed", "stator "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The wheel, installed in an empty environment, works with pytest.
func TestWheel(t *testing.T) {
	python := "/usr/bin/python3" // Debian's, which has pytest
	if err := exec.Command(python, "-c", "import pytest, venv").Run(); err != nil {
		t.Skipf("%s has no pytest: %v", python, err)
	}
	r := built(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "python", "example"))); err != nil {
		t.Fatal(err)
	}
	in(t, dir, python, "-m", "venv", "--system-site-packages", "env")
	in(t, dir, "env/bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", one(t, r, "stator_db-1.2.3-*.whl"))
	text := in(t, dir, "env/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
	if !strings.Contains(text, " passed") {
		t.Error(text)
	}
	if text := in(t, dir, "env/bin/stator", "version"); !strings.HasPrefix(text, "stator ") {
		t.Error(text)
	}
}

// The archive has the binary, which runs, and each artefact has its checksum.
func TestArchive(t *testing.T) {
	tar := need(t, "tar")
	r := built(t)
	dir := t.TempDir()
	in(t, dir, tar, "xzf", one(t, r, "stator_1.2.3_*.tar.gz"), "--strip-components=1")
	if text := in(t, dir, "./stator", "version"); !strings.HasPrefix(text, "stator ") {
		t.Error(text)
	}
	sums, err := os.ReadFile(filepath.Join(r.out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	// An archive, two npm packages, a wheel, four files of an artifact for Maven, and another, the bill of materials.
	if n := strings.Count(string(sums), "\n"); n != 10 {
		t.Errorf("%d checksums:\n%s", n, sums)
	}
	in(t, r.out, need(t, "sha256sum"), "--check", "--quiet", "SHA256SUMS")
}

func TestUnknownPlatform(t *testing.T) {
	if err := (&release{version: "1.2.3", out: t.TempDir()}).run("plan9/amd64"); err == nil || !strings.Contains(err.Error(), "plan9/amd64") {
		t.Error(err)
	}
	if err := (&release{version: "v1", out: t.TempDir()}).run("host"); err == nil || !strings.Contains(err.Error(), "--version") {
		t.Error(err)
	}
}
