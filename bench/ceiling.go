package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// A ceiling is what a server could reach at most: this program, started once
// more, does a part of a server's work and nothing else.

// ceilingCommand starts this program as a ceiling.
func ceilingCommand(args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(self, append([]string{"ceiling"}, args...)...), nil
}

// ceiling is what the started program does.
func ceiling(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: bench ceiling DOOR ADDRESS, or bench ceiling pebble FOLDER")
	}
	if args[0] == pebbleKind.name {
		return servePebble(args[1], os.Stdin, os.Stdout)
	}
	door, ok := doors[args[0]]
	if !ok {
		return fmt.Errorf("there is no ceiling %q", args[0])
	}
	return serveCanned(args[1], door)
}
