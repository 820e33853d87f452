package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// A report holds the results of a run. Its JSON names are stable; unknown figures
// are omitted.
type report struct {
	Date    time.Time  `json:"date"`
	Machine machine    `json:"machine"`
	Command []string   `json:"command"` // the arguments of this program
	Figures []figures  `json:"workloads,omitempty"`
	Ages    []figures  `json:"ages,omitempty"`
	Cold    []coldLine `json:"cold,omitempty"`
	Grow    []growLine `json:"grow,omitempty"`
}

// A machine describes where the figures were measured.
type machine struct {
	CPUs        int    `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	System      string `json:"system"`
	Go          string `json:"go"`
}

func thisMachine() machine {
	m := machine{CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.MemoryBytes = kilobytes(text, "MemTotal:") << 10
	}
	return m
}

// figures are the results of one target, workload and number of connections.
type figures struct {
	Workload       string    `json:"workload"`
	Connections    int       `json:"connections"`
	Target         string    `json:"target"`
	OpsPerSecond   float64   `json:"ops_per_second"`
	ItemsPerSecond float64   `json:"items_per_second"`
	MBPerSecond    float64   `json:"mb_per_second"` // item bytes, in millions
	Rounds         []float64 `json:"items_per_second_by_round"`
	P50            float64   `json:"p50_us"`
	P99            float64   `json:"p99_us"`
	P999           float64   `json:"p999_us"`
	CPU            float64   `json:"cpu_us_per_op,omitempty"`
	Ratio          float64   `json:"ratio,omitempty"`     // items per second relative to the first target
	P50Ratio       float64   `json:"p50_ratio,omitempty"` // relative to the first target
	Sent           float64   `json:"sent_bytes_per_op,omitempty"`
	Received       float64   `json:"received_bytes_per_op,omitempty"`
	Errors         int64     `json:"errors"`
	FirstError     string    `json:"first_error,omitempty"`
}

// summarise omits workloads that a target does not support.
func summarise(cells []*cell, targets int) []figures {
	var all []figures
	for i, c := range cells {
		if c.able {
			all = append(all, c.figures(cells[i-i%targets]))
		}
	}
	return all
}

func (c *cell) figures(first *cell) figures {
	f := figures{
		Workload: c.workload.name, Connections: c.connections, Target: c.target.name,
		ItemsPerSecond: median(c.rounds), Rounds: c.rounds, Ratio: c.ratio(first),
		P50:    micros(c.sum.Latency.quantile(0.5)),
		P99:    micros(c.sum.Latency.quantile(0.99)),
		P999:   micros(c.sum.Latency.quantile(0.999)),
		Errors: c.sum.Errors, FirstError: c.sum.First,
	}
	if c.sum.Items > 0 {
		f.OpsPerSecond = f.ItemsPerSecond * c.sum.Ops / c.sum.Items
	}
	if base := first.sum.Latency.quantile(0.5); base > 0 {
		f.P50Ratio = f.P50 / micros(base)
	}
	f.MBPerSecond = f.ItemsPerSecond * itemBytes / 1e6
	if c.sum.AllOps > 0 {
		f.Sent, f.Received = float64(c.sum.Sent)/float64(c.sum.AllOps), float64(c.sum.Received)/float64(c.sum.AllOps)
	}
	if c.cpuKnown && c.sum.AllOps > 0 {
		f.CPU = micros(c.cpu) / float64(c.sum.AllOps)
	}
	return f
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// print writes the report as text.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %d CPUs, %s of memory, %s, %s\n", r.Date.Format(time.DateOnly), r.Machine.CPUs,
		megabytes(r.Machine.MemoryBytes), r.Machine.System, r.Machine.Go)
	for _, part := range []struct {
		title string
		rows  [][]string
	}{
		{"Workloads", figureRows(r.Figures)},
		{"Tables of several sizes", figureRows(r.Ages)},
		{"Time from start to the first reply, and memory at rest", coldRows(r.Cold)},
		{"After loading", growRows(r.Grow)},
	} {
		if len(part.rows) > 1 {
			fmt.Fprintf(w, "\n%s\n\n%s", part.title, align(part.rows))
		}
	}
	r.printErrors(w)
}

func figureRows(all []figures) [][]string {
	rows := [][]string{{"WORKLOAD", "CONNECTIONS", "TARGET", "OPS/S", "RATIO", "P50 us", "RATIO", "P99 us", "P99.9 us", "CPU us/OP", "B SENT", "B RECEIVED", "ITEMS/S", "MB/S", "ERRORS"}}
	for i, f := range all {
		if i > 0 && (f.Workload != all[i-1].Workload || f.Connections != all[i-1].Connections) {
			rows = append(rows, nil)
		}
		rows = append(rows, []string{
			f.Workload, fmt.Sprint(f.Connections), f.Target,
			figure(f.OpsPerSecond, 0), figure(f.Ratio, 3),
			figure(f.P50, 0), figure(f.P50Ratio, 2), figure(f.P99, 0), figure(f.P999, 0), figure(f.CPU, 0), figure(f.Sent, 0), figure(f.Received, 0),
			figure(f.ItemsPerSecond, 0), figure(f.MBPerSecond, 1), thousands(float64(f.Errors)),
		})
	}
	return rows
}

// printErrors prints the first error of each target and workload.
func (r *report) printErrors(w io.Writer) {
	printed := map[string]bool{}
	for _, f := range append(r.Figures[:len(r.Figures):len(r.Figures)], r.Ages...) {
		line := fmt.Sprintf("%s, %s: %s\n", f.Target, f.Workload, f.FirstError)
		if f.FirstError == "" || printed[line] {
			continue
		}
		if len(printed) == 0 {
			fmt.Fprintf(w, "\nFirst errors\n\n")
		}
		printed[line] = true
		io.WriteString(w, line)
	}
}

// writeJSON writes the report as JSON.
func (r *report) writeJSON(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// align formats rows as columns, text to the left and numbers to the right. A nil
// row is an empty line.
func align(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	right := make([]bool, len(rows[0]))
	for i := range widths {
		for n, row := range rows {
			if row == nil {
				continue
			}
			widths[i] = max(widths[i], len(row[i]))
			if n > 0 && strings.ContainsAny(row[i][:1], "0123456789") {
				right[i] = true
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, text := range row {
			space := strings.Repeat(" ", widths[i]-len(text))
			if right[i] {
				line += space + text + "  "
			} else {
				line += text + space + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// figure formats a number; an unknown one is a dash.
func figure(v float64, decimals int) string {
	switch {
	case v == 0:
		return "-"
	case decimals == 0:
		return thousands(v)
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// thousands formats a number without decimals, with commas.
func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// megabytes formats a size; an unknown one is a dash.
func megabytes(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return thousands(float64(bytes)/1e6) + " MB"
}
