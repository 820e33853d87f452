package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A group is stator and its witnesses. The first server is stator.
type group []*server

// ask sends a step to some servers at the same time. The answers of the others
// are nil.
func (g group) ask(ctx context.Context, st step, inStep []bool) ([]*answer, error) {
	answers := make([]*answer, len(g))
	errs := make([]error, len(g))
	var wait sync.WaitGroup
	for i, s := range g {
		if !inStep[i] {
			continue
		}
		wait.Go(func() {
			a, err := s.do(ctx, st)
			if err != nil {
				errs[i] = err
				return
			}
			a = normalise(st, a)
			answers[i] = &a
		})
	}
	wait.Wait()
	return answers, errors.Join(errs...)
}

// serverNames are the names of a group's servers, in their order.
var serverNames = []string{nameStator, nameLocal, nameDynoxide}

// An exchange is a step with the normalised answers of all servers, nil for a
// server that was not asked.
type exchange struct {
	Step    step      `json:"step"`
	Answers []*answer `json:"answers"`
}

// compare returns the differences between stator's answer and the others'.
func (e exchange) compare() (found []*finding) {
	for i := 1; i < len(e.Answers); i++ {
		if e.Answers[i] == nil {
			continue
		}
		places := diff(*e.Answers[0], *e.Answers[i])
		if places == nil {
			continue
		}
		f := &finding{Step: e.Step, Witness: serverNames[i], Places: places, Stator: *e.Answers[0], Other: *e.Answers[i]}
		for j := 1; j < len(e.Answers); j++ {
			if j != i {
				f.Third = e.Answers[j]
			}
		}
		found = append(found, f)
	}
	return found
}

// A session is a sequence of steps from empty servers.
type session struct {
	group   group
	inStep  []bool // the servers that have stator's data
	streams bool   // the servers have the same history

	// tokens counts, for the token of a transaction, how often the servers did not
	// agree on whether a transaction with it succeeded. They do not have the same
	// tokens in use from then on, so that later transactions get another token.
	tokens map[string]int
}

// begin begins a session on tables with new names.
func (g group) begin() *session {
	g.rename()
	inStep := make([]bool, len(g))
	for i := range inStep {
		inStep[i] = true
	}
	return &session{g, inStep, true, make(map[string]int)}
}

// ended reports whether a witness has other data than stator, and cannot get
// stator's.
func (s *session) ended() bool { return slices.Contains(s.inStep, false) }

// send sends a step to all servers. A witness that may hold other data than
// stator afterwards gets stator's items; if that is impossible, the session
// ends. The answers are nil if the step reads a stream of which the servers have
// different histories.
func (s *session) send(ctx context.Context, st step) (e exchange, found []*finding, err error) {
	if st.Op == readStream && !s.streams {
		return exchange{Step: st}, nil, nil
	}
	token, _ := st.Body[tokenMember].(string)
	answers, err := s.group.ask(ctx, s.withToken(st, token), s.inStep)
	if err != nil {
		return e, nil, err
	}
	e = exchange{st, answers}
	found = e.compare()
	if token != "" && slices.ContainsFunc(found, func(f *finding) bool { return f.Stator.ok() != f.Other.ok() }) {
		s.tokens[token]++
	}
	for _, f := range found {
		if f.parts() {
			s.streams = false
			if err := s.group.rejoin(ctx, f, s.inStep); err != nil {
				return e, nil, err
			}
		}
	}
	if hidden(st, *answers[0]) {
		s.streams = false
		err = s.group.realign(ctx, s.inStep)
	}
	return e, found, err
}

const tokenMember = "ClientRequestToken"

// withToken returns a step with a token that the servers can agree on.
func (s *session) withToken(st step, token string) step {
	if n := s.tokens[token]; n > 0 {
		st = st.clone()
		st.Body[tokenMember] = fmt.Sprintf("%s-%d", token[:min(len(token), 32)], n)
	}
	return st
}

// play runs steps from empty servers until visit returns false or the session
// ends.
func (g group) play(ctx context.Context, steps func(i int) (step, bool), visit func(i int, e exchange, found []*finding) bool) error {
	s := g.begin()
	for i := 0; ; i++ {
		st, more := steps(i)
		if !more || ctx.Err() != nil || s.ended() {
			break
		}
		e, found, err := s.send(ctx, st)
		if err != nil {
			return err
		}
		if !visit(i, e, found) {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return g.clear(ctx)
}

// realign gives all witnesses stator's items.
func (g group) realign(ctx context.Context, inStep []bool) error {
	for i := 1; i < len(g); i++ {
		if !inStep[i] {
			continue
		}
		if err := resync(ctx, g[0], g[i]); errors.Is(err, errUnlike) {
			inStep[i] = false
		} else if err != nil {
			return err
		}
	}
	return nil
}

// rename gives the tables new names on the wire.
func (g group) rename() {
	for _, s := range g {
		s.plays++
		s.suffix = fmt.Sprintf("%dx", s.plays)
	}
}

// rejoin brings the witness of a finding back in step with stator.
func (g group) rejoin(ctx context.Context, f *finding, inStep []bool) error {
	for i, s := range g {
		if s.name != f.Witness {
			continue
		}
		if tableWrites[f.Step.Op] {
			inStep[i] = false
			continue
		}
		err := resync(ctx, g[0], s)
		if errors.Is(err, errUnlike) {
			inStep[i] = false
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clear deletes all tables of all servers.
func (g group) clear(ctx context.Context) error {
	for _, s := range g {
		for range 20 {
			a, err := s.send(ctx, "ListTables", object{})
			if err != nil {
				return err
			}
			names, _ := a.Body["TableNames"].([]any)
			if len(names) == 0 {
				break
			}
			for _, name := range names {
				_, _ = s.send(ctx, "UpdateTable", object{"TableName": name, "DeletionProtectionEnabled": false})
				if _, err := s.send(ctx, "DeleteTable", object{"TableName": name}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
