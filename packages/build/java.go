package main

import (
	"bytes"
	"crypto/md5"  //nolint:gosec // Maven Central asks for it, besides SHA-1 and a signature
	"crypto/sha1" //nolint:gosec // the same
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The artifacts for Java are in a folder with the layout of a Maven repository. The binary of each
// platform is an artifact of its own, so that a project gets those of the platforms that it names;
// stator-binary depends on the one of the machine on which Maven runs.

// javaGroup is the group of the artifacts.
const javaGroup = "io.github.stator-db"

// debianRepository is the Maven repository that Debian's packages install.
const debianRepository = "/usr/share/maven-repo"

// debianVersions are what Debian's repository has in place of the versions in pom.xml.
var debianVersions = []string{"-Dsurefire.version=2.22.3", "-Djunit.version=5.9.2", "-Djunit.platform.version=1.9.1"}

// mavenFile is the path of a file of an artifact.
func (r *release) mavenFile(artifact, suffix string) string {
	return filepath.Join(r.out, "maven", filepath.FromSlash(strings.ReplaceAll(javaGroup, ".", "/")), artifact, r.version, artifact+"-"+r.version+suffix)
}

// javaPlatform writes the artifact with the binary of a platform, where StatorBinary of
// stator-junit5 finds it, with its checksum, by which the unpacked binary is named.
func (r *release) javaPlatform(p platform) error {
	name := p.os + "-" + p.arch
	artifact := "stator-binary-" + name
	files, err := r.read("LICENSE")
	if err != nil {
		return err
	}
	binary, err := r.readBinary(p, p.executable())
	if err != nil {
		return err
	}
	folder := "META-INF/stator/" + name + "/"
	sum := fmt.Sprintf("%x", sha256.Sum256(binary.content))
	manifest := packed{name: "META-INF/MANIFEST.MF", content: []byte("Manifest-Version: 1.0\r\nCreated-By: stator\r\n\r\n")}
	licence := packed{name: "META-INF/LICENSE", content: files[0].content}
	jars := map[string][]packed{
		".jar": {
			manifest, licence,
			{name: folder + p.executable() + ".sha256", content: []byte(sum)},
			{name: folder + p.executable(), content: binary.content, executable: true},
		},
		// Maven Central requires both of each artifact.
		"-sources.jar": {manifest, licence, {name: "README", content: []byte("The sources are at https://github.com/stator-db/stator\n")}},
		"-javadoc.jar": {manifest, licence, {name: "README", content: []byte("This artifact has a binary, and no classes.\n")}},
	}
	for suffix, content := range jars {
		if err := writeFile(r.mavenFile(artifact, suffix), func(w io.Writer) error { return writeZip(w, content) }); err != nil {
			return err
		}
	}
	return r.writePOM(artifact, "jar", "stator for "+name, "The binary of stator for "+name, "")
}

// writePOM writes the description of an artifact.
func (r *release) writePOM(artifact, packaging, name, description, more string) error {
	text := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://maven.apache.org/POM/4.0.0 https://maven.apache.org/xsd/maven-4.0.0.xsd">
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>%s</groupId>
    <artifactId>stator-parent</artifactId>
    <version>%s</version>
  </parent>
  <artifactId>%s</artifactId>
  <packaging>%s</packaging>
  <name>%s</name>
  <description>%s</description>
  <url>https://github.com/stator-db/stator</url>
%s</project>
`, javaGroup, r.version, artifact, packaging, name, description, more)
	return writeFile(r.mavenFile(artifact, ".pom"), func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// javaSystems are the names of operating systems and processors in Java's system properties, by
// which Maven activates profiles.
var javaSystems = map[string]string{
	"linux": "<name>linux</name>", "darwin": "<family>mac</family>", "windows": "<family>windows</family>",
	"amd64": "<arch>amd64</arch>", "arm64": "<arch>aarch64</arch>", "darwin/amd64": "<arch>x86_64</arch>",
}

// javaBinary writes stator-binary, which depends on the binary of the platform on which Maven runs.
func (r *release) javaBinary() error {
	var profiles strings.Builder
	for _, p := range r.chosen {
		arch := javaSystems[p.arch]
		if other := javaSystems[p.String()]; other != "" {
			arch = other
		}
		name := p.os + "-" + p.arch
		fmt.Fprintf(&profiles, `    <profile>
      <id>%s</id>
      <activation><os>%s%s</os></activation>
      <dependencies>
        <dependency><groupId>%s</groupId><artifactId>stator-binary-%s</artifactId><version>%s</version></dependency>
      </dependencies>
    </profile>
`, name, javaSystems[p.os], arch, javaGroup, name, r.version)
	}
	return r.writePOM("stator-binary", "pom", "stator for this platform", "Depends on the binary of stator for the platform on which Maven runs",
		"  <profiles>\n"+profiles.String()+"  </profiles>\n")
}

// javaModules are built from sources.
var javaModules = []string{"stator-junit5", "stator-testcontainers"}

// missingMaven returns why there are no jars built from sources; nil if Maven can build them.
func missingMaven() error {
	for _, program := range []string{"mvn", "javac"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	return nil
}

// debianMaven reports whether Maven can work without a network, with what Debian's packages install.
func debianMaven() bool {
	for _, name := range []string{"org/junit/jupiter/junit-jupiter-api/5.9.2", "org/apache/maven/plugins/maven-surefire-plugin/2.22.3", "org/apache/maven/plugins/maven-javadoc-plugin/3.4.1", "org/apache/maven/plugins/maven-source-plugin/3.2.1"} {
		if _, err := os.Stat(filepath.Join(debianRepository, name)); err != nil {
			return false
		}
	}
	return true
}

// javaJars builds the modules without their tests.
func (r *release) javaJars() error {
	return r.javaSources(os.Stderr, "-Dmaven.test.skip=true", "package")
}

// javaSources writes the parent of the artifacts and those that are built from sources, by Maven.
func (r *release) javaSources(output io.Writer, goals ...string) error {
	folder, err := r.javaTree()
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) // a temporary one
	parent, err := os.ReadFile(filepath.Join(folder, "packages", "java", "pom.xml"))
	if err != nil {
		return err
	}
	if err := writeFile(r.mavenFile("stator-parent", ".pom"), func(w io.Writer) error { _, err := w.Write(parent); return err }); err != nil {
		return err
	}
	if err := missingMaven(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s are not built\n", err, strings.Join(javaModules, " and "))
		return nil
	}
	modules, args := javaModules, goals
	if debianMaven() {
		modules = slices.DeleteFunc(slices.Clone(modules), func(m string) bool { return m == "stator-testcontainers" })
		fmt.Fprintln(output, "stator-testcontainers is not built: Debian has no Testcontainers")
		args = append([]string{"-pl", strings.Join(modules, ","), "-am"}, args...)
	}
	run := mavenRun{dir: filepath.Join(folder, "packages", "java"), output: output, env: []string{"STATOR_BINARY=" + r.hostBinary()}}
	if err := run.maven(args...); err != nil {
		return fmt.Errorf("build %s with Maven: %w", strings.Join(modules, " and "), err)
	}
	for _, m := range modules {
		source := filepath.Join(folder, "packages", "java", m)
		for _, suffix := range []string{".jar", "-sources.jar", "-javadoc.jar"} {
			if err := copyFile(r.mavenFile(m, suffix), filepath.Join(source, "target", m+"-"+r.version+suffix)); err != nil {
				return err
			}
		}
		if err := copyFile(r.mavenFile(m, ".pom"), filepath.Join(source, "pom.xml")); err != nil {
			return err
		}
	}
	return nil
}

// javaTree copies packages/java to a temporary folder, with the version of the release.
func (r *release) javaTree() (string, error) {
	folder, err := os.MkdirTemp("", "stator-java")
	if err != nil {
		return "", err
	}
	source, copied := filepath.Join(r.root, "packages", "java"), filepath.Join(folder, "packages", "java")
	err = filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "target" {
				return filepath.SkipDir
			}
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		if d.Name() == "pom.xml" {
			content = bytes.ReplaceAll(content, []byte(">0.0.0<"), []byte(">"+r.version+"<"))
		}
		return writeFile(filepath.Join(copied, name), func(w io.Writer) error { _, err := w.Write(content); return err })
	})
	return folder, errors.Join(err, copyFile(filepath.Join(folder, "LICENSE"), filepath.Join(r.root, "LICENSE")))
}

// mavenRun is how Maven is run.
type mavenRun struct {
	dir          string
	output       io.Writer
	env          []string
	repositories []string // folders, besides Debian's
}

// maven runs Maven: with Debian's repository and those of m if Debian has what it needs, else with
// what the machine is configured for.
func (m *mavenRun) maven(args ...string) error {
	args = append([]string{"--batch-mode", "--quiet", "-DadditionalJOption=-J-XX:TieredStopAtLevel=1"}, args...)
	if debianMaven() {
		local, err := os.MkdirTemp("", "stator-m2")
		if err != nil {
			return err
		}
		defer os.RemoveAll(local) // a temporary folder
		settings := filepath.Join(local, "settings.xml")
		if err := os.WriteFile(settings, m.settings(local), 0o600); err != nil {
			return err
		}
		args = append(append([]string{"--settings", settings}, debianVersions...), args...)
	}
	cmd := exec.Command("mvn", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, m.output, m.output
	// A short run does not pay for the optimizing compiler.
	cmd.Env = append(os.Environ(), append(m.env, "MAVEN_OPTS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")...)
	return cmd.Run()
}

// settings is a file of settings with which Maven needs no network.
func (m *mavenRun) settings(local string) []byte {
	var repositories strings.Builder
	except := ""
	for i, folder := range m.repositories {
		fmt.Fprintf(&repositories, "<repository><id>local%d</id><url>file://%s</url></repository>", i, filepath.ToSlash(folder))
		except += fmt.Sprintf(",!local%d", i)
	}
	return fmt.Appendf(nil, `<settings>
  <localRepository>%s</localRepository>
  <mirrors><mirror><id>debian</id><mirrorOf>*%s</mirrorOf><url>file://%s</url></mirror></mirrors>
  <profiles><profile><id>local</id><repositories>%s</repositories></profile></profiles>
  <activeProfiles><activeProfile>local</activeProfile></activeProfiles>
</settings>
`, filepath.Join(local, "repository"), except, debianRepository, repositories.String())
}

func copyFile(to, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(to, func(w io.Writer) error { _, err := w.Write(content); return err })
}

// mavenChecksums writes the checksums that Maven compares beside each file of the artifacts.
func (r *release) mavenChecksums() error {
	return filepath.WalkDir(filepath.Join(r.out, "maven"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return errors.Join(
			os.WriteFile(path+".md5", fmt.Appendf(nil, "%x", md5.Sum(content)), 0o644),   //nolint:gosec // see the imports
			os.WriteFile(path+".sha1", fmt.Appendf(nil, "%x", sha1.Sum(content)), 0o644)) //nolint:gosec // see the imports
	})
}
