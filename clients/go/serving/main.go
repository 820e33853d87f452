// Command serving builds stator, serves it in memory on a free port of this machine,
// and runs a command with that endpoint, and the binary as STATOR, in its environment.
//
//	go run ./serving --in ../node node --test
//	go run ./serving --throttle --in ../node node --test throttle
//	go run ./serving --throttle --clock --in ../python/clock python3 -m unittest
//	go run ./serving --keys --in ../node node --test keys
//	go run ./serving --dax --in ../dax node --test test
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	in := flag.String("in", ".", "folder to run the command in")
	throttle := flag.Bool("throttle", false, "start stator with --throttle")
	keys := flag.Bool("keys", false, "start stator with --keys, and give the command the key; otherwise any credentials are accepted")
	clock := flag.Bool("clock", false, "start stator with --test-clock, so that the command can set the clock")
	dax := flag.Bool("dax", false, "serve clients of DAX too, and give the command the address as DAX_ENDPOINT")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "serving: the command is missing")
		os.Exit(2)
	}
	if err := serving(*in, *throttle, *clock, *keys, *dax, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "serving: %v\n", err)
		os.Exit(1)
	}
}

func serving(in string, throttle, clock, keys, dax bool, command []string) (err error) {
	folder, err := os.MkdirTemp("", "stator-clients-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	binary := filepath.Join(folder, "stator")
	build := exec.Command("go", "build", "-o", binary, "./cmd/stator")
	build.Dir, build.Stderr = "../..", os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build stator: %w", err)
	}
	args := []string{fmt.Sprintf("--throttle=%t", throttle)}
	if clock {
		args = append(args, "--test-clock")
	}
	key := newKey{AccessKey: "any", Secret: "any"}
	if keys {
		file := filepath.Join(folder, "keys.yaml")
		if key, err = makeKey(binary, file); err != nil {
			return err
		}
		args = append(args, "--keys", file)
	}
	if dax {
		args = append(args, "--dax", "127.0.0.1:0", "--dax-mode", "off") // as over HTTP, so that replies can be compared
	}
	endpoint, accelerated, stop, err := start(binary, args, dax)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = in, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+endpoint,
		"AWS_ACCESS_KEY_ID="+key.AccessKey, "AWS_SECRET_ACCESS_KEY="+key.Secret, "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1", "STATOR="+binary)
	if dax {
		cmd.Env = append(cmd.Env, "DAX_ENDPOINT="+accelerated)
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return nil
}

// newKey is what stator key new prints.
type newKey struct{ AccessKey, Secret string }

// makeKey makes a file of keys with one key.
func makeKey(binary, file string) (key newKey, err error) {
	cmd := exec.Command(binary, "key", "new", "--json", "--keys", file)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return key, fmt.Errorf("make a key: %w", err)
	}
	return key, json.Unmarshal(output, &key)
}

// start starts stator and waits until it prints its address, and that for clients of DAX.
// stop stops it.
func start(binary string, args []string, dax bool) (endpoint, accelerated string, stop func() error, err error) {
	server := exec.Command(binary, append([]string{"serve", "--in-memory", "--addr", "127.0.0.1:0", "--log", "warn"}, args...)...)
	stderr, err := server.StderrPipe()
	if err != nil {
		return "", "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", "", nil, fmt.Errorf("start stator: %w", err)
	}
	output := bufio.NewReader(stderr)
	line, err := output.ReadString('\n')
	if strings.Contains(line, "level=WARN") { // that clients can set the clock
		fmt.Fprint(os.Stderr, line)
		line, err = output.ReadString('\n')
	}
	endpoint, found := strings.CutPrefix(strings.TrimSpace(line), "stator listens on ")
	if err != nil || !found {
		return "", "", nil, errors.Join(fmt.Errorf("stator printed %q", line), server.Process.Kill(), server.Wait())
	}
	for dax && accelerated == "" {
		if line, err = output.ReadString('\n'); err != nil {
			return "", "", nil, errors.Join(errors.New("stator printed no address for DAX"), server.Process.Kill(), server.Wait())
		}
		if text, ok := strings.CutPrefix(line, "DAX clients connect to "); ok {
			accelerated, _, _ = strings.Cut(text, ",")
		}
	}
	passed := make(chan error, 1)
	go func() {
		_, err := io.Copy(os.Stderr, output)
		passed <- err
	}()
	return endpoint, accelerated, func() error {
		if err := server.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		return errors.Join(<-passed, server.Wait())
	}, nil
}
