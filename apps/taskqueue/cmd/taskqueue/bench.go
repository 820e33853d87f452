package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/web"
	"github.com/stator-db/stator/apps/taskqueue/client"
)

// benching holds the flags of the benchmark.
type benching struct {
	server    string
	data      string
	queue     string
	rate      int
	span      time.Duration
	workers   int
	payload   int
	ceiling   time.Duration
	submitter int
	json      bool
}

func benchCommand() *cobra.Command {
	var o benching
	c := &cobra.Command{
		Use: "bench", Short: "Measure tasks from submission to completion, and verify each of them", Args: command.NoArgs,
		Long: `Measure tasks from submission to completion: submitted, claimed by a worker, completed.

First, tasks are submitted at a rate, each at its scheduled time whether or not
earlier requests have returned, so that a stall of the server is measured; then at
full speed. All requests use HTTP. At the end each task is read back: it must be
COMPLETED, have been run once, never twice at the same time, and equal the replay
of its events. Anything else is an error.

Without --server the queue runs in this process, with an embedded stator that syncs
each write to a folder.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.rate < 0 || o.workers < 1 || o.span < 0 || o.payload < 0 || o.submitter < 1 {
				return command.Usagef("--rate, --for and --payload must not be negative, --workers and --submitters at least 1")
			}
			return o.run(c.Context(), c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&o.server, "server", "", "URL of a task queue that runs already")
	f.StringVar(&o.data, "data", "", "folder for the data, which must not exist (default a temporary folder, which is removed)")
	f.StringVar(&o.queue, "queue", "bench", "queue to use, which must be empty")
	f.IntVar(&o.rate, "rate", 500, "tasks per second; 0 skips this part")
	f.DurationVar(&o.span, "for", time.Minute, "duration at that rate")
	f.IntVar(&o.workers, "workers", 50, "workers, each with one task at a time")
	f.IntVar(&o.payload, "payload", 300, "bytes of a payload")
	f.DurationVar(&o.ceiling, "ceiling", 15*time.Second, "duration at full speed; 0 skips this part")
	f.IntVar(&o.submitter, "submitters", 16, "submitters at full speed")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return c
}

// Part holds the results of one part.
type Part struct {
	Name        string  `json:"name"`
	Seconds     float64 `json:"seconds"`
	Submitted   int     `json:"submitted"`
	Completed   int     `json:"completed"`
	PerSecond   float64 `json:"perSecond"` // completed tasks
	Submit      Spread  `json:"submitMilliseconds"`
	Life        Spread  `json:"lifeMilliseconds"` // from submission to the reply to complete
	CoresUsed   float64 `json:"coresUsed,omitempty"`
	RunTwice    int     `json:"runTwice"`
	Overlapping int     `json:"overlapping"`
	Refused     int     `json:"refused"`
	Wrong       int     `json:"wrong"` // not COMPLETED, or different from the replayed events
	First       string  `json:"first,omitempty"`
}

func (o *benching) run(ctx context.Context, out io.Writer) error {
	url, stop, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var parts []Part
	if o.rate > 0 {
		fmt.Fprintf(os.Stderr, "%d tasks per second for %v, %d workers\n", o.rate, o.span, o.workers)
		p, err := o.part(ctx, url, "rate", o.span, true)
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	if o.ceiling > 0 {
		fmt.Fprintf(os.Stderr, "full speed for %v, %d submitters, %d workers\n", o.ceiling, o.submitter, o.workers)
		p, err := o.part(ctx, url, "ceiling", o.ceiling, false)
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	if err := o.print(out, parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Wrong > 0 || p.RunTwice > 0 || p.Overlapping > 0 || p.Completed != p.Submitted {
			return fmt.Errorf("%d tasks were submitted and %d completed; %d were run twice, %d twice at once, %d are wrong: %s", p.Submitted, p.Completed, p.RunTwice, p.Overlapping, p.Wrong, p.First)
		}
	}
	return nil
}

func (o *benching) print(out io.Writer, parts []Part) error {
	a := asking{json: o.json}
	return a.print(out, parts, "PART TASKS LIVES/S SUBMIT-P50 SUBMIT-P99 SUBMIT-P99.9 LIFE-P50 LIFE-P99 CORES REFUSED RUN-TWICE WRONG", func(row func(...any)) {
		for _, p := range parts {
			row(p.Name, p.Submitted, fmt.Sprintf("%.0f", p.PerSecond), ms(p.Submit.P50), ms(p.Submit.P99), ms(p.Submit.P999), ms(p.Life.P50), ms(p.Life.P99),
				fmt.Sprintf("%.2f/%d", p.CoresUsed, runtime.NumCPU()), p.Refused, p.RunTwice+p.Overlapping, p.Wrong)
		}
	})
}

func ms(v float64) string { return fmt.Sprintf("%.1fms", v) }

// start connects to the server, or starts one in this process.
func (o *benching) start(ctx context.Context) (url string, stop func(), err error) {
	if o.server != "" {
		return o.server, func() {}, nil
	}
	remove := func() {}
	if o.data == "" {
		if o.data, err = os.MkdirTemp("", "taskqueue-bench-"); err != nil {
			return "", nil, err
		}
		remove = func() {
			if err := os.RemoveAll(o.data); err != nil {
				fmt.Fprintf(os.Stderr, "removing the benchmark's folder failed: %v\n", err)
			}
		}
	} else if _, err := os.Stat(o.data); err == nil {
		return "", nil, command.Usagef("--data is %s, which exists: choose another", o.data)
	}
	s := serving{address: web.Address{Listen: "127.0.0.1:0"}}
	s.home.Data = o.data
	s.queue.Keep, s.queue.KeepKey, s.queue.MaxAge, s.queue.MaxKnown = 24*time.Hour, time.Hour, 24*time.Hour, 200_000
	ctx, cancel := context.WithCancel(ctx)
	started, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- s.serve(ctx, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), func(address, _ string) { started <- address })
	}()
	stop = func() {
		cancel()
		<-ended
		remove()
	}
	select {
	case address := <-started:
		return "http://" + address, stop, nil
	case err := <-ended:
		cancel()
		remove()
		return "", nil, err
	}
}

func payloadOf(n int) json.RawMessage {
	b := make([]byte, max(2, n))
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	b[0], b[len(b)-1] = '"', '"'
	return b
}

func newClient(url string) *client.Client {
	c := client.New(url)
	c.Patience = 20 * time.Second
	return c
}
