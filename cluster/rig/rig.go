//go:build linux

// Package rig runs a cluster for tests: three PD and three stores, each a
// process of its own that can be killed and started again.
//
// A cluster starts only in a process that has a network of its own, so that
// its ports are free and not reachable from outside: see Namespace. The
// programs are built by `make cluster-binaries`.
package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Size is how many PD and how many stores a cluster has.
const Size = 3

// startLimit is how long Start waits for a cluster to be whole. A cold start
// takes 15 s on two idle cores.
const startLimit = 2 * time.Minute

// Options say where a cluster finds its programs and keeps its data.
type Options struct {
	// Bin is the folder with pd-server and unistore-server.
	Bin string
	// Dir is the folder for data and logs. A cluster started in the folder of
	// an earlier one continues it.
	Dir string
	// Log receives what is started, killed and awaited; nil disables logging.
	Log *slog.Logger
	// Sync makes the stores sync each write to disk. Without it a write
	// survives kill -9, not a power cut.
	Sync bool
}

// Cluster is a running cluster. Its servers are numbered from 0. Its methods
// are safe for concurrent use, except Close.
type Cluster struct {
	pd       [Size]*server
	stores   [Size]*server
	launcher *launcher
	client   *http.Client
	log      *slog.Logger
}

// Start starts a cluster and returns when all its servers work and every
// region has a voter on each store. When it fails, nothing is left running.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := isolated(); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	c, err := prepare(o)
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := c.start(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("start cluster in %s: %w", o.Dir, err)
	}
	return c, nil
}

func prepare(o Options) (*Cluster, error) {
	bin, err := filepath.Abs(o.Bin)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	for _, program := range []string{pdProgram, storeProgram} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			return nil, fmt.Errorf("%w: build it with `make cluster-binaries`", err)
		}
	}
	if err := writeSettings(dir); err != nil {
		return nil, err
	}
	c := &Cluster{
		launcher: newLauncher(),
		client:   &http.Client{Timeout: askLimit},
		log:      o.Log,
	}
	for i := range Size {
		c.pd[i] = newPD(bin, dir, i)
		c.stores[i] = newStore(bin, dir, i, o.Sync)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	began := time.Now()
	for i := range Size {
		if err := c.StartPD(i); err != nil {
			return err
		}
	}
	if err := Await(ctx, c.led); err != nil {
		return err
	}
	c.log.Info("PD has a leader", "after", time.Since(began))
	for i := range Size {
		if err := c.StartStore(i); err != nil {
			return err
		}
	}
	if err := Await(ctx, c.dropKeyspaceRule); err != nil {
		return err
	}
	if err := Await(ctx, c.Healthy); err != nil {
		return err
	}
	c.log.Info("cluster is healthy", "after", time.Since(began))
	return nil
}

// Await repeats a check until it passes. It returns the last error if ctx
// ends before that, or if a server ended by itself.
func Await(ctx context.Context, check func(context.Context) error) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := check(ctx)
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w, at the end: %w", context.Cause(ctx), err)
		case <-again.C:
		}
	}
}

// PD returns the addresses of the three PD, for clients.
func (c *Cluster) PD() []string { return addresses(c.pd) }

// Stores returns the addresses of the three stores.
func (c *Cluster) Stores() []string { return addresses(c.stores) }

// KillStore kills a store with SIGKILL, and returns when it has ended.
func (c *Cluster) KillStore(i int) { c.kill(c.stores[i]) }

// KillPD kills a PD with SIGKILL, and returns when it has ended.
func (c *Cluster) KillPD(i int) { c.kill(c.pd[i]) }

// StartStore starts a store that was killed. It does not wait until the store
// serves; Healthy reports that.
func (c *Cluster) StartStore(i int) error { return c.launch(c.stores[i]) }

// StartPD starts a PD that was killed. It does not wait until the PD serves;
// Healthy reports that.
func (c *Cluster) StartPD(i int) error { return c.launch(c.pd[i]) }

// Close kills all servers and returns when they have ended.
func (c *Cluster) Close() {
	for i := range Size {
		c.stores[i].kill()
		c.pd[i].kill()
	}
	c.launcher.close()
	c.client.CloseIdleConnections()
}

func (c *Cluster) launch(s *server) error {
	c.log.Info("start", "server", s.name)
	return s.start(c.launcher)
}

func (c *Cluster) kill(s *server) {
	c.log.Info("kill", "server", s.name)
	s.kill()
}

func addresses(servers [Size]*server) []string {
	all := make([]string, 0, Size)
	for _, s := range servers {
		all = append(all, s.address)
	}
	return all
}
