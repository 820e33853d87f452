package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// A ceiling is an upper bound of what a server can reach: this program, started
// as a child, does one part of a server's work and nothing else.

// ceilingCommand returns the command that starts this program as a ceiling.
func ceilingCommand(args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(self, append([]string{"ceiling"}, args...)...), nil
}

// ceiling is the main function of the child process.
func ceiling(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: bench ceiling KIND ADDRESS, or bench ceiling pebble FOLDER")
	}
	if args[0] == pebbleKind.name {
		return servePebble(args[1], os.Stdin, os.Stdout)
	}
	serve, ok := responders[args[0]]
	if !ok {
		return fmt.Errorf("there is no ceiling %q", args[0])
	}
	return serveCanned(args[1], serve)
}
