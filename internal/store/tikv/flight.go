package tikv

import "sync"

// flights are the Updates of this process that can still commit.
type flights struct {
	mu   sync.Mutex
	last uint64 // the largest timestamp that floor was told
	open map[*flight]struct{}
}

// flight is one attempt of an Update.
type flight struct {
	bound uint64 // its timestamp is no smaller
}

// begin is called before the timestamp is asked for, so that it is no smaller
// than any that floor was told.
func (f *flights) begin() *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := &flight{bound: f.last}
	f.open[one] = struct{}{}
	return one
}

// is tells the timestamp of a flight.
func (f *flights) is(one *flight, ts uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.bound = ts
}

// end tells that a flight has committed, or never will.
func (f *flights) end(one *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, one)
}

// floor is a timestamp such that no Update of this process with a smaller one
// can still commit, when now is the cluster's time. It never goes back.
func (f *flights) floor(now uint64) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = max(f.last, now)
	floor := now
	for one := range f.open {
		floor = min(floor, one.bound)
	}
	return floor
}
