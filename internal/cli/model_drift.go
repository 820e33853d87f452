package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/drift"
	"github.com/stator-db/stator/internal/workload"
)

type driftFlags struct {
	endpointFlags
	json    bool
	allowed drift.Allowed
	reset   bool
	traffic []string
}

func modelDriftCommand() *cobra.Command {
	var f driftFlags
	cmd := &cobra.Command{
		Use:   "drift FILE",
		Short: "Compare the traffic of a stator with the access patterns",
		Long: `A stator counts the requests that it serves by shape: operation, table, index, form
of the key condition, literal prefixes of the key, condition, filter and projection,
without values. The command joins these counts with the access patterns of a model and
reports patterns that were never requested, traffic that no pattern matches, and
patterns that read far more than they return or cost far more than the model predicts,
requests that the server did not count by shape, and tables that scale their units
differently than the model declares.
It fails when it finds any of these.

Counting starts when the server starts, or with the last --reset.

--traffic compares counts that were saved from the path /shapes of one or more servers, or of the
servers of a test suite, instead of asking a server. It is a file or a folder with *.json,
and can be repeated; the counts are added.`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.drift(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	f.add(cmd, "URL of the stator")
	f.addScaling(cmd)
	cmd.Flags().StringArrayVar(&f.traffic, "traffic", nil, "file with counts from /shapes, or folder with such files")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	cmd.Flags().BoolVar(&f.allowed.Unused, "allow-unused", false, "do not fail for patterns that were never requested")
	cmd.Flags().BoolVar(&f.allowed.Uncounted, "allow-uncounted", false, "do not fail for requests that the server did not count by shape")
	cmd.Flags().BoolVar(&f.reset, "reset", false, "reset the counts of the server after reading them")
	return cmd
}

// driftResult is the result of drift as JSON.
type driftResult struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	*drift.Report
	Scaling []*apply.Change `json:"scaling,omitempty"` // that would make auto scaling match the model
}

func (f *driftFlags) drift(ctx context.Context, file string, stdout io.Writer) error {
	if len(f.traffic) > 0 && (f.endpoint != "" || f.reset) {
		return usageError{errors.New("--traffic cannot be combined with --endpoint or --reset, which ask a server")}
	}
	m, err := readModel(file)
	if err != nil {
		return err
	}
	var traffic workload.Report
	var scaling []*apply.Change
	if len(f.traffic) > 0 {
		traffic, err = savedTraffic(f.traffic)
	} else {
		traffic, scaling, err = f.askServer(ctx, m)
	}
	if err != nil {
		return err
	}
	r := drift.Join(m, traffic)
	if f.json {
		err = encodeIndented(stdout, driftResult{file, r.OK(f.allowed) && len(scaling) == 0, r, scaling})
	} else {
		err = f.print(stdout, r)
		for _, c := range scaling {
			fmt.Fprintf(stdout, "%stable %s scales differently than the model declares; stator model apply would: %s\n", painterFor(stdout).status(model.StatusFault), c.Table, c.Text)
		}
	}
	switch {
	case err != nil:
		return err
	case !r.OK(f.allowed):
		return fmt.Errorf("%s: the traffic since %s differs from the model", file, r.Since.Format("2006-01-02 15:04:05 MST"))
	case len(scaling) > 0:
		return fmt.Errorf("%s: auto scaling differs from the model", file)
	}
	return nil
}

// askServer reads the counts of the server, and how its auto scaling differs from the model.
func (f *driftFlags) askServer(ctx context.Context, m *model.Model) (traffic workload.Report, scaling []*apply.Change, err error) {
	e, err := f.open()
	if err != nil {
		return traffic, nil, err
	}
	// Before the counts, which can be reset only once.
	if scaling, err = apply.ScalingChanges(ctx, e.Send, m); err != nil {
		return traffic, nil, fmt.Errorf("cannot compare the auto scaling of %s: %w", f.endpoint, err)
	}
	traffic, err = f.serverTraffic(ctx, e)
	return traffic, scaling, err
}

// serverTraffic reads the counts of the server.
func (f *driftFlags) serverTraffic(ctx context.Context, e *apply.Endpoint) (workload.Report, error) {
	read := e.Get
	if f.reset {
		read = e.Delete // returns the counts that it resets
	}
	return drift.Traffic(ctx, f.endpoint, read)
}

// maxTrafficFile bounds a file of counts: those of a server have about 2 MB at most.
const maxTrafficFile = 64 << 20

// savedTraffic reads counts from files, and from the files in folders.
func savedTraffic(paths []string) (workload.Report, error) {
	var reports []workload.Report
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err != nil {
			return workload.Report{}, fmt.Errorf("read saved counts: %w", err)
		} else if info.IsDir() {
			if files, err = globAll(path, "*.json"); err != nil {
				return workload.Report{}, err
			}
			if len(files) == 0 {
				return workload.Report{}, fmt.Errorf("folder %s has no *.json with saved counts", path)
			}
		}
		for _, file := range files {
			r, err := trafficFile(file)
			if err != nil {
				return workload.Report{}, err
			}
			reports = append(reports, r)
		}
	}
	return workload.Merge(reports...), nil
}

