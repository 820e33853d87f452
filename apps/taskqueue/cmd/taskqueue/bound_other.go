//go:build !linux

package main

import (
	"os/exec"

	"github.com/spf13/cobra"
)

// bound runs commands. Elsewhere than on Linux they outlive this program if that
// is killed; then choose a lease that is longer than any task.
type bound struct{}

func newBound() (*bound, error) { return new(bound), nil }

func (*bound) close() {}

func (*bound) run(c *exec.Cmd) error { return c.Run() }

func guardCommand() *cobra.Command { return &cobra.Command{Use: "guard", Hidden: true} }
