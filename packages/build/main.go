// Command build makes the artefacts of a release: archives, npm packages, Python wheels, artifacts
// for Maven, a software bill of materials and checksums.
//
//	go run . --version 1.2.3 --out ../../bin/release
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// platform is an operating system and a processor, by the names of Go, npm and Python.
type platform struct {
	os, arch string
	npm      string // of the package @stator-db/…
	wheel    string // tags of the platform
}

// The binaries are static, so that those for Linux run with glibc and with musl.
var platforms = []platform{
	{"linux", "amd64", "linux-x64", "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"},
	{"linux", "arm64", "linux-arm64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"},
	{"darwin", "amd64", "darwin-x64", "macosx_12_0_x86_64"},
	{"darwin", "arm64", "darwin-arm64", "macosx_12_0_arm64"},
	{"windows", "amd64", "win32-x64", "win_amd64"},
	{"windows", "arm64", "win32-arm64", "win_arm64"},
}

func (p platform) String() string { return p.os + "/" + p.arch }

// executable is the name of the binary.
func (p platform) executable() string {
	if p.os == "windows" {
		return "stator.exe"
	}
	return "stator"
}

// release is what is built.
type release struct {
	version string
	root    string // of the repository
	out     string
	chosen  []platform
	jars    func() error // builds the modules for Java
}

// semantic is the form of versions that npm and PyPI have in common.
var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

func main() {
	var r release
	r.jars = r.javaJars
	var names string
	flag.StringVar(&r.version, "version", "0.0.0", "version of the release")
	flag.StringVar(&r.root, "root", "../..", "the repository")
	flag.StringVar(&r.out, "out", "../../bin/release", "folder to write; it is replaced")
	flag.StringVar(&names, "platforms", "all", "platforms, such as linux/amd64,darwin/arm64; all, or host for this machine's")
	flag.Parse()
	if err := r.run(names); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func (r *release) run(names string) error {
	if !semantic.MatchString(r.version) {
		return fmt.Errorf("--version is %q, but must be of the form 1.2.3", r.version)
	}
	if err := r.choose(names); err != nil {
		return err
	}
	for _, path := range []*string{&r.root, &r.out} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	for _, p := range r.chosen {
		fmt.Fprintln(os.Stderr, "building", p)
		if err := r.compile(p); err != nil {
			return fmt.Errorf("compile for %s: %w", p, err)
		}
		for _, pack := range []func(platform) error{r.archive, r.npmPlatform, r.wheel, r.javaPlatform} {
			if err := pack(p); err != nil {
				return fmt.Errorf("pack for %s: %w", p, err)
			}
		}
	}
	for _, step := range []func() error{r.npmMain, r.javaBinary, r.jars, r.mavenChecksums, r.sbom, r.checksums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// choose finds the platforms by their names.
func (r *release) choose(names string) error {
	switch names {
	case "all":
		r.chosen = platforms
		return nil
	case "host":
		names = runtime.GOOS + "/" + runtime.GOARCH
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(platforms, func(p platform) bool { return p.String() == name })
		if i < 0 {
			return fmt.Errorf("--platforms has %q, but there are %v", name, platforms)
		}
		r.chosen = append(r.chosen, platforms[i])
	}
	return nil
}

// binary is the path of the binary of a platform.
func (r *release) binary(p platform) string {
	return filepath.Join(r.out, "binaries", p.os+"-"+p.arch, p.executable())
}

// hostBinary is the path of the binary of this machine.
func (r *release) hostBinary() string {
	i := slices.IndexFunc(platforms, func(p platform) bool { return p.os == runtime.GOOS && p.arch == runtime.GOARCH })
	if i < 0 {
		return ""
	}
	return r.binary(platforms[i])
}

func (r *release) compile(p platform) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", r.binary(p), "./cmd/stator")
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// sbom writes the software bill of materials, which the binary of this machine prints.
func (r *release) sbom() error {
	for _, p := range r.chosen {
		if p.os != runtime.GOOS || p.arch != runtime.GOARCH {
			continue
		}
		text, err := exec.Command(r.binary(p), "version", "--sbom").Output()
		if err != nil {
			return fmt.Errorf("print the software bill of materials: %w", err)
		}
		return os.WriteFile(filepath.Join(r.out, "stator_"+r.version+".cdx.json"), text, 0o644)
	}
	return nil
}
