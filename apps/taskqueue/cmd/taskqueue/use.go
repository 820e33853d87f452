package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/taskqueue/client"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// asking holds the flags of all commands that send requests to a server.
type asking struct {
	server string
	json   bool
}

func (a *asking) command(use, short string, args cobra.PositionalArgs, do func(ctx context.Context, c *client.Client, out io.Writer, args []string) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(c *cobra.Command, args []string) error {
		if !strings.HasPrefix(a.server, "http://") && !strings.HasPrefix(a.server, "https://") {
			return command.Usagef("--server is %q, but must be a URL such as http://127.0.0.1:8070", a.server)
		}
		server := client.New(a.server)
		server.Patience = 2 * time.Second
		return do(c.Context(), server, c.OutOrStdout(), args)
	}}
	c.Flags().StringVar(&a.server, "server", "http://127.0.0.1:8070", "URL of the task queue")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

// print prints a value as JSON, or as the rows of a table.
func (a *asking) print(out io.Writer, v any, head string, rows func(row func(cells ...any))) error {
	if a.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(head, " ", "\t"))
	rows(func(cells ...any) {
		texts := make([]string, len(cells))
		for i, c := range cells {
			if texts[i] = strings.ReplaceAll(fmt.Sprint(c), "\n", " "); texts[i] == "" {
				texts[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(texts, "\t"))
	})
	return t.Flush()
}

func (a *asking) tasks(out io.Writer, v any, tasks ...task.Task) error {
	return a.print(out, v, "TASK QUEUE TYPE STATUS PRIORITY ATTEMPTS WORKER CREATED", func(row func(...any)) {
		for _, t := range tasks {
			row(t.ID, t.Queue, t.Type, t.Status, t.Priority, t.Attempts, t.Worker, task.Format(t.Created))
		}
	})
}

func submitCommand() *cobra.Command {
	a := new(asking)
	var s task.Submission
	var priority int
	var delay, backoff time.Duration
	var at string
	c := a.command("submit QUEUE TYPE [PAYLOAD]", "Submit a task; the payload is JSON, or - to read it from standard input", func(_ *cobra.Command, args []string) error {
		if len(args) != 2 && len(args) != 3 {
			return command.Usagef("taskqueue submit takes a queue, a type and optionally a payload, but has %d arguments", len(args))
		}
		return nil
	}, func(ctx context.Context, server *client.Client, out io.Writer, args []string) error {
		s.Type, s.Priority, s.Delay, s.Backoff = args[1], &priority, task.Duration(delay), task.Duration(backoff)
		if len(args) == 3 {
			s.Payload = []byte(args[2])
			if args[2] == "-" {
				text, err := io.ReadAll(io.LimitReader(os.Stdin, task.MaxPayload+1024))
				if err != nil {
					return fmt.Errorf("read the payload: %w", err)
				}
				s.Payload = text
			}
			if !json.Valid(s.Payload) {
				return command.Usagef(`the payload is not JSON; text is JSON in quotes: '"text"'`)
			}
		}
		if at != "" {
			var err error
			if s.RunAt, err = time.Parse(time.RFC3339, at); err != nil {
				return command.Usagef("--run-at is %q, but must be a time such as 2026-12-24T18:00:00Z", at)
			}
		}
		t, err := server.Submit(ctx, args[0], s)
		if err != nil {
			return err
		}
		return a.tasks(out, t, t)
	})
	f := c.Flags()
	f.StringVar(&s.Key, "key", "", "idempotency key: the same key gives the same task")
	f.IntVar(&priority, "priority", 5, "0 to 9; 9 is the most urgent")
	f.DurationVar(&delay, "delay", 0, "delay before the task may run")
	f.StringVar(&at, "run-at", "", "time at which the task may run, such as 2026-12-24T18:00:00Z")
	f.IntVar(&s.MaxAttempts, "max-attempts", 0, "attempts before the task becomes dead (default 5)")
	f.DurationVar(&backoff, "backoff", 0, "delay before the first retry; it doubles with each retry (default 1s)")
	return c
}

func getCommand() *cobra.Command {
	a := new(asking)
	return a.command("get TASK", "Show a task", command.Args(1, "the id of a task"), func(ctx context.Context, server *client.Client, out io.Writer, args []string) error {
		t, err := server.Get(ctx, args[0])
		if err != nil {
			return err
		}
		return a.tasks(out, t, t)
	})
}

func listCommand() *cobra.Command {
	a := new(asking)
	var status, next string
	var limit int
	c := a.command("list QUEUE", "List the tasks of a queue with a status, newest first", command.Args(1, "a queue"), func(ctx context.Context, server *client.Client, out io.Writer, args []string) error {
		page, err := server.List(ctx, args[0], task.Status(strings.ToUpper(status)), next, limit)
		if err != nil {
			return err
		}
		if err := a.tasks(out, page, page.Tasks...); err != nil {
			return err
		}
		if page.Next != "" && !a.json {
			fmt.Fprintf(os.Stderr, "more tasks follow: add --next %s\n", page.Next)
		}
		return nil
	})
	c.Flags().StringVar(&status, "status", "PENDING", "PENDING, DELAYED, PROCESSING, COMPLETED, FAILED, DEAD or CANCELLED")
	c.Flags().IntVar(&limit, "limit", 50, "tasks per page")
	c.Flags().StringVar(&next, "next", "", "where the previous page ended")
	return c
}

func historyCommand() *cobra.Command {
	a := new(asking)
	return a.command("history TASK", "Show the events of a task", command.Args(1, "the id of a task"), func(ctx context.Context, server *client.Client, out io.Writer, args []string) error {
		events, err := server.History(ctx, args[0])
		if err != nil {
			return err
		}
		return a.print(out, events, "EVENT AT TYPE WORKER DETAIL", func(row func(...any)) {
			for _, e := range events {
				row(e.Seq, task.Format(e.At), e.Type, e.Worker, e.Reason+e.Result)
			}
		})
	})
}

func cancelCommand() *cobra.Command {
	a := new(asking)
	var reason string
	c := a.command("cancel TASK", "Cancel a task", command.Args(1, "the id of a task"), func(ctx context.Context, server *client.Client, out io.Writer, args []string) error {
		t, err := server.Cancel(ctx, args[0], reason)
		if err != nil {
			return err
		}
		return a.tasks(out, t, t)
	})
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}

func requeueCommand() *cobra.Command {
	a := new(asking)
	return a.command("requeue TASK", "Restart a failed or dead task", command.Args(1, "the id of a task"), func(ctx context.Context, server *client.Client, out io.Writer, args []string) error {
		t, err := server.Requeue(ctx, args[0])
		if err != nil {
			return err
		}
		return a.tasks(out, t, t)
	})
}

func queuesCommand() *cobra.Command {
	a := new(asking)
	return a.command("queues", "List the queues and their limits", command.NoArgs, func(ctx context.Context, server *client.Client, out io.Writer, _ []string) error {
		queues, err := server.Queues(ctx)
		if err != nil {
			return err
		}
		return a.print(out, queues, "QUEUE PENDING DELAYED PROCESSING MAX-PENDING MAX-RUNNING PAUSED", func(row func(...any)) {
			for _, q := range queues {
				row(q.Name, q.Pending, q.Delayed, q.Running, q.MaxPending, q.MaxRunning, q.Paused)
			}
		})
	})
}

func limitCommand() *cobra.Command {
	a := new(asking)
	var q task.Queue
	c := a.command("limit QUEUE", "Set a queue's limits", command.Args(1, "a queue"), func(ctx context.Context, server *client.Client, _ io.Writer, args []string) error {
		q.Name = args[0]
		return server.SetQueue(ctx, q)
	})
	c.Flags().IntVar(&q.MaxPending, "max-pending", 100_000, "maximum of waiting tasks")
	c.Flags().IntVar(&q.MaxRunning, "max-running", 0, "maximum of running tasks; 0 means no limit")
	c.Flags().BoolVar(&q.Paused, "paused", false, "do not hand out tasks")
	return c
}

func workersCommand() *cobra.Command {
	a := new(asking)
	return a.command("workers", "List the workers and their tasks", command.NoArgs, func(ctx context.Context, server *client.Client, out io.Writer, _ []string) error {
		workers, err := server.Workers(ctx)
		if err != nil {
			return err
		}
		return a.print(out, workers, "WORKER SEEN TASKS", func(row func(...any)) {
			for _, w := range workers {
				row(w.ID, task.Format(w.Seen), len(w.Tasks))
			}
		})
	})
}
