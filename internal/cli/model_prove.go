package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/prove"
)

type proveFlags struct {
	endpointFlags
	load     string
	duration time.Duration
	seed     uint64
	json     bool

	consistencyTimeout time.Duration // how long reads of another server may be stale
}

func modelProveCommand() *cobra.Command {
	f := proveFlags{consistencyTimeout: 5 * time.Second}
	cmd := &cobra.Command{
		Use:   "prove FILE",
		Short: "Run each access pattern on a server and compare it with the prediction",
		Long: `Create the tables of a model on a private stator in memory, or on --endpoint under
names that no other table has; run each access pattern with generated items; and
compare the items returned and scanned, the pages, the units by table and index, and
the index used with what the model predicts. The tables are deleted at the end. The
command fails when anything differs.

With --load the patterns then run concurrently, at a multiple of their declared
rates (1x, 0.1x) or at a total number of runs a second (200). A run is sent when it
is due, whether or not earlier runs have completed.

  stator model prove shop.model.yaml
  stator model prove shop.model.yaml --load 1x --for 30s`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.prove(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd, "URL of the server; defaults to a private stator")
	cmd.Flags().StringVar(&f.load, "load", "", "then run all patterns concurrently: 1x or 0.1x their rates, or runs a second")
	durationVar(cmd, &f.duration, "for", 30*time.Second, "how long --load takes")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "random seed of --load")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

// proveResult is the result of prove as JSON.
type proveResult struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	*prove.Report
	Load *prove.LoadReport `json:"load,omitempty"`
}

