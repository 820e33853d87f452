package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/taskqueue/client"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// changing holds the flags of requeue and cancel.
type changing struct {
	asking
	selecting
	what   task.Change
	past   string // "requeued"
	reason string
	all    bool
	dry    bool
}

func requeueCommand() *cobra.Command {
	x := &changing{what: task.RequeueTasks, past: "requeued"}
	return x.command("requeue [TASK...]", "Restart failed or dead tasks: some by their ids, or all that match the flags", "DEAD", "DEAD or FAILED")
}

func cancelCommand() *cobra.Command {
	x := &changing{what: task.CancelTasks, past: "cancelled"}
	c := x.command("cancel [TASK...]", "Cancel tasks: some by their ids, or all that match the flags", "PENDING", "PENDING, DELAYED or PROCESSING")
	c.Flags().StringVar(&x.reason, "reason", "", "reason of the cancellation")
	return c
}

func (x *changing) command(use, short, status, statuses string) *cobra.Command {
	c := x.asking.command(use, short, nil, nil)
	selects := []string{"status", "queue", "type", "reason-contains", "older-than", "all"}
	c.RunE = func(c *cobra.Command, args []string) error {
		narrowed := false
		for _, name := range selects {
			narrowed = narrowed || c.Flags().Changed(name)
		}
		switch {
		case len(args) > 0 && (narrowed || x.dry):
			return command.Usagef("name tasks, or select them with flags, but not both")
		case len(args) == 0 && !narrowed:
			return command.Usagef("name tasks, or select them with --queue, --type, --reason-contains, --older-than, --status or --all")
		}
		return x.run(func(ctx context.Context, server *client.Client, out io.Writer, args []string) error {
			if len(args) > 0 {
				return x.named(ctx, server, out, args)
			}
			return x.selected(ctx, server, out)
		})(c, args)
	}
	x.selecting.flags(c.Flags(), status, statuses)
	c.Flags().StringVar(&x.Queue, "queue", "", "only tasks of this queue")
	c.Flags().BoolVar(&x.all, "all", false, "all tasks with the status")
	c.Flags().BoolVar(&x.dry, "dry-run", false, "change nothing, and list the tasks that match")
	return c
}

// named changes tasks by their ids.
func (x *changing) named(ctx context.Context, server *client.Client, out io.Writer, ids []string) error {
	var changed []task.Task
	var failed []error
	for _, id := range ids {
		now, err := x.one(ctx, server, id)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		changed = append(changed, now)
	}
	if len(changed) > 0 {
		var v any = changed
		if len(ids) == 1 {
			v = changed[0]
		}
		if err := x.tasks(out, v, changed...); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

func (x *changing) one(ctx context.Context, server *client.Client, id string) (task.Task, error) {
	if x.what == task.RequeueTasks {
		return server.Requeue(ctx, id)
	}
	return server.Cancel(ctx, id, x.reason)
}

// selected changes all tasks of the selection, and reports the progress.
func (x *changing) selected(ctx context.Context, server *client.Client, out io.Writer) error {
	in := task.BulkRequest{Selection: x.selection(), DryRun: x.dry, Note: x.reason}
	total := task.BulkReply{Tasks: []task.Task{}}
	for {
		reply, err := server.Bulk(ctx, x.what, in)
		if err != nil {
			if total.Changed > 0 {
				fmt.Fprintf(os.Stderr, "%d tasks were %s before the error\n", total.Changed, x.past)
			}
			return err
		}
		total.Matched += reply.Matched
		total.Changed += reply.Changed
		total.Skipped += reply.Skipped
		if x.dry {
			total.Tasks = append(total.Tasks, reply.Tasks...)
		}
		if in.Next = reply.Next; in.Next == "" {
			break
		}
		fmt.Fprintf(os.Stderr, "%d matched, %d %s; continuing\n", total.Matched, total.Changed, x.past)
	}
	if x.dry && !x.json {
		if err := x.tasks(out, nil, total.Tasks...); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d tasks match; nothing is changed\n", total.Matched)
		return nil
	}
	return x.print(out, total, "MATCHED CHANGED SKIPPED", func(row func(...any)) { row(total.Matched, total.Changed, total.Skipped) })
}
