package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A number of arguments that a command does not take is wrong usage, for which the exit code is 2.
func TestArgumentsOfCommands(t *testing.T) {
	commands := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			check(c)
		}
		if !cmd.Runnable() || cmd.Name() == "help" {
			return
		}
		commands++
		if cmd.Args == nil {
			t.Errorf("%s takes any arguments", cmd.CommandPath())
			return
		}
		for n := range 20 {
			if err := cmd.Args(cmd, strings.Split(strings.Repeat("x ", n), " ")[:n]); err != nil && !errors.As(err, new(usageError)) {
				t.Errorf("%s with %d arguments: %v, which is no error of usage", cmd.CommandPath(), n, err)
				break
			}
		}
	}
	check(rootCommand())
	if commands < 50 {
		t.Errorf("only %d commands were found", commands)
	}
}
