package clock

import (
	"slices"
	"time"
)

// Step is a step of Now.
type Step struct{ From, To time.Time }

// Back reports whether the time went back.
func (s *Step) Back() bool { return s.To.Before(s.From) }

// past is the steps of Now, of which only the last maxSteps are kept. It is not
// changed: add returns another one.
type past struct {
	first time.Time // the first time that Now returned, or that it returned after the last step that is not kept
	steps []*Step
}

// last returns the last step, nil if there was none.
func (p *past) last() *Step {
	if len(p.steps) == 0 {
		return nil
	}
	return p.steps[len(p.steps)-1]
}

// add returns the past with another step.
func (p *past) add(s *Step) *past {
	next := &past{first: p.first, steps: append(slices.Clip(p.steps), s)}
	if len(next.steps) > maxSteps {
		next.first, next.steps = next.steps[0].To, slices.Clone(next.steps[1:])
	}
	return next
}

// since returns how long ago t was, at least. Between two steps the clock has shown a
// period of time. If t is in several periods, it was read in the last of them. If it
// is in none, it was read before the first one, by a clock that agreed with that of
// the first period, or with that of the last one if the first was wrong.
func (p *past) since(t, now time.Time) time.Duration {
	var passed time.Duration // since the end of the period
	for i, end := len(p.steps), now; ; i-- {
		begin := p.first
		if i > 0 {
			begin = p.steps[i-1].To
		}
		age := passed + end.Sub(t)
		if !t.Before(begin) && !t.After(end) {
			return age
		}
		passed += end.Sub(begin)
		if i == 0 {
			return max(passed, min(age, now.Sub(t)))
		}
		end = p.steps[i-1].From
	}
}
