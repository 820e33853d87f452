// Package oracletest compares the database with a naive reference model of
// DynamoDB: random operations are applied to both, and every answer must be
// the model's.
//
// The model uses none of the packages under test: it has maps and slices
// where they have bytes.
package oracletest

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

var (
	seeds = flag.Uint64("seeds", 16, "how many random runs to make")
	from  = flag.Uint64("from", 1, "the seed of the first run")
	seed  = flag.Uint64("seed", 0, "make the run of this seed alone")
	steps = flag.Int("steps", 400, "how many steps a run has")

	endpoint = flag.String("endpoint", "", "compare the server at this URL with the model; its tables Orders and Carts are deleted")
)

// The database answers every request like the model.
func TestRandomOperations(t *testing.T) {
	first, last := *from, *from+*seeds-1
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for seed := first; seed <= last; seed++ {
		f := run(t, seed, *steps, unchanged)
		if f == nil {
			continue
		}
		short := f.shrink(t, 20*time.Second)
		t.Fatalf("seed %d, step %d of %d\n%v\n\nin short\n%s\n%v", seed, len(f.steps), *steps, f.err,
			strings.Join(short.requests, "\n"), short.err)
	}
}

// failedRun is a run that shows a difference.
type failedRun struct {
	steps    []step
	err      error
	requests []string
	folder   bool
	through  middleware
}

// run makes random steps and returns the failed run, or nil. The database of
// some runs is in a folder, and is restarted in between.
func run(t *testing.T, seed uint64, steps int, through middleware) *failedRun {
	t.Helper()
	f := &failedRun{folder: seed%8 == 0, through: through}
	w := open(t, f.folder, through)
	defer w.close()
	g := newGenerator(seed, w)
	for range steps {
		f.steps = append(f.steps, g.next())
		if f.err = f.steps[len(f.steps)-1].run(w); f.err != nil {
			return f
		}
	}
	f.steps = append(f.steps, restart{}, audit{})
	if f.err = errors.Join(restart{}.run(w), audit{}.run(w)); f.err != nil {
		return f
	}
	return nil
}

// shrink removes steps as long as the remaining ones still fail.
func (f *failedRun) shrink(t *testing.T, atMost time.Duration) *failedRun {
	t.Helper()
	end := time.Now().Add(atMost)
	for part := len(f.steps) / 2; part > 0; {
		shorter := false
		for at := 0; at+part <= len(f.steps) && time.Now().Before(end); {
			less := f.rerun(t, slices.Concat(f.steps[:at], f.steps[at+part:]))
			if less == nil {
				at += part
				continue
			}
			f, shorter = less, true
		}
		if !shorter || part > len(f.steps) {
			part /= 2
		}
	}
	return f
}

// rerun makes the given steps on a new database.
func (f *failedRun) rerun(t *testing.T, steps []step) *failedRun {
	t.Helper()
	w := open(t, f.folder, f.through)
	defer w.close()
	for i, s := range steps {
		if err := s.run(w); err != nil {
			return &failedRun{steps[:i+1], err, w.log, f.folder, f.through}
		}
	}
	return nil
}

// middleware wraps the handler of the database.
type middleware func(http.Handler) http.Handler

// unchanged is a middleware that changes nothing.
func unchanged(h http.Handler) http.Handler { return h }

// open returns a harness with an empty database, in a folder or in memory.
func open(t *testing.T, folder bool, through middleware) *harness {
	t.Helper()
	if *endpoint != "" {
		return openEndpoint(t)
	}
	var o stator.Options
	if folder {
		o.Dir = t.TempDir()
	}
	s, err := stator.Open(context.Background(), o)
	if err != nil {
		t.Fatalf("open a database: %v", err)
	}
	w := &harness{handler: through(s.Handler()), tables: make(map[string]*tableModel)}
	if folder {
		w.reopen = func() error {
			if err := s.Close(); err != nil {
				return err
			}
			if s, err = stator.Open(context.Background(), o); err != nil {
				return err
			}
			w.handler = through(s.Handler())
			return nil
		}
	}
	w.close = func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	}
	return w
}

// openEndpoint returns a harness with the server at the endpoint, emptied.
func openEndpoint(t *testing.T) *harness {
	t.Helper()
	u, err := url.Parse(*endpoint)
	if err != nil {
		t.Fatal(err)
	}
	w := &harness{handler: httputil.NewSingleHostReverseProxy(u), close: func() {}, tables: make(map[string]*tableModel)}
	for _, name := range tableNames {
		w.send("DeleteTable", map[string]any{"TableName": name})
	}
	return w
}
