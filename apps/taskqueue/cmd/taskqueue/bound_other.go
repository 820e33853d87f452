//go:build !linux

package main

import (
	"os/exec"

	"github.com/spf13/cobra"
)

// bound runs commands. On systems other than Linux they outlive this program if
// it is killed; choose a lease that is longer than any task there.
type bound struct{}

func newBound() (*bound, error) { return new(bound), nil }

func (*bound) close() {}

func (*bound) run(c *exec.Cmd) error { return c.Run() }

func guardCommand() *cobra.Command { return &cobra.Command{Use: "guard", Hidden: true} }
