//go:build !linux

package main

import (
	"context"
	"time"
)

// run does one slice, with a goroutine for each connection.
func (a *api) run(ctx context.Context, j job) (sample, error) {
	w, err := workloadNamed(j.Workload)
	if err != nil {
		return sample{}, err
	}
	until := time.Now().Add(j.Warm + j.Slice + patience)
	return drive(ctx, j, func(ctx context.Context, i int) (actor, error) {
		c := &caller{ctx: ctx, api: a, until: until, workload: w, generator: a.loadGenerator(j, i)}
		return c, c.connect()
	})
}

// A caller is an actor with a connection.
type caller struct {
	ctx       context.Context // of the slice, for reconnecting
	api       *api
	until     time.Time // deadline of all responses
	workload  *workload
	generator *generator
	conn      *conn
}

func (c *caller) connect() (err error) {
	if c.conn, err = c.api.dialDriver(c.ctx); err != nil {
		return err
	}
	return c.conn.net.SetDeadline(c.until)
}

func (c *caller) close() {
	if c.conn != nil {
		c.conn.close()
		c.conn = nil
	}
}

func (c *caller) prepare() { c.workload.compose(c.generator) }

// act sends the request, over a new connection if the last one is closed.
func (c *caller) act() (int, error) {
	if c.conn == nil {
		if err := c.connect(); err != nil {
			time.Sleep(10 * time.Millisecond) // do not hammer a server that has ended
			return 0, err
		}
	}
	g := c.generator
	reply, err := c.conn.ask(g.operation, g.body)
	if c.conn.last {
		defer c.close()
	}
	if err != nil {
		return 0, err
	}
	return g.check(g, reply)
}