func trafficFile(file string) (r workload.Report, err error) {
	in, err := os.Open(file)
	if err != nil {
		return r, fmt.Errorf("read saved counts: %w", err)
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, maxTrafficFile+1))
	if err != nil {
		return r, fmt.Errorf("read saved counts: %w", err)
	}
	if len(text) > maxTrafficFile {
		return r, fmt.Errorf("%s has more than %d MB, and is no file with the counts of a server", file, maxTrafficFile>>20)
	}
	if err := json.Unmarshal(text, &r); err != nil || r.Shapes == nil {
		return r, fmt.Errorf("%s has no counts\n        save them from the path /shapes of a stator", file)
	}
	return r, nil
}

// print prints the traffic of each pattern, then the traffic that no pattern
// matches.
func (f *driftFlags) print(w io.Writer, r *drift.Report) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "PATTERN\tREQUESTS\tRETURNED\tSCANNED\tUNITS A RUN\tPREDICTED\tSTATUS")
	for _, p := range r.Patterns {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%s\t%s\t%s\n", p.Name, p.Requests, p.Returned, p.Scanned, unitsText(p), model.Figure(p.Predicted), statusText(p))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	paint := painterFor(w)
	fmt.Fprintf(w, "%s%d of %d access patterns are requested as the model says\n", paint.status(model.StatusOK), r.Count(drift.OK), len(r.Patterns))
	for _, p := range r.Patterns {
		f.printPattern(w, paint, p)
	}
	for _, s := range r.Strays {
		fmt.Fprintf(w, "%sno pattern matches %s: %s\n", paint.status(model.StatusFault), s.Text(), plural(int(s.Requests), "request"))
		if s.Near != "" {
			fmt.Fprintf(w, "         the closest pattern is %q; the request differs from it: %s\n", s.Near, s.Differs)
		}
	}
	if r.Elsewhere > 0 {
		fmt.Fprintf(w, "%-9s%s went to tables that the model does not have\n", "note", plural(int(r.Elsewhere), "request"))
	}
	if r.Uncounted > 0 {
		status := paint.status(model.StatusFault)
		if f.allowed.Uncounted {
			status = fmt.Sprintf("%-9s", "note")
		}
		fmt.Fprintf(w, "%s%s had more shapes than the server counts separately, and cannot be compared\n", status, plural(int(r.Uncounted), "request"))
	}
	return nil
}

// unitsText is what a run of a pattern costs, if it is known.
func unitsText(p *drift.Pattern) string {
	switch {
	case p.Status == drift.Never:
		return "-"
	case p.Units == nil:
		return "unknown"
	}
	return model.Figure(*p.Units)
}

func statusText(p *drift.Pattern) string {
	if len(p.Shared) == 0 {
		return p.Status
	}
	return p.Status + ": one of " + strings.Join(append([]string{p.Name}, p.Shared...), ", ")
}

// printPattern prints what is to be said about a pattern that is not ok.
func (f *driftFlags) printPattern(w io.Writer, paint statusPainter, p *drift.Pattern) {
	switch p.Status {
	case drift.Never:
		status := paint.status(model.StatusMissing)
		if f.allowed.Unused {
			status = fmt.Sprintf("%-9s", "note")
		}
		fmt.Fprintf(w, "%s%q was never requested\n", status, p.Name)
	case drift.Shared:
		fmt.Fprintf(w, "%-9s%q or a pattern with the same requests was requested: %s\n", "note", p.Name, strings.Join(p.Shared, ", "))
	case drift.Unmeasured:
		fmt.Fprintf(w, "%-9sthe cost of %q is unknown: no request was measured\n", "note", p.Name)
	case drift.Wasteful:
		fmt.Fprintf(w, "%s%q reads %d items to return %d\n", paint.status(model.StatusFault), p.Name, p.Scanned, p.Returned)
	case drift.Expensive:
		fmt.Fprintf(w, "%s%q costs %s units a run; the model predicts %s\n", paint.status(model.StatusFault), p.Name, model.Figure(*p.Units), model.Figure(p.Predicted))
	}
}
