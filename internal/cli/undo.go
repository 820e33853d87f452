package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/past"
)

// undoFlags are the flags of stator undo.
type undoFlags struct {
	pastFlags
	from, to, change string
	key              []string
	confirm          bool
}

func undoCommand() *cobra.Command {
	var f undoFlags
	cmd := &cobra.Command{
		Use:   "undo TABLE",
		Short: "Undo a change, or the changes of a window of time",
		Long: `Undo the changes from a second to another, of all items or of one, or with --change one
change of an item (stator history prints their numbers). The command prints what would be
written. With --confirm it prints and writes it: an item is written only if it still is as
the last of the changes has left it. Items that were changed again later are conflicts,
and stay as they are.

Up to 100 items are one transaction. With more, each 100 are: if the command is
interrupted, run it again, and it continues with what is not undone yet.
` + timeFormats + `

  stator undo Orders --from 2026-11-18T14:03:07Z --to 2026-11-18T14:05:00Z --endpoint http://127.0.0.1:8000`,
		Args: arguments(1, "a table"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.from, "from", "", "`TIME` of the first second")
	cmd.Flags().StringVar(&f.to, "to", "", "`TIME` of the last second")
	cmd.Flags().StringArrayVar(&f.key, "key", nil, "attribute of the key of one item, as name=value; may be repeated")
	cmd.Flags().StringVar(&f.change, "change", "", "number of the change of the item to undo")
	cmd.Flags().BoolVar(&f.confirm, "confirm", false, "write, after the plan is printed")
	return cmd
}

func (f *undoFlags) run(ctx context.Context, table string, stdout, stderr io.Writer) error {
	now := time.Now()
	from, err := parseTime("--from", f.from, now)
	if err != nil {
		return err
	}
	to, err := parseTime("--to", f.to, now)
	if err != nil {
		return err
	}
	if (f.change == "") == (f.from == "" || f.to == "") || f.change != "" && len(f.key) == 0 {
		return usageError{fmt.Errorf("stator undo needs --from and --to, or --change and --key")}
	}
	server, err := f.open()
	if err != nil {
		return err
	}
	body := map[string]any{"TableName": table}
	if f.change != "" {
		body["SequenceNumber"] = f.change
	} else {
		body["From"], body["To"] = from.Unix(), to.Unix()
	}
	if len(f.key) > 0 {
		described, err := describeTable(ctx, server, table)
		if err != nil {
			return err
		}
		if body["Key"], err = parseKey(described, f.key); err != nil {
			return err
		}
	}
	total, err := f.pages(ctx, server, body, stdout, stderr)
	if err != nil || f.json {
		return err
	}
	done := "would be undone; nothing was written: add --confirm to do it"
	if f.confirm {
		done = "undone"
	}
	_, err = fmt.Fprintf(stdout, "%d items in %d transactions %s; %d conflicts stay as they are; %d are as they were already\n",
		total.writes, total.transactions, done, total.conflicts, total.already)
	return err
}

// undoTotal is the sum of all plans.
type undoTotal struct{ writes, transactions, conflicts, already int }

// pages prints the plans one by one, and executes each if that is confirmed.
func (f *undoFlags) pages(ctx context.Context, server *apply.Endpoint, body map[string]any, stdout, stderr io.Writer) (total undoTotal, err error) {
	for {
		delete(body, "Confirm")
		plan, err := f.send(ctx, server, body, stdout, stderr)
		if err != nil {
			return total, fmt.Errorf("cannot plan the undo on %s: %w", f.endpoint, err)
		}
		if !f.json {
			if err := printUndo(stdout, plan); err != nil {
				return total, err
			}
		}
		if f.confirm && len(plan.Writes) > 0 {
			body["Confirm"] = plan.PlanId
			if _, err := f.send(ctx, server, body, stdout, stderr); err != nil {
				return total, fmt.Errorf("%d items were undone; cannot undo the next %d on %s: %w\n        run the command again to continue", total.writes, len(plan.Writes), f.endpoint, err)
			}
		}
		if len(plan.Writes) > 0 {
			total.transactions++
		}
		total.writes, total.conflicts, total.already = total.writes+len(plan.Writes), total.conflicts+len(plan.Conflicts), total.already+plan.AlreadyUndone
		if plan.LastEvaluatedKey == nil {
			return total, nil
		}
		body["ExclusiveStartKey"] = plan.LastEvaluatedKey
	}
}

func (f *undoFlags) send(ctx context.Context, server *apply.Endpoint, body map[string]any, stdout, stderr io.Writer) (*past.UndoPlan, error) {
	text, err := sendPast(ctx, server, "UndoChanges", body, stderr)
	if err != nil {
		return nil, err
	}
	if f.json {
		if _, err := fmt.Fprintln(stdout, string(text)); err != nil {
			return nil, err
		}
	}
	plan := new(past.UndoPlan)
	if err := json.Unmarshal(text, plan); err != nil {
		return nil, fmt.Errorf("read the reply of %s: %w", f.endpoint, err)
	}
	return plan, nil
}

// printUndo prints the writes of a plan, with what they change.
func printUndo(w io.Writer, p *past.UndoPlan) error {
	for _, write := range p.Writes {
		key, err := json.Marshal(write.Key)
		if err != nil {
			return err
		}
		note := ""
		if write.Expired {
			note = "  (its time to live is over: it will be deleted again)"
		}
		fmt.Fprintf(w, "%s  %s%s\n", write.Action, key, note)
		if err := printChange(w, write.CurrentItem, write.Item); err != nil {
			return err
		}
	}
	for _, c := range p.Conflicts {
		key, err := json.Marshal(c.Key)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "Conflict  %s  was changed again:\n", key)
		if err := printChange(w, c.NewImage, c.CurrentItem); err != nil {
			return err
		}
	}
	return nil
}
