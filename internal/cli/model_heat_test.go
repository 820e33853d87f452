package cli

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

const (
	hotKeysModel = "../../examples/models/hot-keys.model.yaml"
	shardedModel = "../../examples/models/hot-keys-sharded.model.yaml"
	queueModel   = "../../apps/taskqueue/taskqueue.model.yaml"
)

// The command shows a partition that is throttled at 1,000 units, and that the same load
// with write sharding is not.
func TestModelHeat(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"ten hot keys", []string{hotKeysModel, "--for", "4m"}, 1, []string{
			"TableWriteKeyRangeThroughputExceeded", "ledger, partition ", "  1,000 ┼", "░", "shard the key ACCOUNT#{accountId} by ", "or give it a warm throughput of ", "and serves 1,000 (add entry)"}},
		{"with write sharding", []string{shardedModel, "--for", "4m"}, 0, []string{"ok       nothing is throttled; the busiest partition, ", "  1,000 ┼╌╌╌"}},
		{"a multiple of the rates", []string{shardedModel, "--load", "2x", "--for", "2m"}, 1, []string{"give it a warm throughput of 7,000 write units before the peak: 7 partitions"}},
		{"provisioned instead", []string{shardedModel, "--read-units", "100", "--write-units", "500", "--for", "1m"}, 1, []string{"TableWriteProvisionedThroughputExceeded", "or set billing: on-demand"}},
		{"runs a second", []string{queueModel, "--load", "10", "--for", "1m"}, 0, []string{"10 runs a second"}},
		{"as JSON", []string{hotKeysModel, "--json", "--for", "1m"}, 1, []string{`"reason": "TableWriteKeyRangeThroughputExceeded"`, `"ok": false`}},
		{"no rate", []string{hotKeysModel, "--load", "x"}, 2, []string{"--load: "}},
		{"one kind of units", []string{hotKeysModel, "--write-units", "5"}, 2, []string{"must both be given"}},
		{"two billing modes", []string{hotKeysModel, "--on-demand", "--write-units", "5", "--read-units", "5"}, 2, []string{"cannot be combined"}},
		{"no time", []string{hotKeysModel, "--for", "0s"}, 2, []string{"--for is 0s"}},
		{"no file", nil, 2, []string{"needs one or more files"}},
		{"no such file", []string{"missing.model.yaml"}, 2, []string{"cannot read the model"}},
		{"more than a server is sent", []string{queueModel, "--measure", "--for", "1h"}, 1, []string{"use a lower --load or a shorter --for"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runStator(t, append([]string{"model", "heat"}, c.args...)...)
			if code != c.code {
				t.Errorf("the exit code is %d, want %d: %s", code, c.code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout+stderr, want) {
					t.Errorf("%q is not in\n%s%s", want, stdout, stderr)
				}
			}
			for line := range strings.Lines(stdout) {
				if strings.ContainsAny(line, "┤┼└") && len([]rune(line)) > 81 {
					t.Errorf("a line of a plot has %d columns: %s", len([]rune(line)), line)
				}
			}
		})
	}
}

// One command compares models: the same load with and without write sharding.
func TestModelHeatOfSeveralModels(t *testing.T) {
	code, stdout, stderr := runStator(t, "model", "heat", hotKeysModel, shardedModel, "--for", "1m")
	if code != 1 || !strings.Contains(stderr, hotKeysModel+": ") || strings.Contains(stderr, shardedModel) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if n := strings.Count(stdout, "ledger, partition "); n != 2 {
		t.Errorf("%d plots of 2", n)
	}
	_, compared, found := strings.Cut(stdout, "\nMODEL ")
	rows := strings.Split(strings.TrimSpace(compared), "\n")
	if !found || len(rows) != 3 || !strings.HasPrefix(rows[1], hotKeysModel) || !strings.Contains(rows[1], "TableWriteKeyRangeThroughputExceeded") ||
		!strings.HasPrefix(rows[2], shardedModel) || strings.Contains(rows[2], "Exceeded") {
		t.Errorf("the comparison is\n%s", compared)
	}
	code, stdout, stderr = runStator(t, "model", "heat", shardedModel, hotKeysModel, "--for", "1m", "--json")
	var all []heatResult
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != 1 || len(all) != 2 || !all[0].OK || all[1].OK {
		t.Errorf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
}

// A server does with the same requests what is forecast: the units of each table and index,
// and how many requests are throttled for which reason. Queries of the task queue's
// indexes find tasks of other runs, which the model does not predict.
func TestHeatIsAsMeasured(t *testing.T) {
	for _, c := range []struct {
		name      string
		args      []string
		throttled string // a reason that occurs
		within    float64
	}{
		{"the task queue at its peak rates", []string{queueModel, "--for", "2s"}, "", 0.01},
		{"the task queue with few units", []string{queueModel, "--for", "2s", "--read-units", "300", "--write-units", "600"}, "TableWriteProvisionedThroughputExceeded", 0.05},
		{"ten hot keys", []string{hotKeysModel, "--for", "8s"}, "TableWriteKeyRangeThroughputExceeded", 0},
		{"with write sharding", []string{shardedModel, "--for", "4s"}, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, stdout, stderr := runStator(t, append([]string{"model", "heat", "--measure", "--json"}, c.args...)...)
			var found heatResult
			if err := json.Unmarshal([]byte(stdout), &found); err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			if found.Measured.Errors > 0 || len(found.Measured.Rows) == 0 {
				t.Errorf("%+v", found.Measured)
			}
			reasons := make(map[string]bool)
			for _, x := range found.Measured.Rows {
				reasons[x.Reason] = true
				if x.Units == "read" && x.Index != "" {
					continue
				}
				if math.Abs(x.Measured-x.Forecast) > c.within*max(x.Forecast, 100) {
					t.Errorf("%s %s %s %s: forecast %v, measured %v", x.Table, x.Index, x.Units, x.Reason, x.Forecast, x.Measured)
				}
			}
			if c.throttled != "" && !reasons[c.throttled] {
				t.Errorf("nothing is throttled for %s", c.throttled)
			}
			if c.throttled == "" && len(reasons) > 1 {
				t.Errorf("throttled: %v", reasons)
			}
		})
	}
}

// The times below a plot fit, whatever the length of a simulation.
func TestTimeAxis(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		columns int
		want    string // the last time
	}{{10, 70, "10.0s"}, {600, 30, "10:00"}, {3600, 70, "1:00:00"}, {100 * 3600, 70, "100:00:00"}, {168 * 3600, 190, "168:00:00"}} {
		if got := timeAxis(c.seconds, c.columns); !strings.HasSuffix(got, c.want) {
			t.Errorf("the times of %v seconds are %q", c.seconds, got)
		}
	}
}

// A plot that is narrower than its data keeps the peaks.
func TestResampled(t *testing.T) {
	series := make([]float64, 60)
	for i := range series {
		series[i] = float64(i % 7)
	}
	series[31] = 99
	for _, n := range []int{10, 30, 59, 60, 61, 190} {
		if got := resampled(series, n); len(got) != n || slices.Max(got) != 99 {
			t.Errorf("%d columns: %v", n, got)
		}
	}
}
