package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// search sends random requests round by round until enough are sent or the time
// is up, and shrinks the differences that it cannot explain.
func (s settings) search(ctx context.Context, g group, record func(exchange), progress io.Writer) (*report, error) {
	r := s.newReport()
	r.record = record
	limited, cancel := context.WithTimeout(ctx, s.duration)
	defer cancel()
	var last time.Time
	for round := s.first; r.Requests < s.requests; round++ {
		err := newRound(s, g, r, round).run(limited)
		if limited.Err() != nil { // the time is up, or the run was interrupted
			return r, nil
		}
		if err != nil {
			return nil, fmt.Errorf("round %d of seed %d: %w", round, s.seed, err)
		}
		if time.Since(last) > time.Second {
			last = time.Now()
			fmt.Fprintf(progress, "differ: %d of %d requests, %d classes of unexplained differences\n", r.Requests, s.requests, len(r.Unexplained))
		}
	}
	return r, g.clear(ctx)
}

// A round is a set of new tables and some requests to them.
type round struct {
	settings
	group  group
	report *report
	gen    *generator
	sent   []step
	open   []openFinding
	plants *plantSample // nil if no faults are planted
}

// An openFinding is a difference that no known fault explains.
type openFinding struct {
	f     *finding
	steps int // up to the request
}

// A plantSample chooses one of the planted faults of a round.
type plantSample struct {
	*rand.Rand
	seen   int
	chosen *exchange
	steps  int // up to the request
}

func newRound(s settings, g group, r *report, number uint64) *round {
	round := &round{settings: s, group: g, report: r, gen: newGenerator(s.seed, number, s.only)}
	round.gen.faults = cmp.Or(s.faults, defaultFaults)
	if r.Control != nil {
		round.plants = &plantSample{Rand: rand.New(rand.NewPCG(number, s.seed))}
	}
	return round
}

// run plays the round. It reduces the differences that no known fault explains,
// and shrinks those that are found for the first time.
func (r *round) run(ctx context.Context) error {
	if err := r.group.play(ctx, r.next, r.visit); err != nil && ctx.Err() == nil {
		return err
	}
	r.report.Rounds++
	for _, o := range r.open {
		if err := r.resolve(ctx, o); err != nil {
			return err
		}
	}
	if p := r.plants; p != nil && p.chosen != nil && ctx.Err() == nil {
		return r.report.Control.reduce(ctx, r.group, r.sent[:p.steps], p.chosen)
	}
	return ctx.Err()
}

func (r *round) next(i int) (step, bool) {
	if i >= r.perRound || r.report.Requests >= r.requests {
		return step{}, false
	}
	st := r.gen.next()
	r.sent = append(r.sent, st.clone())
	return st, true
}

func (r *round) visit(i int, e exchange, found []*finding) bool {
	for _, f := range r.report.count(e, found) {
		r.open = append(r.open, openFinding{f, i + 1})
	}
	if p := r.plants; p != nil {
		for _, planted := range r.report.Control.orders {
			if p.seen++; p.IntN(p.seen) == 0 {
				p.chosen, p.steps = planted, i+1
			}
		}
	}
	return true
}

// resolve counts a difference as the order of two faults, or as unexplained, also
// if there is no time to find out.
func (r *round) resolve(ctx context.Context, o openFinding) error {
	sq, err := r.group.reduce(ctx, r.sent[:o.steps], o.f, nil)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if sq != nil {
		r.report.addSquare(sq)
		return nil
	}
	u := r.report.add(o.f)
	switch {
	case u == nil:
	case r.report.shrunk < r.shrink && ctx.Err() == nil:
		r.report.shrunk++
		u.Steps = r.group.shrink(ctx, r.sent[:o.steps], u.Class)
	default:
		u.Steps = []step{r.sent[o.steps-1]}
	}
	return nil
}
