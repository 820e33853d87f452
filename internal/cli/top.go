package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model/apply"
)

// topFlags are the flags of stator top.
type topFlags struct {
	endpointFlags
	every time.Duration
	once  bool
	json  bool
	rows  int
}

func topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what a server does: tables, indexes, operations, throttles, its DAX cache and the hottest keys",
		Long: `Show what the tables and indexes of a running server consume, how long its operations
take, what is throttled, and which keys are hottest, every two seconds until it is
interrupted. Keys are shown for tables and indexes with Contributor Insights:

  aws dynamodb update-contributor-insights --table-name Orders \
      --contributor-insights-action ENABLE --endpoint-url http://127.0.0.1:8000
  stator top --endpoint http://127.0.0.1:8000`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.every < 100*time.Millisecond {
				return usageError{fmt.Errorf("--every is %v, but must be at least 100ms", f.every)}
			}
			if f.rows < 1 {
				return usageError{fmt.Errorf("--rows is %d, but must be at least 1", f.rows)}
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd, "URL of the server")
	durationVar(cmd, &f.every, "every", 2*time.Second, "time between two views; rates are those of this time")
	cmd.Flags().BoolVar(&f.once, "once", false, "print one view and end")
	cmd.Flags().BoolVar(&f.json, "json", false, "print each view as a line of JSON")
	cmd.Flags().IntVar(&f.rows, "rows", 10, "rows of each part of the view")
	return cmd
}

// clearScreen moves the cursor to the upper left corner and clears the terminal.
const clearScreen = "\x1b[H\x1b[2J"

func (f *topFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	server, err := f.open()
	if err != nil {
		return err
	}
	server.Uncounted = true
	before, err := scrape(ctx, server)
	if err != nil {
		return fmt.Errorf("cannot read the metrics of %s: %w", f.endpoint, err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.every):
		}
		after, err := scrape(ctx, server)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if err = fmt.Errorf("cannot read the metrics of %s: %w", f.endpoint, err); f.once {
				return err
			}
			fmt.Fprintln(stderr, err) // it may be restarted
			continue
		}
		view := viewOf(before, after)
		// A table or its rules may be deleted meanwhile.
		if view.Keys, err = hottestKeys(ctx, server, after.at); err != nil && f.once {
			return fmt.Errorf("cannot read the hottest keys of %s: %w", f.endpoint, err)
		}
		if err := f.print(stdout, view); err != nil {
			return err
		}
		if f.once {
			return nil
		}
		before = after
	}
}

// activityTime is the time that the rates of activity are of.
const activityTime = 500 * time.Millisecond

// activity returns one view of what a server does.
func activity(ctx context.Context, server *apply.Endpoint) (*topView, error) {
	before, err := scrape(ctx, server)
	if err != nil {
		return nil, err
	}
	if err := apply.Sleep(ctx, activityTime); err != nil {
		return nil, err
	}
	after, err := scrape(ctx, server)
	if err != nil {
		return nil, err
	}
	view := viewOf(before, after)
	view.Keys, err = hottestKeys(ctx, server, after.at)
	return view, err
}

func (f *topFlags) print(w io.Writer, view *topView) error {
	if f.json {
		return json.NewEncoder(w).Encode(view)
	}
	if !f.once {
		fmt.Fprint(w, clearScreen)
	}
	_, err := io.WriteString(w, view.text(f.rows))
	return err
}

// scraped is the metrics of a server at a time, by their names with labels.
type scraped struct {
	at     time.Time
	values map[promSeries]float64
}

// promSeries identifies a value.
type promSeries struct{ name, table, index, operation, bound string }

func scrape(ctx context.Context, server *apply.Endpoint) (*scraped, error) {
	text, err := server.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return &scraped{time.Now(), parseMetrics(string(text))}, nil
}

// parseMetrics parses the text format of Prometheus, as far as a stator writes it. It
// skips lines that it does not understand.
func parseMetrics(text string) map[promSeries]float64 {
	values := make(map[promSeries]float64)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(line[at+1:], &v); err != nil {
			continue
		}
		name, labels, _ := strings.Cut(strings.TrimSuffix(line[:at], "}"), "{")
		s := promSeries{name: name}
		for label := range strings.SplitSeq(labels, `",`) { // names of tables have no quotes
			key, value, _ := strings.Cut(label, `="`)
			value = strings.TrimSuffix(value, `"`)
			switch key {
			case "table":
				s.table = value
			case "index":
				s.index = value
			case "operation":
				s.operation = value
			case "le":
				s.bound = value
			}
		}
		values[s] = v
	}
	return values
}

// topView is what stator top shows.
type topView struct {
	At         time.Time      `json:"at"`
	Seconds    float64        `json:"seconds"` // that the rates are of
	Waiting    float64        `json:"waiting"` // requests
	Tables     []topTable     `json:"tables"`
	Operations []topOperation `json:"operations"`
	Keys       []topKey       `json:"keys"`
	Cache      *topCache      `json:"cache,omitempty"` // nil if the server has none
}

