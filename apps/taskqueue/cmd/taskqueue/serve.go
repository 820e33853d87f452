package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/web"
	"github.com/stator-db/stator/apps/taskqueue"
	"github.com/stator-db/stator/apps/taskqueue/front"
	"github.com/stator-db/stator/apps/taskqueue/queue"
	"github.com/stator-db/stator/apps/taskqueue/table"
)

// serving holds the flags of serve.
type serving struct {
	home    home.Options
	address web.Address
	queue   queue.Options

	provisioned string // bounds of the write units; empty means on demand
}

func (o *serving) flags(f *pflag.FlagSet) {
	o.home.Flags(f)
	o.address.Flags(f, "127.0.0.1:8070")
	f.DurationVar(&o.queue.Poll, "poll", 0, "time between two reads of a stream shard (default 20ms; 250ms on AWS, whose shards are read at most five times a second)")
	f.DurationVar(&o.queue.Keep, "keep", 7*24*time.Hour, "how long finished tasks are kept")
	f.DurationVar(&o.queue.KeepKey, "keep-key", 24*time.Hour, "how long an idempotency key is remembered")
	f.DurationVar(&o.queue.MaxAge, "max-age", 7*24*time.Hour, "how long a task may wait before it becomes dead")
	f.StringVar(&o.provisioned, "provisioned", "", "create the table with provisioned units and auto scaling; the value is the fewest and the most write units, such as 2000:10000 (default: on demand)")
	f.IntVar(&o.queue.MaxKnown, "memory-tasks", 200_000, "waiting tasks that are held in memory; more are read from the table when needed")
}

func serveCommand() *cobra.Command {
	var o serving
	c := &cobra.Command{
		Use: "serve", Short: "Serve the queue, on an embedded stator or on the server at --endpoint", Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.serve(c.Context(), command.Logger(c), func(address, dynamodb string) {
				fmt.Fprintf(c.OutOrStdout(), "task queue on http://%s\n", address)
				if dynamodb != "" {
					fmt.Fprintf(c.OutOrStdout(), "DynamoDB on http://%s\n", dynamodb)
				}
			})
		},
	}
	o.flags(c.Flags())
	return c
}

// model returns the model of the table.
func (o *serving) model() ([]byte, error) {
	if o.provisioned == "" {
		return taskqueue.Model, nil
	}
	fewest, most, ok := strings.Cut(o.provisioned, ":")
	from, err := strconv.Atoi(fewest)
	to, err2 := strconv.Atoi(most)
	if !ok || err != nil || err2 != nil {
		return nil, command.Usagef("--provisioned is %q, but must be the fewest and the most write units, such as 2000:10000", o.provisioned)
	}
	model, err := taskqueue.Provisioned(from, to)
	if err != nil {
		return nil, command.Usagef("--provisioned: %v", err)
	}
	return model, nil
}

// serve serves until the context ends. It calls started with its addresses.
func (o *serving) serve(ctx context.Context, log *slog.Logger, started func(address, dynamodb string)) error {
	if o.queue.Poll == 0 && o.home.Endpoint == "aws" {
		o.queue.Poll = 250 * time.Millisecond
	}
	if o.queue.Poll < 0 || o.queue.Keep <= 0 || o.queue.KeepKey <= 0 || o.queue.MaxAge <= 0 || o.queue.MaxKnown < 100 {
		return command.Usagef("--poll, --keep, --keep-key and --max-age must be positive, and --memory-tasks at least 100")
	}
	model, err := o.model()
	if err != nil {
		return err
	}
	listener, err := o.address.Open()
	if err != nil {
		return err
	}
	defer listener.Close()
	o.home.Model, o.home.Log = model, log
	h, err := home.Open(ctx, o.home)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // the live heap is small, and collecting it took a fifth of the processor time
	}
	if o.home.Endpoint == "" && o.home.Data == "" {
		log.Warn("tasks are kept in memory and lost at exit; --data keeps them in a folder")
	}
	err = o.over(ctx, h, listener, log, started)
	if closed := h.Close(); err == nil {
		err = closed
	}
	return err
}

// over serves on open tables.
func (o *serving) over(ctx context.Context, h *home.Home, listener net.Listener, log *slog.Logger, started func(address, dynamodb string)) error {
	registry := web.Registry()
	live := new(web.Live)
	var changed atomic.Bool
	options := o.queue
	options.Table, options.Log, options.Metrics = &table.Table{DB: h.DB, Streams: h.Streams}, log, registry
	options.Changed = func() { changed.Store(true) }
	service := queue.New(options)
	f := &front.Front{Queue: service, Live: live, Log: log, Metrics: registry}

	group, serving := errgroup.WithContext(ctx)
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // the queue runs until all requests have ended
	defer stop()
	group.Go(func() error { return service.Run(working) })
	group.Go(func() error { // pages are notified at most twice a second
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-working.Done():
				return nil
			case <-tick.C:
				if changed.Swap(false) {
					live.Broadcast("changed")
				}
			}
		}
	})
	group.Go(func() error {
		defer stop()
		if err := service.Started(serving); err != nil {
			return nil // stopped, or the queue's own error has the reason
		}
		started(listener.Addr().String(), h.Address)
		return web.Serve(serving, listener, f.Handler(), log)
	})
	return group.Wait()
}
