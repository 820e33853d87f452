package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

type applyFlags struct {
	endpointFlags
	yes  bool
	json bool
}

func modelApplyCommand() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Create or change the tables of an endpoint to match a model",
		Long: `Show the changes that the tables of an endpoint need to match a model, and make them:
create tables, add and remove global indexes one at a time, change billing, units,
auto scaling, streams, time to live and recovery. A table's key and its local indexes cannot be
changed; a model that requires it is rejected. Tables that the model does not have
stay as they are. The command waits for each change to complete.

Without --yes it asks first, and changes nothing when stdin is not a terminal.`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.apply(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd, "URL of the server")
	f.addScaling(cmd)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "make the changes without asking")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

// applyResult is the result of apply as JSON.
type applyResult struct {
	File     string `json:"file"`
	Endpoint string `json:"endpoint"`
	Applied  bool   `json:"applied"` // no change is left to make
	*apply.Plan
}

func (f *applyFlags) apply(ctx context.Context, file string, stdin io.Reader, stdout, stderr io.Writer) error {
	e, err := f.open()
	if err != nil {
		return err
	}
	m, err := readModel(file)
	if err != nil {
		return err
	}
	plan, err := apply.Make(ctx, e.Send, m)
	if err != nil {
		return fmt.Errorf("cannot compare %s with %s: %w", file, f.endpoint, err)
	}
	if !f.json {
		printPlan(stdout, f.endpoint, plan)
	}
	done, err := f.do(ctx, e, plan, stdin, stderr)
	if f.json {
		err = errors.Join(err, encodeIndented(stdout, applyResult{file, f.endpoint, done, plan}))
	}
	return err
}

// do executes a plan if that is possible and confirmed.
func (f *applyFlags) do(ctx context.Context, e *apply.Endpoint, plan *apply.Plan, stdin io.Reader, stderr io.Writer) (done bool, err error) {
	switch {
	case len(plan.Faults) > 0:
		return false, fmt.Errorf("%s cannot be made; nothing was changed", plural(len(plan.Faults), "change"))
	case len(plan.Changes) == 0:
		return true, nil
	case !f.yes && !confirmed(stdin, stderr):
		return false, errors.New("nothing was changed\n        add --yes to make the changes")
	}
	p := newProgressLine(stderr)
	defer p.end()
	made := 0
	err = apply.Do(ctx, e.Send, plan, apply.Waiting{Every: time.Second, Progress: func(c *apply.Change, state string) {
		if state == "" {
			made++
			return
		}
		p.update("%d of %d changes; table %s is %s for %.0f s", made, len(plan.Changes), c.Table, state, time.Since(p.started).Seconds())
	}})
	if err != nil {
		return false, fmt.Errorf("%d of %d changes were made: %w", made, len(plan.Changes), err)
	}
	return true, nil
}

// confirmed asks for confirmation on the terminal.
func confirmed(stdin io.Reader, stderr io.Writer) bool {
	if file, ok := stdin.(*os.File); ok {
		if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return false
		}
	}
	fmt.Fprint(stderr, "make these changes? [y/N] ")
	line, _ := bufio.NewReader(stdin).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// printPlan prints the changes, and the differences that cannot be resolved.
func printPlan(w io.Writer, endpoint string, plan *apply.Plan) {
	paint := painterFor(w)
	for _, c := range plan.Changes {
		fmt.Fprintf(w, "%-9s%s: %s\n", "change", c.Table, c.Text)
		if c.Loses != "" {
			fmt.Fprintf(w, "         lost: %s\n", c.Loses)
		}
	}
	for _, f := range plan.Faults {
		fmt.Fprintf(w, "%s%s: %s\n", paint.status(model.StatusFault), f.Table, f.Message)
		if f.Try != "" {
			fmt.Fprintf(w, "         %s\n", f.Try)
		}
	}
	for _, n := range plan.Notes {
		fmt.Fprintf(w, "%-9s%s\n", "note", n)
	}
	if len(plan.Changes)+len(plan.Faults) == 0 {
		fmt.Fprintf(w, "%s%s has the tables of the model\n", paint.status(model.StatusOK), endpoint)
	}
}
