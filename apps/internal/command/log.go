package command

import (
	"log/slog"

	"github.com/spf13/cobra"
)

// LogFlags adds the flags of the log to all commands of an application, and checks them
// before a command runs.
func LogFlags(root *cobra.Command) {
	root.PersistentFlags().String("log", "info", "log level: debug, info, warn or error")
	root.PersistentFlags().Bool("log-json", false, "log as JSON, one object a line")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		text, err := cmd.Flags().GetString("log")
		if err != nil {
			return err
		}
		if err := new(slog.Level).UnmarshalText([]byte(text)); err != nil {
			return Usagef("--log is %q, but must be debug, info, warn or error", text)
		}
		return nil
	}
}

// Logger returns the log that the flags of LogFlags describe. It writes to the command's
// standard error.
func Logger(cmd *cobra.Command) *slog.Logger {
	var level slog.Level
	text, _ := cmd.Flags().GetString("log")
	_ = level.UnmarshalText([]byte(text)) // it was checked
	options := &slog.HandlerOptions{Level: level}
	if asJSON, _ := cmd.Flags().GetBool("log-json"); asJSON {
		options.ReplaceAttr = durations
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), options))
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), options))
}

// durations writes durations as the API does, such as "1m30s", instead of in nanoseconds.
func durations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
