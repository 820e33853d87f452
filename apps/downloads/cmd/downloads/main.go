// Command downloads runs the daily download pipeline and reports its state.
package main

import (
	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/internal/command"
)

func main() { command.Main(root()) }

func root() *cobra.Command {
	c := &cobra.Command{
		Use:   "downloads",
		Short: "Downloads the files of each day into a bucket, once, and reports which are missing",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.LogFlags(c)
	c.AddCommand(demo(), serve(), poll(), download(), stand(), makeKey(),
		trigger(), requeue(), status(), files(), stuck(), counts(), audit(), recovering(), bench())
	return c
}
