package main

import (
	"context"
	"slices"
)

// A square shows that a difference is the order of two faults of a request: each
// of them is reported by stator and by the witness if the request does not have
// the other, and without both the request is answered alike. A known fault of the
// list may explain other words of these answers.
type square struct {
	Class         string `json:"class"`
	Count         int    `json:"count"`
	Request       step   `json:"request"`
	WithoutFirst  object `json:"without_first"`  // the fault that stator reports
	WithoutSecond object `json:"without_second"` // the fault that the witness reports
	WithoutBoth   object `json:"without_both"`
}

// reducible reports whether a finding can be the order of two faults: both
// servers report an error, stator's is one of those that are known, and the
// witnesses do not agree.
func (f *finding) reducible() bool {
	return f.Places[0] == "outcome" && f.Stator.Status == 400 && f.Other.Status == 400 && f.worded() && !f.alone("outcome") && !tableWrites[f.Step.Op]
}

// A reducer searches for the square of a finding.
type reducer struct {
	group   group
	steps   []step // before the request
	request step
	base    object // the request without its mutation; nil if it has none
	witness int
	alter   func(*answer, step) // changes stator's answers; nil leaves them

	session       *session
	restarts      int
	first, second string // what stator and the witness report
}

const (
	maxRestarts = 12   // times that the steps before a request are repeated
	maxPairs    = 1000 // pairs of edits
)

// reduce returns the square of a finding in the last of some steps, or nil.
func (g group) reduce(ctx context.Context, steps []step, f *finding, alter func(*answer, step)) (*square, error) {
	last := steps[len(steps)-1]
	r := &reducer{group: g, steps: steps[:len(steps)-1], request: last, base: last.base, witness: slices.Index(serverNames, f.Witness), alter: alter}
	if statements, ok := f.statements(); ok {
		if f = r.toStatement(f, statements); f == nil {
			return nil, nil
		}
	}
	if !f.reducible() {
		return nil, nil
	}
	r.first, r.second = template(f.Stator.bare()), template(f.Other.bare())
	found, err := r.search(ctx)
	if r.session != nil && ctx.Err() == nil {
		if err := g.clear(ctx); err != nil {
			return nil, err
		}
	}
	if found != nil {
		found.Class, found.Request, found.Count = f.class(), r.request, 1
	}
	return found, err
}

// toStatement restricts the request to the statement of a batch that is not
// explained. It returns nil if there are several.
func (r *reducer) toStatement(f *finding, statements []*finding) (found *finding) {
	for _, s := range statements {
		if explainPlaces(s) != nil {
			continue
		}
		if found != nil {
			return nil
		}
		found = s
	}
	if found == nil {
		return nil
	}
	r.request = f.Step.clone()
	r.request.Body["Statements"] = []any{cloneJSON(found.Step.Body)}
	r.base = nil
	return found
}

// outcomes are what stator and the witness answer.
type outcomes struct {
	stator, other string // without names and values
	faulty        bool   // both are errors of the request
	clean         bool   // neither is an error of the request
	known         bool   // they are alike, or a known fault explains the difference
}

func (r *reducer) search(ctx context.Context) (*square, error) {
	if same, err := r.reproduces(ctx); !same || err != nil {
		return nil, err
	}
	var withoutFirst, withoutSecond []edit
	pairs := 0
	for _, e := range edits(r.request.Body, r.base) {
		o, err := r.try(ctx, e)
		if err != nil {
			return nil, err
		}
		var others []edit
		switch {
		case !o.known || o.clean:
			continue
		case o.other == r.second && o.stator != r.first:
			withoutFirst = append(withoutFirst, e)
			others = withoutSecond
		case o.stator == r.first && o.other != r.second:
			withoutSecond = append(withoutSecond, e)
			others = withoutFirst
		}
		for _, other := range others {
			if pairs++; pairs > maxPairs {
				return nil, nil
			}
			both, err := r.try(ctx, e, other)
			if err != nil {
				return nil, err
			}
			if both.known && both.clean {
				if o.stator == r.first {
					e, other = other, e
				}
				return r.square(e, other), nil
			}
		}
	}
	return nil, nil
}

// square returns the requests without the first, the second and both faults.
func (r *reducer) square(first, second edit) *square {
	a, _ := apply(r.request.Body, first)
	b, _ := apply(r.request.Body, second)
	c, _ := apply(r.request.Body, first, second)
	return &square{WithoutFirst: a, WithoutSecond: b, WithoutBoth: c}
}

// reproduces begins a session with the steps before the request, and reports
// whether the request is answered as before.
func (r *reducer) reproduces(ctx context.Context) (bool, error) {
	if r.session != nil {
		if err := r.group.clear(ctx); err != nil {
			return false, err
		}
	}
	r.session = r.group.begin()
	for _, st := range r.steps {
		if r.session.ended() {
			return false, nil
		}
		if _, _, err := r.session.send(ctx, st); err != nil {
			return false, err
		}
	}
	return r.unchanged(ctx)
}

// unchanged reports whether the request is answered as before.
func (r *reducer) unchanged(ctx context.Context) (bool, error) {
	if r.session.ended() {
		return false, nil
	}
	o, err := r.ask(ctx, r.request)
	return o.stator == r.first && o.other == r.second, err
}

// try asks for the outcomes of the request with some edits. They are empty if it
// cannot have them.
func (r *reducer) try(ctx context.Context, edits ...edit) (o outcomes, err error) {
	body, ok := apply(r.request.Body, edits...)
	if !ok || r.restarts > maxRestarts {
		return o, nil
	}
	st := r.request
	st.Body = body
	if o, err = r.ask(ctx, st); err != nil || !itemWrites[st.Op] || o.faulty {
		return o, err
	}
	// The request may have changed an item on which the faults depend.
	if same, err := r.unchanged(ctx); same || err != nil {
		return o, err
	}
	r.restarts++
	same, err := r.reproduces(ctx)
	if !same {
		r.restarts = maxRestarts + 1
	}
	return o, err
}

// ask sends a request.
func (r *reducer) ask(ctx context.Context, st step) (o outcomes, err error) {
	if r.session.ended() {
		return o, nil
	}
	e, _, err := r.session.send(ctx, st)
	if err != nil || e.Answers == nil || e.Answers[r.witness] == nil {
		return o, err
	}
	if r.alter != nil {
		a := *e.Answers[0]
		a.Body, _ = cloneJSON(a.Body).(object)
		r.alter(&a, st)
		e.Answers[0] = &a
	}
	a, b := single(st, *e.Answers[0]), single(st, *e.Answers[r.witness])
	o = outcomes{stator: template(a.bare()), other: template(b.bare()), faulty: !isClean(a) && !isClean(b), clean: isClean(a) && isClean(b), known: true}
	for _, f := range e.compare() {
		if f.Witness == serverNames[r.witness] && explain(f) == nil {
			o.known = false
		}
	}
	return o, nil
}

// single returns the answer to the only statement of a batch, and the answer
// itself for everything else.
func single(st step, a answer) answer {
	if list := responses(a); st.Op == "BatchExecuteStatement" && a.ok() && len(list) == 1 {
		return statementAnswer(list[0])
	}
	return a
}

// isClean reports whether an answer has no error of the request itself.
func isClean(a answer) bool {
	return a.ok() || a.Code == "ConditionalCheckFailedException" || a.Code == "DuplicateItemException"
}
