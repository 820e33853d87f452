package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	c := &cobra.Command{Use: use, Short: short, Args: args, RunE: a.run(do)}
	c.Flags().StringVar(&a.server, "server", "http://127.0.0.1:8070", "URL of the task queue")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

// run returns the function of a command that calls do with a client.
func (a *asking) run(do func(ctx context.Context, c *client.Client, out io.Writer, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if !strings.HasPrefix(a.server, "http://") && !strings.HasPrefix(a.server, "https://") {
			return command.Usagef("--server is %q, but must be a URL such as http://127.0.0.1:8070", a.server)
		}
		server := client.New(a.server)
		server.Patience = 2 * time.Second
		return do(c.Context(), server, c.OutOrStdout(), args)
	}
}

// shorten cuts a text for a table.
func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
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
	return a.print(out, v, "TASK QUEUE TYPE STATUS PRIORITY ATTEMPTS WORKER CREATED REASON", func(row func(...any)) {
		for _, t := range tasks {
			row(t.ID, t.Queue, t.Type, t.Status, t.Priority, fmt.Sprintf("%d/%d", t.Attempts, t.MaxAttempts), t.Worker, task.Format(t.Created), shorten(t.Reason, 100))
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
	return a.command("get TASK", "Show a task with its payload, its result and the reason of its last failure", command.Args(1, "the id of a task"), func(ctx context.Context, server *client.Client, out io.Writer, args []string) error {
		t, err := server.Get(ctx, args[0])
		if err != nil {
			return err
		}
		if a.json {
			return a.print(out, t, "", nil)
		}
		return facts(out, t)
	})
}

// facts prints a task, one property a line.
func facts(out io.Writer, t task.Task) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range []struct {
		name  string
		value any
	}{
		{"task", t.ID}, {"queue", t.Queue}, {"type", t.Type}, {"status", t.Status}, {"priority", t.Priority},
		{"attempts", fmt.Sprintf("%d of %d", t.Attempts, t.MaxAttempts)}, {"worker", t.Worker}, {"key", t.Key},
		{"created", task.Format(t.Created)}, {"changed", task.Format(t.Updated)}, {"not before", task.Format(t.RunAt)},
		{"payload", string(t.Payload)}, {"result", t.Result}, {"reason", t.Reason},
	} {
		if s := fmt.Sprint(f.value); s != "" {
			fmt.Fprintf(w, "%s\t%s\n", f.name, strings.ReplaceAll(s, "\n", "\n\t"))
		}
	}
	return w.Flush()
}

// selecting holds the flags that select tasks.
type selecting struct {
	task.Selection
	status string
	older  time.Duration
}

func (s *selecting) flags(f *pflag.FlagSet, status, statuses string) {
	f.StringVar(&s.status, "status", status, statuses)
	f.StringVar(&s.Type, "type", "", "only tasks of this type")
	f.StringVar(&s.Reason, "reason-contains", "", "only tasks whose reason contains this text")
	f.DurationVar(&s.older, "older-than", 0, "only tasks that have not changed for this time")
}

func (s *selecting) selection() task.Selection {
	sel := s.Selection
	sel.Status, sel.OlderThan = task.Status(strings.ToUpper(s.status)), task.Duration(s.older)
	return sel
}

func listCommand() *cobra.Command {
	a := new(asking)
	var s selecting
	var next string
	var limit int
	c := a.command("list [QUEUE]", "List the tasks of a queue, or of all queues, with a status, newest first", func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return command.Usagef("taskqueue list takes a queue or nothing, but has %d arguments", len(args))
		}
		return nil
	}, func(ctx context.Context, server *client.Client, out io.Writer, args []string) error {
		if len(args) == 1 {
			s.Queue = args[0]
		}
		page, err := server.List(ctx, s.selection(), next, limit)
		if err != nil {
			return err
		}
		if err := a.tasks(out, page, page.Tasks...); err != nil {
			return err
		}
		if page.Next != "" && !a.json {
			fmt.Fprintf(os.Stderr, "more tasks follow: add --next '%s'\n", page.Next)
		}
		return nil
	})
	s.flags(c.Flags(), "PENDING", "PENDING, DELAYED, PROCESSING, COMPLETED, FAILED, DEAD or CANCELLED")
	c.Flags().IntVar(&limit, "limit", 50, "tasks per page")
	c.Flags().StringVar(&next, "next", "", "where the previous page ended")
	return c
}

func countsCommand() *cobra.Command {
	a := new(asking)
	var most int
	c := a.command("counts [QUEUE]", "Count the tasks by status", func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return command.Usagef("taskqueue counts takes a queue or nothing, but has %d arguments", len(args))
		}
		return nil
	}, func(ctx context.Context, server *client.Client, out io.Writer, args []string) error {
		counts, err := server.Counts(ctx, strings.Join(args, ""), most)
		if err != nil {
			return err
		}
		head := "QUEUE"
		for _, s := range task.Statuses {
			head += " " + string(s)
		}
		return a.print(out, counts, head, func(row func(...any)) {
			total := task.QueueCounts{Queue: "total", Tasks: counts.Total, More: counts.More}
			for _, q := range append(counts.Queues, total) {
				cells := []any{q.Queue}
				for _, s := range task.Statuses {
					n := strconv.Itoa(q.Tasks[s])
					if slices.Contains(q.More, s) {
						n += "+"
					}
					cells = append(cells, n)
				}
				row(cells...)
			}
		})
	})
	c.Flags().IntVar(&most, "max", 10_000, "count at most this many tasks of a status in each queue; more are shown as +")
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
	c := a.command("limit QUEUE", "Set a queue's limits; limits without a flag stay as they are", command.Args(1, "a queue"), nil)
	c.RunE = a.run(func(ctx context.Context, server *client.Client, _ io.Writer, args []string) error {
		now, err := queueOrNew(ctx, server, args[0])
		if err != nil {
			return err
		}
		if c.Flags().Changed("max-pending") {
			now.MaxPending = q.MaxPending
		}
		if c.Flags().Changed("max-running") {
			now.MaxRunning = q.MaxRunning
		}
		if c.Flags().Changed("paused") {
			now.Paused = q.Paused
		}
		return server.SetQueue(ctx, now)
	})
	c.Flags().IntVar(&q.MaxPending, "max-pending", 100_000, "maximum of waiting tasks")
	c.Flags().IntVar(&q.MaxRunning, "max-running", 0, "maximum of running tasks; 0 means no limit")
	c.Flags().BoolVar(&q.Paused, "paused", false, "do not hand out tasks; --paused=false resumes")
	return c
}

// queueOrNew returns a queue, or one with default limits if it does not exist.
func queueOrNew(ctx context.Context, server *client.Client, name string) (task.Queue, error) {
	view, err := server.Queue(ctx, name)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return task.Queue{Name: name, MaxPending: 100_000}, nil
	}
	return view.Queue, err
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
