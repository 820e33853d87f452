package main

import (
	"context"
	"slices"
	"strings"
)

// A shrinker finds the smallest sequence of steps whose last step still has an
// unexplained difference of the same class.
type shrinker struct {
	group    group
	class    string
	attempts int // how many sequences may still be played
}

const maxAttempts = 400

func (g group) shrink(ctx context.Context, steps []step, class string) []step {
	s := &shrinker{g, class, maxAttempts}
	if !s.shows(ctx, steps) {
		return steps // it depends on something that the steps do not have, such as time
	}
	if short := tablesAndLast(steps); s.shows(ctx, short) {
		steps = short
	}
	steps = s.dropSteps(ctx, steps)
	for i := len(steps) - 1; i >= 0; i-- {
		steps = s.reduceStep(ctx, steps, i)
	}
	return s.dropSteps(ctx, steps)
}

// tablesAndLast returns the last step and those that create tables, which is
// enough for most faults of requests.
func tablesAndLast(steps []step) (short []step) {
	for i, st := range steps {
		if st.Op == "CreateTable" || i == len(steps)-1 {
			short = append(short, st)
		}
	}
	return short
}

// shows reports whether the last step has the difference.
func (s *shrinker) shows(ctx context.Context, steps []step) bool {
	if s.attempts--; s.attempts < 0 || len(steps) == 0 {
		return false
	}
	shown := false
	err := s.group.play(ctx, listed(steps), func(i int, _ exchange, found []*finding) bool {
		for _, f := range found {
			if explain(f) == nil && i == len(steps)-1 && f.class() == s.class {
				shown = true
			}
		}
		return true
	})
	return err == nil && shown
}

// listed returns the steps of a list one after the other.
func listed(steps []step) func(i int) (step, bool) {
	return func(i int) (step, bool) {
		if i >= len(steps) {
			return step{}, false
		}
		return steps[i], true
	}
}

// dropSteps removes steps before the last: halves first, then smaller parts.
func (s *shrinker) dropSteps(ctx context.Context, steps []step) []step {
	for size := len(steps) / 2; size > 0; {
		dropped := false
		for from := len(steps) - 1 - size; from > -size; from -= size {
			low := max(from, 0)
			candidate := slices.Delete(slices.Clone(steps), low, min(from+size, len(steps)-1))
			if len(candidate) < len(steps) && s.shows(ctx, candidate) {
				steps, dropped = candidate, true
			}
		}
		if !dropped || size > len(steps)/2 {
			size /= 2
		}
	}
	return steps
}

// reduceStep makes one request smaller as long as the difference stays.
func (s *shrinker) reduceStep(ctx context.Context, steps []step, i int) []step {
	for s.attempts > 0 {
		better := s.betterStep(ctx, steps, i)
		if better == nil {
			break
		}
		steps = better
	}
	return steps
}

func (s *shrinker) betterStep(ctx context.Context, steps []step, i int) []step {
	for _, body := range reductions(steps[i].Body) {
		for _, b := range []object{pruned(body.(object)), body.(object)} {
			candidate := slices.Clone(steps)
			candidate[i].Body = b
			if s.shows(ctx, candidate) {
				return candidate
			}
			if canonical(b) == canonical(body) {
				break
			}
		}
	}
	return nil
}

// reductions lists values that are a little smaller: one member, element or
// word less.
func reductions(v any) (all []any) {
	switch v := v.(type) {
	case object:
		for _, k := range sortedKeys(v) {
			c := cloneJSON(v).(object)
			delete(c, k)
			all = append(all, c)
		}
		for _, k := range sortedKeys(v) {
			for _, r := range reductions(v[k]) {
				c := cloneJSON(v).(object)
				c[k] = r
				all = append(all, c)
			}
		}
	case []any:
		for i := range v {
			all = append(all, slices.Delete(cloneJSON(v).([]any), i, i+1))
		}
		for i := range v {
			for _, r := range reductions(v[i]) {
				c := cloneJSON(v).([]any)
				c[i] = r
				all = append(all, c)
			}
		}
	case string:
		return shorterTexts(v)
	}
	return all
}

// shorterTexts lists texts with some words less, or with half the characters.
func shorterTexts(s string) (all []any) {
	if parts := strings.Split(s, " "); len(parts) > 1 {
		for n := min(len(parts)-1, 4); n > 0; n-- {
			for i := 0; i+n <= len(parts); i++ {
				all = append(all, strings.Join(slices.Delete(slices.Clone(parts), i, i+n), " "))
			}
		}
		return all
	}
	if len(s) > 12 {
		return []any{s[:len(s)/2]}
	}
	return nil
}

// pruned returns a request without the placeholders that no expression uses.
func pruned(body object) object {
	c := cloneJSON(body).(object)
	var prune func(v any)
	prune = func(v any) {
		switch v := v.(type) {
		case object:
			var texts []string
			for k, x := range v {
				if s, ok := x.(string); ok && strings.HasSuffix(k, "Expression") {
					texts = append(texts, s)
				}
				prune(x)
			}
			dropUnused(v, "ExpressionAttributeNames", texts)
			dropUnused(v, "ExpressionAttributeValues", texts)
		case []any:
			for _, x := range v {
				prune(x)
			}
		}
	}
	prune(c)
	return c
}

func dropUnused(v object, member string, texts []string) {
	placeholders, ok := v[member].(object)
	if !ok {
		return
	}
	for k := range placeholders {
		if !slices.ContainsFunc(texts, func(s string) bool { return mentions(s, k) }) {
			delete(placeholders, k)
		}
	}
	if len(placeholders) == 0 {
		delete(v, member)
	}
}
