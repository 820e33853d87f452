// Command taskqueue is a task queue on DynamoDB: the server, the commands that use
// it, and a benchmark.
package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/internal/command"
)

func main() { command.Main(root()) }

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string) int { return command.Run(ctx, root(), args) }

func root() *cobra.Command {
	c := &cobra.Command{Use: "taskqueue", Short: "A task queue on DynamoDB"}
	command.LogFlags(c)
	c.AddCommand(serveCommand(), submitCommand(), workCommand(), listCommand(), countsCommand(), historyCommand(), getCommand(), cancelCommand(), requeueCommand(), queuesCommand(), limitCommand(), workersCommand(), benchCommand(), guardCommand())
	return c
}
