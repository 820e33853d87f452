package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/rightsize"
)

// rightsizeFlags are the flags of stator model rightsize.
type rightsizeFlags struct {
	endpointFlags
	cloudWatch string
	since      time.Duration
	until      string
	exports    []string
	period     time.Duration
	queries    bool
	indexes    []string

	target    float64
	min, max  int64
	delay     time.Duration
	throttled float64 // in percent
	prices    string
	plots     int
	json      bool
}

func modelRightsizeCommand() *cobra.Command {
	var f rightsizeFlags
	cmd := &cobra.Command{
		Use:   "rightsize TABLE --endpoint URL | rightsize [TABLE] --export FILE...",
		Short: "Show from the metrics of a table what each billing mode would have cost",
		Long: `Read what a table and its global indexes consumed, minute by minute, and show what they
would have cost on demand, with a constant number of provisioned units, and auto-scaled,
with the units that would have been throttled. The metrics come from a stator, from the
CloudWatch of AWS, or from files. docs/rightsize.md says how it is computed.

  stator model rightsize Orders --endpoint http://127.0.0.1:8000
  stator model rightsize Orders --endpoint https://dynamodb.eu-west-1.amazonaws.com --region eu-west-1

Files are what the AWS CLI prints as JSON. One file with all metrics of a table and its indexes:

  stator model rightsize Orders --queries --index by-day > queries.json
  aws cloudwatch get-metric-data --metric-data-queries file://queries.json \
      --start-time 2026-11-04T00:00:00Z --end-time 2026-11-18T00:00:00Z --output json > orders.json
  stator model rightsize --export orders.json

A result is recognised by its label, TABLE METRIC or TABLE INDEX METRIC, or by an id that is the
name of the metric. Or a file for each metric and index, of which a request has 1,440 data points
at most, so that a day is one request at a period of 60 seconds; replies may follow each other in
a file:

  aws cloudwatch get-metric-statistics --namespace AWS/DynamoDB --metric-name ConsumedReadCapacityUnits \
      --dimensions Name=TableName,Value=Orders --period 60 --statistics Sum \
      --start-time 2026-11-17T00:00:00Z --end-time 2026-11-18T00:00:00Z --output json >> reads.json
  stator model rightsize Orders --export reads.json --export writes.json --export by-day=by-day-writes.json`,
		Args: func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			table := ""
			if len(args) > 0 {
				table = args[0]
			}
			if f.queries {
				period := f.period
				if period == 0 {
					period = time.Minute
				}
				return encodeIndented(cmd.OutOrStdout(), rightsize.Queries(table, f.indexes, period))
			}
			return f.run(cmd.Context(), table, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd, "URL of the server that has the table")
	flags := cmd.Flags()
	flags.StringVar(&f.cloudWatch, "cloudwatch", "", "URL of CloudWatch; defaults to that of AWS for an endpoint of AWS, or to --endpoint")
	durationVar(cmd, &f.since, "since", 14*24*time.Hour, "how much time to look at")
	flags.StringVar(&f.until, "until", "", "end of that time, such as 2026-11-18T00:00:00Z; defaults to now")
	flags.StringArrayVar(&f.exports, "export", nil, "file with metrics, or INDEX=FILE; may be given several times")
	durationVar(cmd, &f.period, "period", 0, "period of the metrics in files, and of --queries; defaults to the distance of the times in files, and to 1m")
	flags.BoolVar(&f.queries, "queries", false, "print the queries for an export by aws cloudwatch get-metric-data")
	flags.StringSliceVar(&f.indexes, "index", nil, "global indexes for --queries, separated by commas; may be given several times")
	flags.Float64Var(&f.target, "target", 70, "target utilization of auto scaling in percent")
	flags.Int64Var(&f.min, "min", 0, "minimum of auto scaling; defaults to the smallest that keeps to --throttled")
	flags.Int64Var(&f.max, "max", 0, "maximum of auto scaling; defaults to the quota of a table")
	durationVar(cmd, &f.delay, "delay", 2*time.Minute, "time until units that auto scaling changes are there")
	flags.Float64Var(&f.throttled, "throttled", 0.1, "accepted share of throttled units in percent")
	flags.StringVar(&f.prices, "prices", "", "price file to use instead of the built-in prices")
	flags.IntVar(&f.plots, "plots", 2, "plots to show, of the most expensive dimensions")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

// check rejects invalid arguments and flags.
func (f *rightsizeFlags) check(cmd *cobra.Command, args []string) error {
	fail := func(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
	given := cmd.Flags().Changed
	switch {
	case len(args) > 1:
		return fail("%s needs one table, but got %q", cmd.CommandPath(), args)
	case f.queries && (f.endpoint != "" || len(f.exports) > 0):
		return fail("--queries only prints queries: it cannot be combined with --endpoint or --export")
	case len(f.indexes) > 0 && !f.queries:
		return fail("--index is for --queries; the indexes of a table on a server are found, and those of a file are given as --export INDEX=FILE")
	case f.endpoint != "" && len(f.exports) > 0:
		return fail("--endpoint and --export exclude each other")
	case len(args) == 0 && f.endpoint == "" && len(f.exports) == 0:
		return fail("%s needs a table and --endpoint, or --export", cmd.CommandPath())
	case len(args) == 0 && len(f.exports) == 0:
		return fail("%s needs a table", cmd.CommandPath())
	case len(args) == 1 && !f.queries && f.endpoint == "" && len(f.exports) == 0:
		return fail("--endpoint must name the server, such as http://127.0.0.1:8000, or --export a file with metrics")
	case len(f.exports) > 0 && (given("since") || given("until") || given("cloudwatch")):
		return fail("--since, --until and --cloudwatch are for --endpoint: files are read as a whole")
	case f.endpoint != "" && given("period"):
		return fail("--period is for --export and --queries: a server is asked for the shortest period that it has")
	case !(f.target >= 20 && f.target <= 90): // it may be NaN
		return fail("--target is %v, but must be between 20 and 90, as of auto scaling", f.target)
	case f.min < 0 || f.max < 0 || f.max > 0 && f.min > f.max:
		return fail("--min is %d and --max is %d, but must be at least 1, and --max not less than --min", f.min, f.max)
	case !(f.throttled >= 0 && f.throttled < 100):
		return fail("--throttled is %v, but must be a percentage", f.throttled)
	case f.plots < 0:
		return fail("--plots is %d, but must not be negative", f.plots)
	case f.since < time.Hour:
		return fail("--since is %v, but must be at least an hour", f.since)
	case f.period%time.Minute != 0 || f.period > time.Hour:
		return fail("--period is %v, but must be whole minutes, at most an hour", f.period)
	}
	return nil
}

func (f *rightsizeFlags) run(ctx context.Context, table string, stdout, stderr io.Writer) error {
	prices, err := readPrices(f.prices)
	if err != nil {
		return err
	}
	progress := newProgressLine(stderr)
	defer progress.end()
	var load *rightsize.Load
	if len(f.exports) > 0 {
		load, err = f.readFiles(table)
	} else {
		load, err = f.readServer(ctx, table, progress)
	}
	if err != nil {
		return err
	}
	set := &rightsize.Settings{Prices: prices, Target: f.target, Min: f.min, Max: f.max, Delay: f.delay, Throttled: f.throttled / 100}
	r := rightsize.Analyze(load, set, func(done, of int) { progress.update("comparing: %d of %d dimensions", done, of) })
	progress.end()
	if f.json {
		return encodeIndented(stdout, r)
	}
	return printRightsize(stdout, r, f.plots)
}

// readServer reads the metrics of a server.
func (f *rightsizeFlags) readServer(ctx context.Context, table string, progress *progressLine) (*rightsize.Load, error) {
	e, err := f.open()
	if err != nil {
		return nil, err
	}
	e.Uncounted, e.WatchURL = true, f.cloudWatch
	now := time.Now()
	until := now
	if f.until != "" {
		if until, err = time.Parse(time.RFC3339, f.until); err != nil {
			return nil, usageError{fmt.Errorf("--until is %q, but must be a time such as 2026-11-18T00:00:00Z", f.until)}
		}
		if until.After(now) {
			return nil, usageError{fmt.Errorf("--until is %s, which is in the future: the time until then would count as idle", f.until)}
		}
	}
	s := rightsize.Server{Tables: apply.Send(e.Send), Watch: apply.Send(e.SendWatch), Now: now,
		Progress: func(done, of int) { progress.update("reading metrics: %d of %d requests", done, of) }}
	l, err := s.Read(ctx, table, until.Add(-f.since), until)
	if errors.Is(err, rightsize.ErrNoData) {
		return nil, fmt.Errorf("cannot read the load of %s: %w\n        requests are counted by whole minutes; a stator forgets them when it stops", f.endpoint, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the load of %s: %w", f.endpoint, err)
	}
	return l, nil
}

// maxExport bounds a file of metrics: 15 days by the minute have about 1 MB for each
// metric.
const maxExport = 256 << 20

// exportOfIndex matches an export with the name of an index.
var exportOfIndex = regexp.MustCompile(`^([a-zA-Z0-9_.-]{3,255})=(.+)$`)

// readFiles reads the metrics in files.
func (f *rightsizeFlags) readFiles(table string) (*rightsize.Load, error) {
	var exports []rightsize.Export
	for _, name := range f.exports {
		e := rightsize.Export{File: name}
		if m := exportOfIndex.FindStringSubmatch(name); m != nil {
			if _, err := os.Stat(name); err != nil { // not the name of a file
				e.Index, e.File = m[1], m[2]
			}
		}
		var err error
		if e.Text, err = readExport(e.File, maxExport); err != nil {
			return nil, fileError{fmt.Errorf("cannot read --export: %w", err)}
		}
		exports = append(exports, e)
	}
	l, err := rightsize.ReadExports(exports, table, f.period)
	if err != nil {
		return nil, fileError{fmt.Errorf("cannot use the metrics of --export: %w\n        stator model rightsize --help shows how to export them", err)}
	}
	return l, nil
}

// readExport reads a file, which may be a pipe, of no more than a number of bytes.
func readExport(file string, most int64) ([]byte, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d MB, more than metrics have", file, most>>20)
	}
	return text, err
}

func printRightsize(w io.Writer, r *rightsize.Report, plots int) error {
	const layout = "2006-01-02 15:04"
	fmt.Fprintf(w, "%s, %s to %s UTC: %s days\n\n", r.Table, r.From.Format(layout), r.To.Format(layout), model.Figure(float64(int(r.Days*10))/10))
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "INDEX\tUNITS\tMEAN/S\tPEAK/S\tOPTION\tPROVISIONED\tUSED\tTHROTTLED\t$/PERIOD\t$/MONTH")
	for _, d := range r.Dimensions {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\ton demand\t\t\t\t%s\t%s\n", d.Index, d.Kind, figure3(d.Mean), figure3(d.Peak), model.Money(d.OnDemand.Dollars), model.Money(d.OnDemand.MonthlyDollars))
		rows := []struct {
			name   string
			option rightsize.Option
		}{{"constant", d.Constant}, {"constant", d.Reduced}, {"auto-scaled", d.Scaled}}
		for i, row := range rows {
			if i == 1 && row.option.Units == rows[0].option.Units {
				continue
			}
			fmt.Fprintf(out, "\t\t\t\t%s\t%s\t%s\t%s\t%s\t%s\n", row.name, provisionedText(row.option), percentText(row.option.Used), percentText(row.option.Throttled),
				model.Money(row.option.Dollars), model.Money(row.option.MonthlyDollars))
		}
	}
	fmt.Fprintln(out, "\nTABLE\tTHROTTLED\t$/PERIOD\t$/MONTH")
	total := func(name string, t *rightsize.Total) {
		if t != nil {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", name, percentText(t.Throttled), model.Money(t.Dollars), model.Money(t.MonthlyDollars))
		}
	}
	total("as it is billed now", r.Now)
	total("on demand", &r.OnDemand)
	total("provisioned, constant", &r.Constant)
	total(fmt.Sprintf("provisioned, auto-scaled to %s %%", model.Figure(r.Target)), &r.Scaled)
	total("provisioned, as chosen for each", &r.Provisioned)
	if err := out.Flush(); err != nil {
		return err
	}
	if lines := r.Plots(plots); len(lines) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(lines, "\n"))
	}
	printAdvice(w, r)
	_, err := fmt.Fprintf(w, "\nprices of %s in %s, in %s; without storage, streams, backups and reserved capacity\n", r.Prices.Date, r.Prices.Region, r.Prices.Currency)
	return err
}

