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

// pebbleKind is Pebble in a child process, driven by requests over pipes.
var pebbleKind = kind{
	name: "pebble", about: "Pebble driven directly, synced", disk: true,
	only: []string{"put", "get", "get-zipf", "update", "query", "batch", "transact", "scan", "mix"},
	command: func(_ context.Context, _ *launcher, _, folder string, _ int) (*exec.Cmd, error) {
		return ceilingCommand("pebble", filepath.Join(folder, "data"))
	},
}

// pebbleRequest asks the child process to run a job or to load items.
type pebbleRequest struct {
	Items int  `json:"items"` // size of the table
	Run   *job `json:"run,omitempty"`
	From  int  `json:"from"`
	To    int  `json:"to"`
}

// pebbleResult is the result of a pebbleRequest.
type pebbleResult struct {
	Sample sample `json:"sample"`
	Error  string `json:"error,omitempty"`
}

// pebbleDriver is a driver that talks to the child process over pipes.
type pebbleDriver struct {
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
	go func() { // unblocks a reader that waits for a result
		<-t.process.exited
		_ = outEnd.CloseWithError(fmt.Errorf("the process of Pebble ended: %w; its output: %s", t.process.err, t.process.output))
	}()
	d := &pebbleDriver{items: items, in: in, out: json.NewDecoder(bufio.NewReader(out)), process: t.process}
	t.driver = d
	return d.load(ctx, tableItems, 0, 0) // a reply means that Pebble is open
}

func (d *pebbleDriver) prepare(ctx context.Context, _ bool) error {
	return d.load(ctx, tableItems, 0, d.items)
}

func (d *pebbleDriver) load(ctx context.Context, _ string, from, to int) error {
	_, err := d.send(ctx, pebbleRequest{Items: d.items, From: from, To: to})
	return err
}

func (d *pebbleDriver) run(ctx context.Context, j job) (sample, error) {
	return d.send(ctx, pebbleRequest{Items: d.items, Run: &j})
}

func (d *pebbleDriver) send(ctx context.Context, o pebbleRequest) (sample, error) {
	if err := json.NewEncoder(d.in).Encode(o); err != nil {
		return sample{}, fmt.Errorf("send a request to Pebble's process: %w", err)
	}
	// Cancelling the context stops the process, which ends the Decode below.
	stop := context.AfterFunc(ctx, d.process.stop)
	defer stop()
	var done pebbleResult
	if err := d.out.Decode(&done); err != nil {
		return sample{}, err
	}
	if done.Error != "" {
		return sample{}, errors.New(done.Error)
	}
	return done.Sample, nil
}