// topTable is what a table or an index consumes, per second.
type topTable struct {
	Table            string  `json:"table"`
	Index            string  `json:"index,omitempty"`
	Read             float64 `json:"read"`
	Write            float64 `json:"write"`
	ProvisionedRead  float64 `json:"provisionedRead,omitempty"`
	ProvisionedWrite float64 `json:"provisionedWrite,omitempty"`
	Throttled        float64 `json:"throttled"`
}

// topOperation is the requests of an operation.
type topOperation struct {
	Operation string  `json:"operation"`
	Requests  float64 `json:"requests"` // per second
	Median    float64 `json:"medianMilliseconds"`
	P99       float64 `json:"p99Milliseconds"`
}

// topKey is a hot key, with what it has consumed or how often it was throttled in the
// present minute.
type topKey struct {
	Table string   `json:"table"`
	Index string   `json:"index,omitempty"`
	Kind  string   `json:"kind"` // accessed or throttled
	Key   []string `json:"key"`
	Value float64  `json:"value"`
	Share float64  `json:"share"` // of all keys
}

// viewOf returns the rates between two scrapes.
func viewOf(before, after *scraped) *topView {
	seconds := max(after.at.Sub(before.at).Seconds(), 1e-3)
	v := &topView{At: after.at.UTC(), Seconds: seconds, Waiting: after.values[promSeries{name: "stator_requests_waiting"}],
		Tables: []topTable{}, Operations: []topOperation{}, Keys: []topKey{}}
	rate := func(s promSeries) float64 {
		// A counter that is smaller than before belongs to a server that was started again.
		if was := before.values[s]; was <= after.values[s] {
			return (after.values[s] - was) / seconds
		}
		return after.values[s] / seconds
	}
	tables, operations := make(map[promSeries]bool), make(map[string]bool)
	for s := range after.values {
		switch s.name {
		case latencyName + "_count":
			operations[s.operation] = true
		case "dynamodb_consumed_read_capacity_units_total", "dynamodb_consumed_write_capacity_units_total",
			"dynamodb_provisioned_read_capacity_units", "dynamodb_on_demand_max_read_request_units",
			"dynamodb_read_throttle_events_total", "dynamodb_write_throttle_events_total":
			tables[promSeries{table: s.table, index: s.index}] = true
		}
	}
	for t := range tables {
		named := func(name string) promSeries {
			return promSeries{name: "dynamodb_" + name, table: t.table, index: t.index}
		}
		v.Tables = append(v.Tables, topTable{
			Table: t.table, Index: t.index,
			Read: rate(named("consumed_read_capacity_units_total")), Write: rate(named("consumed_write_capacity_units_total")),
			ProvisionedRead: after.values[named("provisioned_read_capacity_units")], ProvisionedWrite: after.values[named("provisioned_write_capacity_units")],
			Throttled: rate(named("read_throttle_events_total")) + rate(named("write_throttle_events_total")),
		})
	}
	slices.SortFunc(v.Tables, func(a, b topTable) int {
		return cmp.Or(cmp.Compare(b.Throttled, a.Throttled), cmp.Compare(b.Read+3*b.Write, a.Read+3*a.Write), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Index, b.Index))
	})
	for _, name := range slices.Sorted(maps.Keys(operations)) {
		o := topOperation{Operation: name, Requests: rate(promSeries{name: latencyName + "_count", operation: name})}
		if o.Requests > 0 {
			o.Median, o.P99 = latencyOf(before, after, name, 0.5), latencyOf(before, after, name, 0.99)
			v.Operations = append(v.Operations, o)
		}
	}
	slices.SortStableFunc(v.Operations, func(a, b topOperation) int { return cmp.Compare(b.Requests, a.Requests) })
	v.Cache = cacheOf(after, rate)
	return v
}

const latencyName = "dynamodb_successful_request_latency_seconds"

