// Command downloads runs the daily download pipeline and reports its state.
package main

import (
	"log/slog"
	"os"

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
	c.PersistentFlags().Bool("verbose", false, "log every file")
	c.PersistentFlags().Bool("log-json", false, "log as JSON")
	c.AddCommand(demo(), serve(), poll(), download(), stand(), makeKey(),
		trigger(), requeue(), status(), files(), stuck(), counts(), audit(), recovering(), bench())
	return c
}

func logger(cmd *cobra.Command) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if v, _ := cmd.Flags().GetBool("verbose"); v {
		options.Level = slog.LevelDebug
	}
	if v, _ := cmd.Flags().GetBool("log-json"); v {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}
