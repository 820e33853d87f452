// Command serving builds stator, serves it in memory on a free port of this machine,
// and runs a command with that endpoint in its environment.
//
//	go run ./serving --in ../node node --test
//	go run ./serving --throttle --in ../node node --test throttle
package main

import (
	"bufio"
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
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "serving: the command is missing")
		os.Exit(2)
	}
	if err := serving(*in, *throttle, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "serving: %v\n", err)
		os.Exit(1)
	}
}

func serving(in string, throttle bool, command []string) (err error) {
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
	endpoint, stop, err := start(binary, throttle)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = in, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+endpoint,
		"AWS_ACCESS_KEY_ID=any", "AWS_SECRET_ACCESS_KEY=any", "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return nil
}

// start starts stator and waits until it prints its address. stop stops it.
func start(binary string, throttle bool) (endpoint string, stop func() error, err error) {
	server := exec.Command(binary, "serve", "--in-memory", "--addr", "127.0.0.1:0", "--log", "warn", fmt.Sprintf("--throttle=%t", throttle))
	stderr, err := server.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", nil, fmt.Errorf("start stator: %w", err)
	}
	output := bufio.NewReader(stderr)
	line, err := output.ReadString('\n')
	endpoint, found := strings.CutPrefix(strings.TrimSpace(line), "stator listens on ")
	if err != nil || !found {
		return "", nil, errors.Join(fmt.Errorf("stator printed %q", line), server.Process.Kill(), server.Wait())
	}
	passed := make(chan error, 1)
	go func() {
		_, err := io.Copy(os.Stderr, output)
		passed <- err
	}()
	return endpoint, func() error {
		if err := server.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		return errors.Join(<-passed, server.Wait())
	}, nil
}
