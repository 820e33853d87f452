// Package trigger posts the changes of streams to HTTP endpoints, as an event
// source mapping of Lambda does.
//
// A trigger follows a table by its name. The changes of a table are stored in
// slots, and stamps order all changes, across streams that are disabled and enabled
// again and across tables of the same name. So the progress of a trigger is one
// position for each slot. It advances once the changes before it were answered with
// 2xx or are in the dead-letter file.
//
// Of the servers that share a database, the leader delivers. Positions are stored
// in the database, and the next leader continues from there.
package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/ops"
)

// Options configure all triggers of a server.
type Options struct {
	Service *ops.Service
	Log     *slog.Logger

	// Transport sends the requests; it defaults to the system's network.
	Transport http.RoundTripper
}

// Set is the running triggers of a server.
type Set struct {
	terms lead.Work
	dead  deadLetters
	all   []*trigger
}

// topic is the topic of messages between servers. None are sent, but a server that
// may have missed messages, and with them a change of the leader, is notified and
// starts again.
const topic = "trigger"

// Start runs triggers until Close. They deliver all changes that are made after it
// has returned.
func Start(ctx context.Context, o Options, configs ...Config) (*Set, error) {
	s := &Set{dead: make(deadLetters)}
	names := make(map[string]bool)
	for _, c := range configs {
		if names[c.Name] {
			return nil, errors.Join(fmt.Errorf("two triggers have the name %s", c.Name), s.Close())
		}
		names[c.Name] = true
		t, err := newTrigger(o, c, s.dead)
		if err == nil {
			_, err = t.resume(ctx) // so that no change from now on is missed
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("trigger %s: %w", c.Name, err), s.Close())
		}
		s.all = append(s.all, t)
		o.Log.Info("trigger started", "config", t.Config.String())
	}
	if len(s.all) > 0 {
		s.terms.Start(ctx, o.Service.DB.Clock(), o.Service.DB.Leads, s.work)
		o.Service.DB.Subscribe(topic, func(context.Context, string) error {
			s.terms.Restart()
			return nil
		})
	}
	return s, nil
}

// Close stops the triggers and waits for them. A batch in flight is cancelled; it
// is delivered again after the next start, or by another server.
func (s *Set) Close() error {
	s.terms.Close()
	for _, t := range s.all {
		t.client.CloseIdleConnections()
	}
	return s.dead.close()
}

// work delivers while this server leads, with one loop for each slot of each
// trigger.
func (s *Set) work(ctx context.Context, begun func()) {
	begun()
	var loops []lead.Loop
	for _, t := range s.all {
		for _, f := range t.followers(ctx) {
			loops = append(loops, lead.Loop{Step: f.step, Polls: true, Retry: afterFail, Failed: func(err error) {
				f.log.Error("reading changes failed, retrying", "slot", f.slot, "error", err)
			}})
		}
	}
	lead.RunTerm(ctx, s.all[0].service.DB.Clock(), s.all[0].service.DB.Leads, loops...)
}

// followers returns a follower for each slot, at the trigger's positions. There are
// none once the context has ended.
func (t *trigger) followers(ctx context.Context) []*follower {
	for ctx.Err() == nil {
		found, err := t.resume(ctx)
		if err == nil {
			for _, f := range found {
				f.status.begin()
			}
			return found
		}
		if ctx.Err() == nil {
			t.log.Error("reading the trigger's positions failed, retrying", "error", err)
			t.service.DB.Clock().Wait(ctx, clock.Waiting{For: afterFail, Retries: true})
		}
	}
	return nil
}

// trigger is a configured trigger.
type trigger struct {
	Config
	patterns []pattern
	service  *ops.Service
	client   *http.Client
	dead     *deadLetterFile // nil if records are retried without limit
	log      *slog.Logger
	status   [keyspace.Slots]slotStatus
}

func newTrigger(o Options, c Config, dead deadLetters) (*trigger, error) {
	c.setDefaults()
	if err := c.Check(); err != nil {
		return nil, err
	}
	t := &trigger{Config: c, service: o.Service, log: o.Log.With("trigger", c.Name)}
	for _, text := range c.Filters {
		p, err := parsePattern(string(text))
		if err != nil {
			return nil, err
		}
		t.patterns = append(t.patterns, p)
	}
	t.client = newClient(o.Transport, &t.Config)
	var err error
	if c.DeadLetter != "" {
		t.dead, err = dead.open(c.DeadLetter)
	}
	return t, err
}

// resume reads the trigger's position in each slot. On the first start it stores the
// positions: LATEST means from then on.
func (t *trigger) resume(ctx context.Context) ([]*follower, error) {
	d := t.service.DB
	horizon, err := d.Horizon(ctx)
	if err != nil {
		return nil, err
	}
	followers := make([]*follower, keyspace.Slots)
	first := make(map[string][]byte)
	for slot := range followers {
		f := &follower{trigger: t, slot: slot, status: &t.status[slot]}
		saved, err := d.Checkpoint(ctx, f.checkpoint())
		if err != nil {
			return nil, err
		}
		if saved == nil {
			if t.StartingPosition == Latest {
				f.at.Stamp = horizon
			}
			first[f.checkpoint()] = encodePosition(f.at)
		} else if f.at, err = decodePosition(saved); err != nil {
			return nil, err
		}
		f.saved = f.at.Stamp
		followers[slot] = f
	}
	if len(first) > 0 {
		err = d.SaveCheckpoints(ctx, first)
	}
	return followers, err
}
