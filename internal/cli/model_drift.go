package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/drift"
	"github.com/stator-db/stator/internal/workload"
)

type driftFlags struct {
	endpointFlags
	json bool
}

func modelDriftCommand() *cobra.Command {
	var f driftFlags
	cmd := &cobra.Command{
		Use:   "drift FILE",
		Short: "Compare the traffic of a stator with the access patterns",
		Long: `A stator counts the requests that it serves by shape: operation, table, index and
form of the key condition, without any value. The command joins these counts with
the access patterns of a model and reports patterns that were never requested,
traffic that no pattern matches, and patterns that read far more than they return or
cost far more than the model predicts. It fails when it finds any of these.

Counting starts when the server starts.`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.drift(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	f.add(cmd, "URL of the stator")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

// driftResult is the result of drift as JSON.
type driftResult struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	*drift.Report
}

func (f *driftFlags) drift(ctx context.Context, file string, stdout io.Writer) error {
	e, err := f.open()
	if err != nil {
		return err
	}
	m, err := readModel(file)
	if err != nil {
		return err
	}
	text, err := e.Get(ctx, "/shapes")
	if err != nil {
		return fmt.Errorf("cannot read the request counts of %s: %w\n        only a stator counts requests by shape", f.endpoint, err)
	}
	var traffic workload.Report
	if err := json.Unmarshal(text, &traffic); err != nil || traffic.Shapes == nil {
		return fmt.Errorf("%s/shapes returns no shapes\n        only a stator counts requests by shape", strings.TrimSuffix(f.endpoint, "/"))
	}
	r := drift.Join(m, traffic)
	if f.json {
		err = encodeIndented(stdout, driftResult{file, r.OK(), r})
	} else {
		err = printDrift(stdout, r)
	}
	if err == nil && !r.OK() {
		err = fmt.Errorf("%s: the traffic since %s differs from the model", file, r.Since.Format("2006-01-02 15:04:05 MST"))
	}
	return err
}

// printDrift prints the traffic of each pattern, then the traffic that no
// pattern matches.
func printDrift(w io.Writer, r *drift.Report) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "PATTERN\tREQUESTS\tRETURNED\tSCANNED\tUNITS A RUN\tPREDICTED\tSTATUS")
	for _, p := range r.Patterns {
		status := p.Status
		if len(p.Shared) > 0 && p.Status != drift.Never {
			status += " (with " + strings.Join(p.Shared, ", ") + ")"
		}
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%s\t%s\t%s\n", p.Name, p.Requests, p.Returned, p.Scanned, model.Figure(p.Units), model.Figure(p.Predicted), status)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	paint := painterFor(w)
	fmt.Fprintf(w, "%s%d of %d access patterns are requested as the model says\n", paint.status(model.StatusOK), r.Count(drift.OK), len(r.Patterns))
	for _, p := range r.Patterns {
		switch p.Status {
		case drift.Never:
			fmt.Fprintf(w, "%s%q was never requested\n", paint.status(model.StatusMissing), p.Name)
		case drift.Wasteful:
			fmt.Fprintf(w, "%s%q reads %d items to return %d\n", paint.status(model.StatusFault), p.Name, p.Scanned, p.Returned)
		case drift.Expensive:
			fmt.Fprintf(w, "%s%q costs %s units a run; the model predicts %s\n", paint.status(model.StatusFault), p.Name, model.Figure(p.Units), model.Figure(p.Predicted))
		}
	}
	for _, s := range r.Strays {
		fmt.Fprintf(w, "%sno pattern matches %s: %s\n", paint.status(model.StatusFault), shapeText(s.Shape), plural(int(s.Requests), "request"))
		if s.Near != "" {
			fmt.Fprintf(w, "         the closest pattern is %q, but %s\n", s.Near, s.Differs)
		}
	}
	if r.Elsewhere > 0 {
		fmt.Fprintf(w, "%-9s%s went to tables that the model does not have\n", "note", plural(int(r.Elsewhere), "request"))
	}
	if r.Uncounted > 0 {
		fmt.Fprintf(w, "%-9s%s had more shapes than the server counts separately\n", "note", plural(int(r.Uncounted), "request"))
	}
	return nil
}

// shapeText describes a shape in one line.
func shapeText(s workload.Shape) string {
	text := s.Operation
	if s.Table != "" {
		text += " of " + s.Table
	}
	if s.Index != "" {
		text += "." + s.Index
	}
	if s.Form != "" {
		text += " " + s.Form
	}
	for _, f := range []struct {
		has  bool
		word string
	}{{s.Filter, "with a filter"}, {s.Condition, "with a condition"}, {s.Consistent, "consistent"}} {
		if f.has {
			text += ", " + f.word
		}
	}
	return text
}