// printAdvice prints the recommendation, why, and how certain it is.
func printAdvice(w io.Writer, r *rightsize.Report) {
	line := func(head, text string) { fmt.Fprintf(w, "%-12s %s\n", head, text) }
	fmt.Fprintln(w)
	line("recommended", fmt.Sprintf("%s, %s a month", strings.ReplaceAll(r.Recommended, "-", " "), model.Money(r.RecommendedTotal().MonthlyDollars)))
	if r.Recommended == rightsize.Provisioned {
		for _, s := range r.Provisioning() {
			line("", s)
		}
	}
	line("because", r.Reason)
	if recommended := r.RecommendedTotal(); r.Now != nil && r.Now.Dollars > recommended.Dollars {
		line("saves", fmt.Sprintf("%s a month of the %s that the table costs now", model.Money(r.Now.MonthlyDollars-recommended.MonthlyDollars), model.Money(r.Now.MonthlyDollars)))
	}
	line("confidence", r.Confidence)
	for _, text := range r.Doubts {
		line("", text)
	}
	for _, text := range r.Notes {
		line("note", text)
	}
}

// figure3 formats a rate.
func figure3(n float64) string {
	if n < 0.001 && n > 0 {
		return "< 0.001"
	}
	return model.Figure(n)
}

// provisionedText formats the units of an option.
func provisionedText(o rightsize.Option) string {
	if o.Units > 0 {
		return model.Figure(float64(o.Units))
	}
	return fmt.Sprintf("%s to %s", model.Figure(float64(o.Min)), model.Figure(float64(o.Max)))
}

// percentText formats a share; nothing if it is 0.
func percentText(share float64) string {
	switch {
	case share == 0:
		return "-"
	case share < 0.0001:
		return "< 0.01 %"
	case share < 0.01:
		return fmt.Sprintf("%.2f %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}
