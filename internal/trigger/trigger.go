// Package trigger posts the changes of streams to HTTP endpoints, as an event
// source mapping of Lambda does.
//
// A trigger follows a table by its name. The changes of a table lie in slots,
// and stamps order all that ever happened, over streams that are disabled and
// enabled again and over tables of the same name. So where a trigger stands is
// one position for each slot, and it moves on when what lies before it was
// answered with 2xx or lies in the dead-letter file.
//
// Of the servers that share a database the one that leads delivers. Positions
// are kept in the database, and the next that leads goes on from there.
package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/ops"
)

// Options are what triggers work with.
type Options struct {
	Service *ops.Service
	Log     *slog.Logger

	// Transport carries the requests; the system's network unless set.
	Transport http.RoundTripper
}

// Set is triggers at work.
type Set struct {
	terms lead.Work
	dead  deadLetters
	all   []*trigger
}

// topic is what would be told to other servers. Nothing is, but a server that
// may have missed that others led begins anew.
const topic = "trigger"

// Start sets triggers to work until Close. Changes that are made after it
// returned are seen by all of them.
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
			_, err = t.resume(ctx) // so that from now on no change is missed
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("trigger %s: %w", c.Name, err), s.Close())
		}
		s.all = append(s.all, t)
		o.Log.Info("a trigger is set", "config", t.Config.String())
	}
	if len(s.all) > 0 {
		s.terms.Start(ctx, o.Service.DB.Leads, s.work)
		o.Service.DB.OnAnnounce(topic, func(context.Context, string) error {
			s.terms.Restart()
			return nil
		})
	}
	return s, nil
}

// Close stops the triggers and waits for them. A batch under way is given up;
// it comes again after the next start, or from another server.
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
			loops = append(loops, lead.Loop{Step: f.step, Retry: afterFail, Failed: func(err error) {
				f.log.Error("changes could not be read; trying again", "slot", f.slot, "error", err)
			}})
		}
	}
	lead.Run(ctx, s.all[0].service.DB.Leads, loops...)
}

// followers are those of all slots, from where the trigger stands. There are
// none once the context has ended.
func (t *trigger) followers(ctx context.Context) []*follower {
	for ctx.Err() == nil {
		found, err := t.resume(ctx)
		if err == nil {
			return found
		}
		if ctx.Err() == nil {
			t.log.Error("where the trigger stands could not be read; trying again", "error", err)
			lead.Wait(ctx, nil, afterFail)
		}
	}
	return nil
}

// trigger is one trigger.
type trigger struct {
	Config
	patterns []pattern
	service  *ops.Service
	client   *http.Client
	dead     *deadLetterFile // nil when nothing is given up
	log      *slog.Logger
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

// resume finds where the trigger stands in each slot. On its first start that
// is made durable: LATEST means from then on.
func (t *trigger) resume(ctx context.Context) ([]*follower, error) {
	d := t.service.DB
	horizon, err := d.Horizon(ctx)
	if err != nil {
		return nil, err
	}
	followers := make([]*follower, keyspace.Slots)
	first := make(map[string][]byte)
	for slot := range followers {
		f := &follower{trigger: t, slot: slot}
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
