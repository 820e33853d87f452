package tikv

import "sync"

// inFlight holds the attempts of Updates of this process that can still commit.
type inFlight struct {
	mu   sync.Mutex
	last uint64 // the largest argument of floor so far
	open map[*attempt]struct{}
}

// attempt is one attempt of an Update.
type attempt struct {
	bound uint64 // its timestamp is at least this
}

// begin is called before the timestamp is requested, so the timestamp is at least every
// argument of floor so far.
func (f *inFlight) begin() *attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &attempt{bound: f.last}
	f.open[a] = struct{}{}
	return a
}

// setTimestamp sets the timestamp of an attempt.
func (f *inFlight) setTimestamp(a *attempt, ts uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.bound = ts
}

// end is called when an attempt has committed, or never will.
func (f *inFlight) end(a *attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, a)
}

// floor returns a timestamp such that no Update of this process with a smaller one can still
// commit, when now is the cluster's time. It never decreases.
func (f *inFlight) floor(now uint64) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = max(f.last, now)
	floor := now
	for a := range f.open {
		floor = min(floor, a.bound)
	}
	return floor
}
