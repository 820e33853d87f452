package chaos

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A check that does not use its server cannot be searched: it would pass with every seed.
func TestCheckWithoutRequests(t *testing.T) {
	runs := 0
	o := Options{Plan: Defaults(), Seeds: 3, Check: func(context.Context, string, uint64) (string, error) {
		runs++
		return "", nil
	}}
	for name, search := range map[string]func(context.Context, Options) (*Result, error){"a search": Search, "a replay": Replay} {
		runs = 0
		result, err := search(t.Context(), o)
		if !errors.Is(err, ErrNoRequests) || result.Tried != 0 || runs != len(result.Controls) {
			t.Errorf("%s returns %v after %d runs, want the error that no request was sent after those without faults", name, err, runs)
		}
	}
}

// A check that hangs with faults fails.
func TestCheckThatHangs(t *testing.T) {
	hung := false
	o := Options{Plan: Defaults(), Seeds: 1, Timeout: 2 * time.Second, Check: func(ctx context.Context, url string, seed uint64) (string, error) {
		_, err := newProgram(ctx, url, false)
		if seed == 1 && !hung {
			hung = true
			<-ctx.Done()
		}
		return "", err
	}}
	result, err := Search(t.Context(), o)
	if err != nil || len(result.Failures) != 1 || !strings.Contains(result.Failures[0].Err.Error(), "it has not ended after 2s") {
		t.Errorf("the search returns %+v, %v", result, err)
	}
}
