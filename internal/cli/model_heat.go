package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/heat"
	"github.com/stator-db/stator/internal/model/prove"
)

// heatFlags are the flags of stator model heat.
type heatFlags struct {
	load                  string
	duration              time.Duration
	seed                  uint64
	onDemand              bool
	readUnits, writeUnits int
	measure               bool
	json                  bool
}

func modelHeatCommand() *cobra.Command {
	var f heatFlags
	cmd := &cobra.Command{
		Use:   "heat FILE...",
		Short: "Show when which partition is throttled, and what to change",
		Long: `Play the traffic of a model, at its peak rates, against the limits of its tables,
indexes and partitions, as a server with --throttle has them: in virtual time and
without a server. Show what is throttled, when and why, the hottest keys, the units over
time, and what to change. The command fails when anything is throttled.

--load is a multiple of the peak rates (2x) or a total number of runs a second (5000).
--on-demand, or --read-units and --write-units, replace the throughput of all tables and
global indexes.

With --measure the same requests are sent at the same times to a private stator that
throttles, also in virtual time, and its counters are shown with the forecast.

Several models are compared at the end, such as the same load with other keys.

  stator model heat shop.model.yaml
  stator model heat shop.model.yaml --load 3x --for 1h
  stator model heat shop.model.yaml --read-units 100 --write-units 500
  stator model heat shop.model.yaml --for 1m --measure
  stator model heat shop.model.yaml shop-sharded.model.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("%s needs one or more files", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&f.load, "load", "1x", "a multiple of the peak rates, or runs a second")
	durationVar(cmd, &f.duration, "for", 15*time.Minute, "how much virtual time to play")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "random seed of the arrivals")
	cmd.Flags().BoolVar(&f.onDemand, "on-demand", false, "as if all tables were on-demand")
	cmd.Flags().IntVar(&f.readUnits, "read-units", 0, "as if each table and global index had these provisioned read units")
	cmd.Flags().IntVar(&f.writeUnits, "write-units", 0, "as if each table and global index had these provisioned write units")
	cmd.Flags().BoolVar(&f.measure, "measure", false, "send the same requests to a private stator, and compare")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

// maxHeatTime is the most virtual time.
const maxHeatTime = 7 * 24 * time.Hour

// options checks the flags.
func (f *heatFlags) options() (o heat.Options, err error) {
	if o.Rate, err = prove.ParseRate(f.load); err != nil {
		return o, usageError{fmt.Errorf("--load: %w", err)}
	}
	switch {
	case f.duration < time.Second || f.duration > maxHeatTime:
		return o, usageError{fmt.Errorf("--for is %v, but must be from 1s to %v", f.duration, maxHeatTime)}
	case (f.readUnits > 0) != (f.writeUnits > 0) || f.readUnits < 0 || f.writeUnits < 0:
		return o, usageError{fmt.Errorf("--read-units and --write-units must both be given, and positive")}
	case f.onDemand && f.readUnits > 0:
		return o, usageError{fmt.Errorf("--on-demand cannot be combined with --read-units and --write-units")}
	}
	o.For, o.Seed = f.duration, f.seed
	return o, nil
}

// apply changes the throughput of the tables of a model as the flags say.
func (f *heatFlags) apply(m *model.Model) {
	switch {
	case f.onDemand:
		m.SetOnDemand()
	case f.readUnits > 0:
		m.SetProvisioned(f.readUnits, f.writeUnits)
	}
}

// heatResult is the result of heat as JSON.
type heatResult struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	*heat.Forecast
	Measured *measuredHeat `json:"measured,omitempty"`
}

// measuredHeat is what a server did.
type measuredHeat struct {
	Rows    []heat.Compared `json:"rows"`
	Runs    int             `json:"runs"`
	Refused int             `json:"refused"`
	Errors  int             `json:"errors"`
	Error   string          `json:"error,omitempty"`
}

// run plays the models one after the other. What is wrong with any of them is reported
// when all are printed.
func (f *heatFlags) run(ctx context.Context, files []string, stdout, stderr io.Writer) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	models := make([]*model.Model, len(files))
	for i, file := range files {
		if models[i], err = readModel(file); err != nil {
			return err
		}
		f.apply(models[i])
	}
	all := make([]*heatResult, len(files))
	for i, file := range files {
		found := &heatResult{File: file}
		if err := f.forecast(ctx, models[i], o, found, stderr); err != nil {
			return fmt.Errorf("cannot forecast the heat of %s: %w", file, err)
		}
		found.OK = found.Throttled == 0
		all[i] = found
		if f.json {
			continue
		}
		if len(files) > 1 {
			fmt.Fprintf(stdout, "%s: ", file)
		}
		if err := f.print(stdout, found); err != nil {
			return err
		}
		if len(files) > 1 {
			fmt.Fprintln(stdout)
		}
	}
	switch {
	case f.json && len(all) == 1:
		err = encodeIndented(stdout, all[0])
	case f.json:
		err = encodeIndented(stdout, all)
	case len(all) > 1:
		err = printComparedHeat(stdout, all)
	}
	if err != nil {
		return err
	}
	var faults []error
	for _, found := range all {
		switch {
		case found.Measured != nil && found.Measured.Errors > 0:
			faults = append(faults, fmt.Errorf("%s: the server rejected %s: %s", found.File, plural(found.Measured.Errors, "run"), found.Measured.Error))
		case !found.OK:
			faults = append(faults, fmt.Errorf("%s: %s requests are throttled", found.File, model.Figure(found.Throttled)))
		}
	}
	return errors.Join(faults...)
}

// printComparedHeat prints a line for each model: how much is throttled, and what is asked of its
// busiest partition, or of the table or index whose units are too few.
func printComparedHeat(w io.Writer, all []*heatResult) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "MODEL\tTHROTTLED\tBUSIEST\tUNITS\tASKED/S\tOF ITS LIMIT\tREASON")
	for _, found := range all {
		busiest, units, asked, share := "-", "-", "-", "-"
		var reasons []string
		for _, x := range found.Resources {
			for _, r := range x.Reasons {
				if !slices.Contains(reasons, r.Reason) {
					reasons = append(reasons, r.Reason)
				}
			}
		}
		if len(found.Resources) > 0 {
			x := found.Resources[0]
			rate, limit := x.Busiest.Share*float64(x.Busiest.Limit), float64(x.Busiest.Limit)
			busiest, units = fmt.Sprintf("partition %d of %d of %s", x.Busiest.Partition, x.Partitions, resourceName(x)), x.Units
			if x.Busiest.OfWhole {
				busiest, rate, limit = resourceName(x), x.Asked, float64(x.Rate)
			}
			asked, share = model.Figure(rounded(rate)), percentOf(rate/limit)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", found.File, countText(found.Throttled), busiest, units, asked, share, textOrDash(strings.Join(reasons, ", ")))
	}
	return out.Flush()
}

func (f *heatFlags) forecast(ctx context.Context, m *model.Model, o heat.Options, found *heatResult, stderr io.Writer) error {
	p := newProgressLine(stderr)
	defer p.end()
	if !f.measure {
		var err error
		o.Progress = func(share float64) { p.update("%.0f %% of %v", 100*share, o.For) }
		found.Forecast, err = heat.Run(m, o)
		return err
	}
	c, err := measureHeat(ctx, m, o, p)
	if err != nil {
		return err
	}
	found.Forecast, found.Measured = c.Forecast, &measuredHeat{c.Rows, c.Runs, c.Refused, c.Errors, c.Error}
	return nil
}

func (f *heatFlags) print(w io.Writer, found *heatResult) error {
	r := found.Forecast
	fmt.Fprintf(w, "%v of traffic, %s runs a second (--load %s, --seed %d)\n", f.duration, model.Figure(rounded(r.PerSecond)), f.load, r.Seed)
	if r.Weight > 1 {
		fmt.Fprintf(w, "Each simulated run stands for %s runs.\n", model.Figure(rounded(r.Weight)))
	}
	fmt.Fprintln(w)
	if err := printResources(w, r); err != nil {
		return err
	}
	if err := printHotKeys(w, r); err != nil {
		return err
	}
	const mostPlots = 3
	for i, x := range r.Resources {
		if i == mostPlots || i > 0 && x.Throttled == 0 {
			break
		}
		fmt.Fprintln(w)
		plotResource(w, x, widthFor(w))
	}
	fmt.Fprintln(w)
	if found.Measured != nil {
		if err := printMeasured(w, found.Measured); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	printHeatFindings(w, r)
	return nil
}

func printResources(w io.Writer, r *heat.Forecast) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TABLE\tINDEX\tUNITS\tPARTITIONS\tASKED/S\tSERVED/S\tREQUESTS\tTHROTTLED\tFIRST\tLAST\tREASON")
	for _, x := range r.Resources {
		throttled, first, last := "-", "-", "-"
		if x.Throttled > 0 {
			throttled = fmt.Sprintf("%s (%s)", model.Figure(rounded(x.Throttled)), percentOf(x.Throttled/x.Requests))
			first, last = timeOf(x.First, r.Seconds), timeOf(x.Last, r.Seconds)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.Table, textOrDash(x.Index), x.Units, partitionsText(x), model.Figure(rounded(x.Asked)), model.Figure(rounded(x.Served)),
			model.Figure(rounded(x.Requests)), throttled, first, last, textOrDash(reasonsOf(x)))
	}
	return out.Flush()
}

// partitionsText is the number of partitions at the beginning and at the end.
func partitionsText(x *heat.Resource) string {
	if len(x.Splits) == 0 {
		return fmt.Sprint(x.Partitions)
	}
	return fmt.Sprintf("%d → %d", x.Partitions, x.Splits[len(x.Splits)-1].Partitions)
}

func reasonsOf(x *heat.Resource) string {
	var all []string
	for _, r := range x.Reasons {
		all = append(all, r.Reason)
	}
	return strings.Join(all, ", ")
}

// rounded drops the digits of a figure that do not matter.
func rounded(n float64) float64 {
	switch {
	case n >= 10:
		return math.Round(n)
	case n >= 0.1 || n <= 0:
		return math.Round(100*n) / 100
	}
	scale := math.Pow(10, math.Floor(math.Log10(n))-1)
	return math.Round(n/scale) * scale
}

func percentOf(share float64) string {
	if share > 0 && share < 0.0995 {
		return fmt.Sprintf("%.1f %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// timeOf is a time of a simulation, as exact as the length of it needs.
func timeOf(seconds, length float64) string {
	switch n := int(seconds); {
	case length < 30:
		return fmt.Sprintf("%.1fs", seconds)
	case length < 3600:
		return fmt.Sprintf("%d:%02d", n/60, n%60)
	default:
		return fmt.Sprintf("%d:%02d:%02d", n/3600, n/60%60, n%60)
	}
}

// shortened is a key with its beginning and its end.
func shortened(key string) string {
	const most = 48
	text := []rune(key)
	if len(text) <= most {
		return key
	}
	return string(text[:most/2-1]) + "…" + string(text[len(text)-most/2:])
}

// printHotKeys prints the hottest keys of what is throttled, or else of everything.
func printHotKeys(w io.Writer, r *heat.Forecast) error {
	const mostKeys = 10
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\nHOTTEST KEY\tTABLE\tINDEX\tUNITS\tPARTITION\tASKED/S\tOF ITS LIMIT\tTHROTTLED")
	rows := 0
	for _, x := range r.Resources {
		if r.Throttled > 0 && x.Throttled == 0 {
			continue
		}
		for _, k := range x.Keys {
			if rows == mostKeys {
				return out.Flush()
			}
			rows++
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%d of %d\t%s\t%s\t%s\n", shortened(k.Key), x.Table, textOrDash(x.Index), x.Units, k.Partition, x.Partitions,
				model.Figure(rounded(k.Asked)), percentOf(k.Share), countText(k.Throttled))
			if r.Throttled == 0 && x.Keys[0].Share < 0.01 {
				break // one of the cool ones is enough
			}
		}
	}
	return out.Flush()
}

func countText(n float64) string {
	if n == 0 {
		return "-"
	}
	return model.Figure(rounded(n))
}

// printMeasured prints the forecast and what a server did, side by side.
func printMeasured(w io.Writer, r *measuredHeat) error {
	fmt.Fprintf(w, "The same %s on a server that throttles:\n\n", plural(r.Runs, "run"))
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TABLE\tINDEX\tWHAT\tFORECAST\tMEASURED\tDIFFERENCE")
	for _, x := range r.Rows {
		what := x.Units + " units"
		if x.Reason != "" {
			what = x.Reason
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", x.Table, textOrDash(x.Index), what, model.Figure(rounded(x.Forecast)), model.Figure(rounded(x.Measured)), differenceText(x.Forecast, x.Measured))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if r.Refused > 0 {
		fmt.Fprintf(w, "\nConditions rejected %s, which the forecast does not expect: other runs wrote the same items before.\n", plural(r.Refused, "run"))
	}
	return nil
}

func differenceText(forecast, measured float64) string {
	switch {
	case forecast == measured:
		return "-"
	case forecast == 0:
		return "not forecast"
	}
	return fmt.Sprintf("%+.1f %%", 100*(measured-forecast)/forecast)
}

// printHeatFindings prints what is throttled and what to change.
func printHeatFindings(w io.Writer, r *heat.Forecast) {
	paint := painterFor(w)
	if r.Throttled == 0 {
		text := "nothing is throttled"
		if len(r.Resources) > 0 {
			x := r.Resources[0]
			text += fmt.Sprintf("; the busiest partition, %d of %d of %s, is asked for %s of its %s %s units/s", x.Busiest.Partition, x.Partitions, resourceName(x), percentOf(x.Busiest.Share), model.Figure(float64(x.Busiest.Limit)), x.Units)
		}
		fmt.Fprintf(w, "%s%s\n", paint.status(model.StatusOK), text)
		return
	}
	for _, x := range r.Resources {
		if x.Throttled == 0 {
			continue
		}
		fmt.Fprintf(w, "%s%s: %s\n", paint.status("hot"), resourceName(x), findingText(x, r.Seconds))
		for _, a := range x.Advice {
			fmt.Fprintf(w, "         %s\n", a.Text)
		}
	}
}

func findingText(x *heat.Resource, length float64) string {
	text := fmt.Sprintf("%s of the %s requests are throttled, from %s to %s", percentOf(x.Throttled/x.Requests), x.Units, timeOf(x.First, length), timeOf(x.Last, length))
	if x.Busiest.OfWhole {
		text += fmt.Sprintf(": %s units/s are asked for, and it has %s", model.Figure(rounded(x.Asked)), model.Figure(float64(x.Rate)))
	} else {
		text += fmt.Sprintf(": partition %d of %d is asked for %s units/s, and serves %s", x.Busiest.Partition, x.Partitions, model.Figure(rounded(x.Busiest.Share*float64(x.Busiest.Limit))), model.Figure(float64(x.Busiest.Limit)))
	}
	const mostPatterns = 3
	by := x.Patterns[:min(mostPatterns, len(x.Patterns))]
	return text + fmt.Sprintf(" (%s)", strings.Join(by, ", "))
}

func resourceName(x *heat.Resource) string {
	if x.Index != "" {
		return x.Table + "." + x.Index
	}
	return x.Table
}