// latencyOf returns the upper bound, in milliseconds, of the bucket that has a quantile of the
// requests between two scrapes.
func latencyOf(before, after *scraped, operation string, share float64) float64 {
	type bucket struct{ bound, count float64 }
	var buckets []bucket
	for s, n := range after.values {
		if s.name != latencyName+"_bucket" || s.operation != operation {
			continue
		}
		var bound float64
		if _, err := fmt.Sscan(s.bound, &bound); err != nil {
			continue
		}
		if was := before.values[s]; was <= n {
			n -= was
		}
		buckets = append(buckets, bucket{bound, n})
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	for _, b := range buckets {
		if b.count >= share*buckets[len(buckets)-1].count {
			return 1000 * b.bound
		}
	}
	return 0
}

// hottestKeys asks for the keys of all tables and indexes that have rules.
func hottestKeys(ctx context.Context, server *apply.Endpoint, now time.Time) ([]topKey, error) {
	keys := []topKey{}
	send := apply.Send(server.Send)
	var listed struct {
		ContributorInsightsSummaries []struct{ TableName, IndexName string }
	}
	if err := send.Ask(ctx, "ListContributorInsights", struct{}{}, &listed); err != nil {
		return keys, err
	}
	for _, of := range listed.ContributorInsightsSummaries {
		body := map[string]string{"TableName": of.TableName}
		if of.IndexName != "" {
			body["IndexName"] = of.IndexName
		}
		var described struct{ ContributorInsightsRuleList []string }
		if err := send.Ask(ctx, "DescribeContributorInsights", body, &described); err != nil {
			return keys, err
		}
		for _, rule := range described.ContributorInsightsRuleList {
			found, err := keysOf(ctx, server, rule, now)
			if err != nil {
				return keys, err
			}
			for _, k := range found {
				k.Table, k.Index = of.TableName, of.IndexName
				keys = append(keys, k)
			}
		}
	}
	slices.SortStableFunc(keys, func(a, b topKey) int { return cmp.Compare(b.Value, a.Value) })
	return keys, nil
}

// keysOf asks for the keys of a rule of partitions in the present minute and the one
// before. Those of items are left out: they repeat the partitions.
func keysOf(ctx context.Context, server *apply.Endpoint, rule string, now time.Time) (keys []topKey, err error) {
	kind := ""
	switch {
	case strings.HasPrefix(rule, "DynamoDBContributorInsights-PKC-"):
		kind = "accessed"
	case strings.HasPrefix(rule, "DynamoDBContributorInsights-PKT-"):
		kind = "throttled"
	default:
		return nil, nil
	}
	from := now.Add(-time.Minute).Truncate(time.Minute)
	reply, err := server.SendWatch(ctx, "GetInsightRuleReport", map[string]any{
		"RuleName": rule, "StartTime": from.Unix(), "EndTime": now.Add(time.Minute).Unix(), "Period": 60, "MaxContributorCount": 10})
	if err != nil {
		return nil, err
	}
	var report struct {
		AggregateValue float64
		Contributors   []struct {
			Keys                      []string
			ApproximateAggregateValue float64
		}
	}
	if err := json.Unmarshal(reply, &report); err != nil {
		return nil, fmt.Errorf("read the report of rule %s: %w", rule, err)
	}
	for _, c := range report.Contributors {
		keys = append(keys, topKey{Kind: kind, Key: c.Keys, Value: c.ApproximateAggregateValue, Share: c.ApproximateAggregateValue / max(report.AggregateValue, 1e-9)})
	}
	return keys, nil
}

// text returns the view for a terminal.
func (v *topView) text(rows int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s   the last %.1f s   %.0f requests wait\n\n", v.At.Format(time.TimeOnly), v.Seconds, v.Waiting)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TABLE\tINDEX\tREAD/S\tOF\tWRITE/S\tOF\tTHROTTLED/S")
	for _, t := range v.Tables[:min(rows, len(v.Tables))] {
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%s\t%.1f\t%s\t%.1f\n", t.Table, t.Index, t.Read, unitsOf(t.ProvisionedRead), t.Write, unitsOf(t.ProvisionedWrite), t.Throttled)
	}
	_ = w.Flush() // of a strings.Builder
	if n := len(v.Tables) - rows; n > 0 {
		fmt.Fprintf(&b, "… %d more\n", n)
	}
	fmt.Fprintln(&b)
	fmt.Fprintln(w, "OPERATION\tREQUESTS/S\tMEDIAN\tP99")
	for _, o := range v.Operations[:min(rows, len(v.Operations))] {
		fmt.Fprintf(w, "%s\t%.1f\t%s\t%s\n", o.Operation, o.Requests, bounded(o.Median), bounded(o.P99))
	}
	_ = w.Flush()
	if v.Cache != nil {
		fmt.Fprintln(&b)
		b.WriteString(v.Cache.text())
	}
	if len(v.Keys) > 0 {
		fmt.Fprintln(&b)
		fmt.Fprintln(w, "HOTTEST KEY\tTABLE\tINDEX\tKIND\tLAST 2 MIN\tSHARE")
		for _, k := range v.Keys[:min(rows, len(v.Keys))] {
			fmt.Fprintf(w, "%.40q\t%s\t%s\t%s\t%.1f\t%.0f %%\n", strings.Join(k.Key, " "), k.Table, k.Index, k.Kind, k.Value, 100*k.Share)
		}
		_ = w.Flush()
	}
	return b.String()
}

// unitsOf returns provisioned units; nothing for on-demand tables.
func unitsOf(units float64) string {
	if units == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", units)
}

// bounded returns the upper bound of a latency in milliseconds.
func bounded(ms float64) string {
	if ms > 1e6 {
		return "> 10 s"
	}
	return fmt.Sprintf("≤ %g ms", ms)
}
