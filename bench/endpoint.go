package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An api drives an endpoint over its API.
type api struct {
	endpoint
	dataset *dataset
	loaders int // connections that load
	made    []string

	throttled bool // the server throttles
}

const (
	keyed = `"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],` +
		onDemand + `,`
	onDemand   = `"BillingMode":"PAY_PER_REQUEST"`
	keyTypes   = `{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"}`
	shopTypes  = `,{"AttributeName":"shop","AttributeType":"S"},{"AttributeName":"placed","AttributeType":"N"}`
	shopSchema = `"KeySchema":[{"AttributeName":"shop","KeyType":"HASH"},{"AttributeName":"placed","KeyType":"RANGE"}]`

	createItems   = `{"TableName":"` + tableItems + `",` + keyed + `"AttributeDefinitions":[` + keyTypes + `]}`
	createIndexed = `{"TableName":"` + tableIndexed + `",` + keyed + `"AttributeDefinitions":[` + keyTypes + shopTypes + `],` +
		`"GlobalSecondaryIndexes":[{"IndexName":"` + indexName + `",` + shopSchema + `,"Projection":{"ProjectionType":"ALL"}}]}`
)

// makeTable creates a table and waits until it is active. It fails if the table
// exists, since that table is not ours.
func (a *api) makeTable(ctx context.Context, name, create string) error {
	if _, err := a.ask(ctx, "CreateTable", create); err != nil {
		return err
	}
	a.made = append(a.made, name)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		reply, err := a.ask(ctx, "DescribeTable", `{"TableName":"`+name+`"}`)
		if err != nil {
			return err
		}
		if _, status, ok := bytes.Cut(reply, []byte(`"TableStatus"`)); ok && bytes.HasPrefix(bytes.TrimLeft(status, ": "), []byte(`"ACTIVE"`)) {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("table %s does not become active: %w", name, err)
		}
	}
}

// dropTables deletes the tables that makeTable created.
func (a *api) dropTables(ctx context.Context) error {
	var all error
	for _, name := range a.made {
		_, err := a.ask(ctx, "DeleteTable", `{"TableName":"`+name+`"}`)
		all = errors.Join(all, err)
	}
	a.made = nil
	return all
}

// The most units that a table may have, more than the workloads of a throttled server consume.
const provisioned = `"ProvisionedThroughput":{"ReadCapacityUnits":40000,"WriteCapacityUnits":40000}`

// prepareThrottled creates the table without an index, with provisioned units, and loads it. It is
// not throttled until then.
func (a *api) prepareThrottled(ctx context.Context) error {
	if err := a.makeTable(ctx, tableItems, strings.Replace(createItems, onDemand, provisioned, 1)); err != nil {
		return err
	}
	if err := a.setThrottling(ctx, "off"); err != nil {
		return err
	}
	if err := a.load(ctx, tableItems, 0, a.dataset.items); err != nil {
		return err
	}
	return a.setThrottling(ctx, "on")
}

func (a *api) setThrottling(ctx context.Context, set string) error {
	_, err := a.ask(ctx, "Stator.SetThrottling", `{"TableName":"`+tableItems+`","Throttling":"`+set+`"}`)
	return err
}

// prepare creates the tables and loads them.
func (a *api) prepare(ctx context.Context, indexed bool) error {
	if a.throttled {
		return a.prepareThrottled(ctx)
	}
	if err := a.makeTable(ctx, tableItems, createItems); err != nil {
		return err
	}
	if err := a.load(ctx, tableItems, 0, a.dataset.items); err != nil {
		return err
	}
	if a.dax != "" {
		return a.fillCache(ctx)
	}
	if !indexed {
		return nil
	}
	if err := a.makeTable(ctx, tableIndexed, createIndexed); err != nil {
		return err
	}
	return a.load(ctx, tableIndexed, 0, a.dataset.items)
}

// load writes the items [from, to) over several connections.
func (a *api) load(ctx context.Context, table string, from, to int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	next.Store(int64(from))
	var wg sync.WaitGroup
	for range a.loaders {
		wg.Go(func() {
			if err := a.loadSome(ctx, table, &next, to); err != nil {
				cancel(fmt.Errorf("load %s: %w", table, err))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (a *api) loadSome(ctx context.Context, table string, next *atomic.Int64, to int) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { c.close() }()
	g := newGenerator(a.dataset, job{Connections: 1}, 0)
	for ctx.Err() == nil {
		first := int(next.Add(perBatch)) - perBatch
		if first >= to {
			return nil
		}
		g.load(table, first, min(first+perBatch, to))
		if c, err = a.step(ctx, c, g); err != nil {
			return err
		}
	}
	return nil
}

// step sends the composed request and checks the reply, over a new connection if
// the server has closed the last one.
func (a *api) step(ctx context.Context, c *conn, g *generator) (*conn, error) {
	if c.last {
		next, err := a.dial(ctx)
		if err != nil {
			return c, err
		}
		c.close()
		c = next
	}
	_ = c.net.SetDeadline(time.Now().Add(time.Minute))
	reply, err := c.ask(g.operation, g.body)
	if err == nil {
		_, err = g.check(g, reply)
	}
	return c, err
}

// readAll scans the table without an index once, one segment for each loading
// connection.
func (a *api) readAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range a.loaders {
		wg.Go(func() {
			if err := a.readSegment(ctx, i); err != nil {
				cancel(fmt.Errorf("read the table: %w", err))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (a *api) readSegment(ctx context.Context, segment int) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { c.close() }()
	g := newGenerator(a.dataset, job{Connections: a.loaders}, segment)
	for first := true; ctx.Err() == nil && (first || len(g.after) > 0); first = false {
		g.scan()
		if c, err = a.step(ctx, c, g); err != nil {
			return err
		}
	}
	return nil
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
