package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
)

// pebbleKind is Pebble in a process of its own, driven by orders.
var pebbleKind = kind{
	name: "pebble", about: "Pebble driven directly, synced", disk: true,
	only: []string{"put", "get", "get-zipf", "update", "query", "batch", "transact", "scan", "mix"},
	command: func(_ context.Context, _ *workshop, _, folder string, _ int) (*exec.Cmd, error) {
		return ceilingCommand("pebble", filepath.Join(folder, "data"))
	},
}

// An order is what the process is asked to do: to run a job, or to load items.
type order struct {
	Items int  `json:"items"` // of the table
	Run   *job `json:"run,omitempty"`
	From  int  `json:"from"`
	To    int  `json:"to"`
}

// An outcome is what came of an order.
type outcome struct {
	Sample sample `json:"sample"`
	Error  string `json:"error,omitempty"`
}

// orders are the driver's end of the pipes.
type orders struct {
	items   int
	in      io.Writer
	out     *json.Decoder
	process *process
}

func (t *target) startPebble(ctx context.Context, items int, cmd *exec.Cmd) error {
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, outEnd := io.Pipe()
	cmd.Stdout = outEnd
	if t.process, err = startProcess(cmd); err != nil {
		return err
	}
	go func() { // who waits for an outcome learns that there will be none
		<-t.process.exited
		_ = outEnd.CloseWithError(fmt.Errorf("the process of Pebble ended: %w; it said: %s", t.process.err, t.process.said))
	}()
	d := &orders{items: items, in: in, out: json.NewDecoder(bufio.NewReader(out)), process: t.process}
	t.driver = d
	return d.load(ctx, tableItems, 0, 0) // an answer means that it is open
}

func (d *orders) prepare(ctx context.Context, _ bool) error {
	return d.load(ctx, tableItems, 0, d.items)
}

func (d *orders) load(ctx context.Context, _ string, from, to int) error {
	_, err := d.give(ctx, order{Items: d.items, From: from, To: to})
	return err
}

func (d *orders) run(ctx context.Context, j job) (sample, error) {
	return d.give(ctx, order{Items: d.items, Run: &j})
}

func (d *orders) give(ctx context.Context, o order) (sample, error) {
	if err := json.NewEncoder(d.in).Encode(o); err != nil {
		return sample{}, fmt.Errorf("give Pebble's process an order: %w", err)
	}
	// Who does not want to wait ends the process.
	stop := context.AfterFunc(ctx, d.process.stop)
	defer stop()
	var done outcome
	if err := d.out.Decode(&done); err != nil {
		return sample{}, err
	}
	if done.Error != "" {
		return sample{}, errors.New(done.Error)
	}
	return done.Sample, nil
}
