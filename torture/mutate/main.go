// Mutate changes a program in one place at a time, and reports which changes no test of
// the package notices.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// options are the flags of the program.
type options struct {
	dir     string // of the module
	most    int
	seed    uint64
	run     string
	tests   string // packages whose tests run; "" stands for the package itself
	timeout time.Duration
	end     time.Time // after which no mutant is tried; zero is never
}

func main() {
	o := options{dir: "."}
	flag.IntVar(&o.most, "most", 20, "mutants of each package, chosen at random; 0 takes all")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the choice")
	flag.StringVar(&o.run, "run", "", "tests to run, as of go test; defaults to all")
	flag.StringVar(&o.tests, "tests", "", "folders whose tests run, separated by commas; defaults to that of the mutants")
	flag.DurationVar(&o.timeout, "timeout", 5*time.Minute, "time for the tests of one mutant; a mutant that takes longer counts as found")
	span := flag.Duration("for", 0, "time after which no mutant is tried; defaults to no limit")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: go run ./torture/mutate [flags] folder[=folders of tests] ...")
		os.Exit(2)
	}
	if *span > 0 {
		o.end = time.Now().Add(*span)
	}
	var all tally
	for _, folder := range flag.Args() {
		o := o
		if own, tests, ok := strings.Cut(folder, "="); ok {
			folder, o.tests = own, tests
		}
		t, err := o.mutate(folder, os.Stdout)
		if err != nil {
			fmt.Fprintln(os.Stderr, "mutate:", err)
			os.Exit(1)
		}
		all.add(t)
	}
	fmt.Println("all:", all)
}

// tally counts mutants by what became of them.
type tally struct{ found, survived, invalid int }

func (t *tally) add(other tally) {
	t.found, t.survived, t.invalid = t.found+other.found, t.survived+other.survived, t.invalid+other.invalid
}

func (t tally) String() string {
	return fmt.Sprintf("%d of %d mutants found (%d %%), %d did not compile", t.found, t.found+t.survived, 100*t.found/max(1, t.found+t.survived), t.invalid)
}

// mutate tests the mutants of the package in a folder, and prints the survivors.
func (o options) mutate(folder string, out io.Writer) (tally, error) {
	var t tally
	if o.over() {
		return t, nil
	}
	all, err := mutantsOf(filepath.Join(o.dir, folder))
	if err != nil {
		return t, err
	}
	if text, err := o.test(folder, nil); err != nil {
		return t, fmt.Errorf("the tests of %s fail without a mutant: %w\n%s", folder, err, text)
	} else if !strings.Contains(text, "ok ") {
		return t, fmt.Errorf("%s has no tests of its own: name those that use it with --tests", folder)
	}
	rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if o.most > 0 {
		all = all[:min(o.most, len(all))]
	}
	for _, m := range all {
		if o.over() {
			break
		}
		text, err := o.test(folder, &m)
		switch {
		case err == nil:
			t.survived++
			fmt.Fprintln(out, "survived:", m)
		case strings.Contains(text, "[build failed]"):
			t.invalid++
		default:
			t.found++
		}
	}
	fmt.Fprintf(out, "%s: %s\n", folder, t)
	return t, nil
}

func (o options) over() bool { return !o.end.IsZero() && time.Now().After(o.end) }

// test runs the tests of a folder with a mutant, or without one if it is nil. It returns
// an error if a test fails.
func (o options) test(folder string, m *mutant) (output string, err error) {
	args := []string{"test", "-count=1", "-vet=off", "-failfast", "-timeout", o.timeout.String()}
	if o.run != "" {
		args = append(args, "-run", o.run)
	}
	if m != nil {
		dir, err := os.MkdirTemp("", "mutate")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a folder of the system for temporary files
		overlay, err := m.overlay(dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	// go test ends the tests itself; more time is for the compiler.
	ctx, cancel := context.WithTimeout(context.Background(), 2*o.timeout)
	defer cancel()
	for tests := range strings.SplitSeq(cmp.Or(o.tests, folder), ",") {
		args = append(args, "./"+filepath.ToSlash(tests))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = o.dir
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// overlay writes the mutated file, and the file that go test -overlay reads.
func (m *mutant) overlay(dir string) (string, error) {
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, "mutated.go")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	path := filepath.Join(dir, "overlay.json")
	return path, errors.Join(err, os.WriteFile(mutated, m.apply(), 0o600), os.WriteFile(path, text, 0o600))
}
