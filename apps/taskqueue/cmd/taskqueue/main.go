// Command taskqueue is a task queue on DynamoDB: the server, the commands that use
// it, and a benchmark.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stator-db/stator/apps/internal/command"
)

func main() { command.Main(root()) }

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string) int { return command.Run(ctx, root(), args) }

func root() *cobra.Command {
	c := &cobra.Command{Use: "taskqueue", Short: "A task queue on DynamoDB"}
	c.AddCommand(serveCommand(), submitCommand(), workCommand(), listCommand(), countsCommand(), historyCommand(), getCommand(), cancelCommand(), requeueCommand(), queuesCommand(), limitCommand(), workersCommand(), benchCommand(), guardCommand())
	return c
}

// logging holds the flags of the log.
type logging struct {
	level string
	json  bool
}

func (l *logging) flags(f *pflag.FlagSet) {
	f.StringVar(&l.level, "log", "info", "log level: debug, info, warn or error")
	f.BoolVar(&l.json, "log-json", false, "log as JSON, one object a line")
}

// logger returns the log, which is written to standard error.
func (l *logging) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, command.Usagef("--log is %q, but must be debug, info, warn or error", l.level)
	}
	options := &slog.HandlerOptions{Level: level}
	if l.json {
		return slog.New(slog.NewJSONHandler(os.Stderr, options)), nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options)), nil
}