func (f *proveFlags) prove(ctx context.Context, file string, stdout, stderr io.Writer) (err error) {
	var rate prove.Rate
	if f.load != "" {
		if rate, err = prove.ParseRate(f.load); err != nil {
			return usageError{fmt.Errorf("--load: %w", err)}
		}
		if f.duration <= 0 {
			return usageError{fmt.Errorf("--for is %v, but must be positive", f.duration)}
		}
	}
	m, err := readModel(file)
	if err != nil {
		return err
	}
	s, err := f.openSession(ctx, m, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()

	found := proveResult{File: file}
	if found.Report, err = s.run(ctx); err != nil {
		return fmt.Errorf("cannot prove %s: %w", file, err)
	}
	found.OK = found.Report.OK()
	if rate != (prove.Rate{}) && found.OK {
		if found.Load, err = s.load(ctx, rate, f); err != nil {
			return fmt.Errorf("cannot load %s: %w", file, err)
		}
	}
	s.stripPrefix(&found)
	if err := f.print(stdout, &found); err != nil {
		return err
	}
	switch {
	case !found.OK:
		return fmt.Errorf("%s: %s", file, plural(found.Report.Wrong(), "pattern")+" did not behave as predicted")
	case found.Load != nil && found.Load.Bad() > 0:
		return fmt.Errorf("%s: %s of the load failed", file, plural(found.Load.Bad(), "run"))
	}
	return nil
}

// proveSession is a server that a model is proved on.
type proveSession struct {
	model              *model.Model
	endpoint           *apply.Endpoint
	prefix             string // of the names of its tables, while the session is open
	restore            func()
	stop               func() error
	private            bool
	consistencyTimeout time.Duration
	stderr             io.Writer
}

// openSession opens the server, without tables.
func (f *proveFlags) openSession(ctx context.Context, m *model.Model, stderr io.Writer) (*proveSession, error) {
	s := &proveSession{model: m, stderr: stderr, consistencyTimeout: f.consistencyTimeout, restore: func() {}, stop: func() error { return nil }}
	if f.endpoint == "" {
		endpoint, stop, err := servePrivately(ctx)
		if err != nil {
			return nil, err
		}
		s.endpoint, s.stop, s.private = clientOf(endpoint, f.region), stop, true
		return s, nil
	}
	var err error
	if s.endpoint, err = f.open(); err != nil {
		return nil, err
	}
	s.prefix = "prove-" + strings.ToLower(rand.Text()[:10]) + "-"
	s.restore = prove.PrefixTables(m, s.prefix)
	return s, nil
}

func (s *proveSession) close(ctx context.Context) error {
	var err error
	if !s.private {
		// An interrupted command deletes its tables too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = prove.Drop(ctx, s.endpoint.Send, s.model)
	}
	s.restore()
	return errors.Join(err, s.stop())
}

// waiting says how to wait for tables.
func (s *proveSession) waiting(p *progressLine) apply.Waiting {
	every := time.Second
	if s.private {
		every = 10 * time.Millisecond
	}
	return apply.Waiting{Every: every, Progress: func(c *apply.Change, state string) { p.update("table %s is %s", c.Table, state) }}
}

func (s *proveSession) run(ctx context.Context) (*prove.Report, error) {
	p := newProgressLine(s.stderr)
	defer p.end()
	if err := prove.Create(ctx, s.endpoint.Send, s.model, false, s.waiting(p)); err != nil {
		return nil, err
	}
	o := prove.Options{Progress: func(done int) { p.update("%d of %d patterns", done, len(s.model.Patterns)) }}
	if !s.private {
		o.ConsistencyTimeout = s.consistencyTimeout
	}
	return prove.Run(ctx, s.endpoint.Send, s.model, o)
}

// load creates the tables again, with the declared billing, and runs the load.
func (s *proveSession) load(ctx context.Context, rate prove.Rate, f *proveFlags) (*prove.LoadReport, error) {
	p := newProgressLine(s.stderr)
	defer p.end()
	if err := prove.Drop(ctx, s.endpoint.Send, s.model); err != nil {
		return nil, err
	}
	if err := s.waitDeleted(ctx); err != nil {
		return nil, err
	}
	if err := prove.Create(ctx, s.endpoint.Send, s.model, true, s.waiting(p)); err != nil {
		return nil, err
	}
	return prove.Load(ctx, s.endpoint.Send, s.model, prove.LoadOptions{
		Rate: rate, For: f.duration, Seed: f.seed, Workers: maxConnections,
		PrepareProgress: func(done, all int) { p.update("preparing: %d of %d items are stored", done, all) },
		Progress:        func(sent, all, late int) { p.update("%d of %d runs, %d are late", sent, all, late) },
	})
}

// waitDeleted waits until all tables are deleted.
func (s *proveSession) waitDeleted(ctx context.Context) error {
	for _, t := range s.model.Tables {
		for {
			there, err := apply.Exists(ctx, s.endpoint.Send, t.Name)
			if err != nil {
				return err
			}
			if !there {
				break
			}
			if err := apply.Sleep(ctx, s.waiting(nil).Every); err != nil {
				return err
			}
		}
	}
	return nil
}

// stripPrefix removes the prefix of the tables from a report.
func (s *proveSession) stripPrefix(found *proveResult) {
	if s.prefix == "" {
		return
	}
	bare := func(text *string) { *text = strings.ReplaceAll(*text, s.prefix, "") }
	for _, p := range found.Patterns {
		bare(&p.By)
		for i := range p.Units {
			bare(&p.Units[i].Table)
		}
		for i := range p.Differences {
			bare(&p.Differences[i].What)
		}
	}
	if found.Load != nil {
		for i := range found.Load.Hottest {
			bare(&found.Load.Hottest[i].Key)
		}
	}
}

func (f *proveFlags) print(w io.Writer, found *proveResult) error {
	if f.json {
		return encodeIndented(w, found)
	}
	if err := printProved(w, found.Report); err != nil || found.Load == nil {
		return err
	}
	fmt.Fprintln(w)
	return printLoad(w, found.Load)
}

// printProved prints the result of each pattern, then the differences.
func printProved(w io.Writer, r *prove.Report) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "PATTERN\tSERVED BY\tREQUEST\tRETURNED\tSCANNED\tPAGES\tUNITS")
	requests := 0
	for _, p := range r.Patterns {
		requests += p.Requests
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, textOrDash(p.By), p.Operation, countOrDash(p.Returned), countOrDash(p.Scanned), countOrDash(p.Pages), model.Figure(p.Total()))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	paint := painterFor(w)
	fmt.Fprintf(w, "%s%d of %d access patterns behaved as predicted, in %s\n", paint.status(model.StatusOK),
		len(r.Patterns)-r.Wrong(), len(r.Patterns), plural(requests, "request"))
	for _, p := range r.Patterns {
		if p.Error != "" {
			fmt.Fprintf(w, "%s%q: %s\n", paint.status(model.StatusFault), p.Name, strings.ReplaceAll(p.Error, "\n", "; "))
		}
		for _, d := range p.Differences {
			fmt.Fprintf(w, "%s%q, request %d of run %d: %s predicted %s, actual %s\n", paint.status(model.StatusFault), p.Name, d.Request, d.Run, d.What, d.Predicted, d.Actual)
		}
	}
	return nil
}

func textOrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func countOrDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// printLoad prints the result of the load, then the hottest keys.
func printLoad(w io.Writer, r *prove.LoadReport) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "TARGET/S\tDONE/S\tP50 MS\tP99 MS\tMAX MS\tTHROTTLED\tREFUSED\tERRORS\tUNSENT\t  PATTERN")
	for _, p := range r.Patterns {
		times := "-\t-\t-"
		if p.Done > 0 {
			times = fmt.Sprintf("%.1f\t%.1f\t%.1f", p.P50, p.P99, p.Max)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", model.Figure(p.Rate), model.Figure(p.PerSecond), times,
			countOrDash(p.Throttled), countOrDash(p.Refused), countOrDash(p.Errors), countOrDash(p.Unsent), p.Name)
	}
	fmt.Fprintln(out)
	fmt.Fprintln(out, "TOUCHED\tSHARE\t  HOTTEST KEYS")
	for _, k := range r.Hottest {
		fmt.Fprintf(out, "%d\t%.1f %%\t  %s\n", k.Requests, 100*k.Share, k.Key)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, p := range r.Patterns {
		if p.Error != "" {
			fmt.Fprintf(w, "%s%q: %s\n", painterFor(w).status(model.StatusFault), p.Name, p.Error)
		}
	}
	return nil
}
