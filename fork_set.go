package stator

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/overlay"
)

// forkSet has the forks that requests make.
type forkSet struct {
	db     *DB
	o      ForkOptions
	budget *overlay.Budget
	main   *forkSlot // of the server's own database

	mu     sync.RWMutex
	forks  map[string]*forkSlot
	count  int // of forks and snapshots
	closed bool

	rewound atomic.Bool    // main.current is not nil
	closing sync.WaitGroup // databases that are being closed

	stop context.CancelFunc
	done chan struct{}
}

// forkSlot is a fork, or the server's own database, under its name. It implements ops.Forks.
type forkSlot struct {
	set      *forkSet
	name, of string // the name is empty for the server's own
	created  time.Time

	mu        sync.Mutex
	current   *forkState // nil for the server's own database, until it is rewound
	snapshots map[string]*forkSnapshot
	lastUsed  time.Time
	dropped   bool
}

// forkState is a database that a forkSlot has, or has had and requests still use.
type forkState struct {
	slot   *forkSlot
	engine *overlay.Engine

	opening  sync.Mutex
	db       *DB                             // nil until the first request; guarded by opening
	database atomic.Pointer[server.Database] // set when db is

	users int  // requests; guarded by slot.mu
	gone  bool // the slot has another one, or is dropped; guarded by slot.mu
}

// forkSnapshot is a state that was kept. Nothing is written to its engine.
type forkSnapshot struct {
	name    string
	created time.Time
	engine  *overlay.Engine
}

// newForkSet returns the forks of a server; nil if it makes none.
func newForkSet(d *DB) *forkSet {
	if d.options.Forks == nil {
		return nil
	}
	s := &forkSet{db: d, o: d.options.Forks.withDefaults(), forks: make(map[string]*forkSlot), done: make(chan struct{})}
	s.budget = &overlay.Budget{MaxBytes: s.o.AllBytes}
	s.main = &forkSlot{set: s, snapshots: make(map[string]*forkSnapshot)}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer close(s.done)
		s.dropUnused(ctx)
	}()
	return s
}

// ofServer returns the forks as the server's own database has them; nil if it has none.
func (s *forkSet) ofServer() ops.Forks {
	if s == nil {
		return nil
	}
	return s.main
}

// close drops all forks, and waits until they are closed. No requests may be in progress.
func (s *forkSet) close() {
	s.stop()
	<-s.done
	s.mu.Lock()
	s.closed = true
	slots := append(slices.Collect(maps.Values(s.forks)), s.main)
	s.mu.Unlock()
	for _, slot := range slots {
		s.drop(slot)
	}
	s.closing.Wait()
}

// dropUnused drops forks that were idle for too long, or are too old: each holds a snapshot of
// the database, which keeps old versions of items.
func (s *forkSet) dropUnused(ctx context.Context) {
	const parts = 10 // of the times, by which a fork may be dropped later
	tick := time.NewTicker(max(time.Millisecond, min(s.o.Idle, s.o.Lifetime)/parts))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.mu.RLock()
			slots := slices.Collect(maps.Values(s.forks))
			s.mu.RUnlock()
			for _, slot := range slots {
				if why := s.dropIf(slot, func() string { return slot.unused(now) }); why != "" {
					s.db.log.Info("a fork was dropped", "fork", slot.name, "because", why)
				}
			}
		}
	}
}

// unused returns why a fork is to be dropped; empty if it is not. f.mu must be held.
func (f *forkSlot) unused(now time.Time) string {
	switch {
	case now.Sub(f.created) >= f.set.o.Lifetime:
		return "it has reached the longest lifetime"
	case f.current.users == 0 && now.Sub(f.lastUsed) >= f.set.o.Idle:
		return "it was not used"
	}
	return ""
}

// drop removes a fork with its snapshots. Requests in progress are answered.
func (s *forkSet) drop(f *forkSlot) (dropped bool) {
	return s.dropIf(f, func() string { return "it was deleted" }) != ""
}

// dropIf is drop if there is a reason, which it returns. No request begins in between.
func (s *forkSet) dropIf(f *forkSlot, reason func() string) (why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropped {
		return ""
	}
	if why = reason(); why == "" {
		return ""
	}
	f.dropped = true
	s.mu.Lock()
	s.count -= len(f.snapshots)
	if s.forks[f.name] == f {
		delete(s.forks, f.name)
		s.count--
	}
	s.mu.Unlock()
	for _, kept := range f.snapshots {
		f.logged(kept.engine.Close())
	}
	clear(f.snapshots)
	if f.current != nil {
		f.current.leave()
	}
	return why
}

// leave closes a state when no request uses it any more. slot.mu must be held.
func (s *forkState) leave() {
	s.gone = true
	if s.users == 0 {
		s.slot.set.closing.Go(s.close)
	}
}

func (s *forkState) close() {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.db != nil {
		s.slot.logged(s.db.Close())
	} else {
		s.slot.logged(s.engine.Close())
	}
}

func (f *forkSlot) logged(err error) {
	if err != nil {
		f.set.db.log.Warn("a fork could not be closed", "fork", f.name, "error", err)
	}
}

// Acquire returns the database of a fork, as server.Forks says.
func (s *forkSet) Acquire(ctx context.Context, name string) (server.Fork, error) {
	slot := s.main
	if name != "" {
		s.mu.RLock()
		slot = s.forks[name]
		s.mu.RUnlock()
		if slot == nil {
			return nil, noFork(name)
		}
	} else if !s.rewound.Load() {
		return nil, nil
	}
	state := slot.use()
	if state == nil {
		return nil, noFork(name)
	}
	if state.database.Load() == nil {
		if err := state.open(ctx); err != nil {
			state.Release()
			return nil, err
		}
	}
	return state, nil
}

func noFork(name string) error {
	return apierror.NoFork(name, ". It was not created, was deleted, or was dropped because it was not used; see stator fork list")
}

// use returns the current state for a request; nil if the fork is dropped, or the server's own
// database was not rewound.
func (f *forkSlot) use() *forkState {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropped || f.current == nil {
		return nil
	}
	f.current.users++
	return f.current
}

// Release ends a request.
func (s *forkState) Release() {
	s.slot.mu.Lock()
	defer s.slot.mu.Unlock()
	s.users--
	s.slot.lastUsed = time.Now()
	if s.gone {
		s.leave()
	}
}

// Database returns the database for handlers.
func (s *forkState) Database() *server.Database { return s.database.Load() }

// open opens the database with the first request: thousands of forks that are not used yet
// need no background work.
func (s *forkState) open(ctx context.Context) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.db != nil {
		return nil
	}
	d, database, err := s.slot.set.db.openFork(context.WithoutCancel(ctx), s.engine, s.slot)
	if err != nil {
		return err
	}
	s.db = d
	s.database.Store(database)
	return nil
}

// forkEngine returns a fork of what the slot has now.
func (f *forkSlot) forkEngine(ctx context.Context, o overlay.Options) (*overlay.Engine, error) {
	state := f.use()
	if state == nil {
		if f.name != "" {
			return nil, noFork(f.name)
		}
		return f.set.db.forkOwnEngine(ctx, o)
	}
	defer state.Release()
	state.opening.Lock()
	opened := state.db
	state.opening.Unlock()
	if opened != nil {
		if err := opened.db.SaveCounts(ctx); err != nil {
			return nil, err
		}
	}
	return overlay.Fork(ctx, state.engine, o)
}

// overlay returns the options of a fork that a request makes.
func (s *forkSet) overlay() overlay.Options {
	return overlay.Options{Now: s.db.db.Now, MaxBytes: s.o.Bytes, Budget: s.budget}
}

// reserve counts one more fork or snapshot.
func (s *forkSet) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if s.count >= s.o.Max {
		return apierror.LimitExceeded("There are %d forks and snapshots, the most that this server may have (stator serve --forks): delete some that are not needed any more", s.count)
	}
	s.count++
	return nil
}

func (s *forkSet) unreserve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
}

// Fork returns the name of the fork.
func (f *forkSlot) Fork() string { return f.name }

// Create makes a fork.
func (f *forkSlot) Create(ctx context.Context, name, snapshot string) (ops.Fork, error) {
	s := f.set
	name = cmp.Or(name, "fork-"+strings.ToLower(rand.Text()[:12]))
	if err := s.reserve(); err != nil {
		return ops.Fork{}, err
	}
	engine, err := f.forkOf(ctx, snapshot)
	if err != nil {
		s.unreserve()
		return ops.Fork{}, forkFailed(err)
	}
	now := time.Now()
	fork := &forkSlot{set: s, name: name, of: f.name, created: now, lastUsed: now, snapshots: make(map[string]*forkSnapshot)}
	fork.current = &forkState{slot: fork, engine: engine}
	s.mu.Lock()
	taken := s.closed || s.forks[name] != nil
	if !taken {
		s.forks[name] = fork
	}
	s.mu.Unlock()
	if taken {
		s.unreserve()
		fork.logged(engine.Close())
		return ops.Fork{}, apierror.InUse("Fork already exists: %s", name)
	}
	return fork.describe(), nil
}

// forkOf returns a fork of a snapshot, or of what the slot has now.
func (f *forkSlot) forkOf(ctx context.Context, snapshot string) (*overlay.Engine, error) {
	if snapshot == "" {
		return f.forkEngine(ctx, f.set.overlay())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	kept, err := f.snapshot(snapshot)
	if err != nil {
		return nil, err
	}
	return overlay.Fork(ctx, kept.engine, f.set.overlay())
}

// snapshot returns a snapshot. f.mu must be held.
func (f *forkSlot) snapshot(name string) (*forkSnapshot, error) {
	if kept := f.snapshots[name]; kept != nil {
		return kept, nil
	}
	of := "this server"
	if f.name != "" {
		of = "fork " + f.name
	}
	return nil, apierror.NotFound("Requested resource not found: Snapshot: %s not found: %s has no snapshot of this name; see stator snapshot list", name, of)
}

func (f *forkSlot) describe() ops.Fork {
	f.mu.Lock()
	defer f.mu.Unlock()
	return ops.Fork{
		Name: f.name, Of: f.of, Created: f.created, LastUsed: f.lastUsed, Snapshots: len(f.snapshots), Bytes: f.current.engine.Bytes(),
		Expires: f.expires(),
	}
}

// expires returns when the fork is dropped unless it is used before.
func (f *forkSlot) expires() time.Time {
	idle, old := f.lastUsed.Add(f.set.o.Idle), f.created.Add(f.set.o.Lifetime)
	if old.Before(idle) {
		return old
	}
	return idle
}

// List returns the forks of the server by their names.
func (f *forkSlot) List() []ops.Fork {
	f.set.mu.RLock()
	slots := slices.Collect(maps.Values(f.set.forks))
	f.set.mu.RUnlock()
	var list []ops.Fork
	for _, slot := range slots {
		list = append(list, slot.describe())
	}
	slices.SortFunc(list, func(a, b ops.Fork) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Delete drops a fork.
func (f *forkSlot) Delete(name string) error {
	f.set.mu.RLock()
	fork := f.set.forks[name]
	f.set.mu.RUnlock()
	if fork == nil || !f.set.drop(fork) {
		return noFork(name)
	}
	return nil
}

// CreateSnapshot keeps what the database has now.
func (f *forkSlot) CreateSnapshot(ctx context.Context, name string) (ops.Snapshot, error) {
	if err := f.rewindable(); err != nil {
		return ops.Snapshot{}, err
	}
	if err := f.set.reserve(); err != nil {
		return ops.Snapshot{}, err
	}
	o := f.set.overlay()
	o.Continues = true
	engine, err := f.forkEngine(ctx, o)
	if err != nil {
		f.set.unreserve()
		return ops.Snapshot{}, forkFailed(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.dropped:
		err = noFork(f.name)
	case f.snapshots[name] != nil:
		err = apierror.InUse("Snapshot already exists: %s", name)
	}
	if err != nil {
		f.set.unreserve()
		f.logged(engine.Close())
		return ops.Snapshot{}, err
	}
	kept := &forkSnapshot{name: name, created: time.Now(), engine: engine}
	f.snapshots[name] = kept
	return ops.Snapshot{Name: name, Created: kept.created}, nil
}

// Snapshots returns the snapshots by their names.
func (f *forkSlot) Snapshots() []ops.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []ops.Snapshot
	for _, name := range slices.Sorted(maps.Keys(f.snapshots)) {
		list = append(list, ops.Snapshot{Name: name, Created: f.snapshots[name].created})
	}
	return list
}

// DeleteSnapshot drops a snapshot. Forks of it remain.
func (f *forkSlot) DeleteSnapshot(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept, err := f.snapshot(name)
	if err != nil {
		return err
	}
	delete(f.snapshots, name)
	f.set.unreserve()
	return kept.engine.Close()
}

// rewindable returns the error of a database that cannot be rewound. A fork always can.
func (f *forkSlot) rewindable() error {
	if f.name != "" {
		return nil
	}
	o := &f.set.db.options
	switch {
	case o.Engine != "":
		return forkFailed(overlay.ErrManyServers)
	case o.Dir != "":
		return apierror.Validation("This server keeps its data in a folder, and cannot be rewound: a rewind would have to survive a crash. Make a fork, which can be rewound (stator fork create, then --fork), restore tables to a point in time, or serve with --in-memory")
	case o.Backups != "" || len(o.Buckets) > 0:
		return apierror.Validation("A server with a location of backups or with buckets cannot be rewound, as what it stored there would remain. Make a fork, which can be rewound (stator fork create, then --fork)")
	case len(o.Triggers) > 0 || o.Cache != nil || o.BackupEvery > 0 || f.set.db.dax.Load() != nil || o.Access != nil && o.Access.inDatabase:
		return apierror.Validation("A server with triggers, a cache, a port for DAX, scheduled backups, or keys or policies in the database cannot be rewound, as they would continue with what was before. Make a fork, which can be rewound (stator fork create, then --fork)")
	}
	return nil
}

// Rewind replaces the database by a fork of a snapshot. Requests in progress are answered by
// the database from before, whose later writes are lost with it; requests wait until the other
// one is open. Its stamps continue after those of before, so that iterators of streams remain
// valid and return nothing twice.
func (f *forkSlot) Rewind(ctx context.Context, name string) (ops.Snapshot, error) {
	if err := f.rewindable(); err != nil {
		return ops.Snapshot{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropped {
		return ops.Snapshot{}, noFork(f.name)
	}
	kept, err := f.snapshot(name)
	if err != nil {
		return ops.Snapshot{}, err
	}
	o := f.set.overlay()
	o.Continues = true
	var before store.Engine = f.set.db.engine
	if f.name == "" { // as before, what is in memory has no bound
		o.MaxBytes, o.Budget = 0, nil
	}
	if f.current != nil {
		before = f.current.engine
	}
	if o.After, err = before.Horizon(ctx); err != nil {
		return ops.Snapshot{}, err
	}
	restore := func() {}
	if f.current != nil { // what it has is dropped, and its memory is that of the next state
		restore = f.current.engine.Uncharge()
	}
	engine, err := overlay.Fork(ctx, kept.engine, o)
	if err != nil {
		restore()
		return ops.Snapshot{}, err
	}
	state := &forkState{slot: f, engine: engine}
	if err := state.open(ctx); err != nil {
		restore()
		return ops.Snapshot{}, err
	}
	if f.current != nil {
		f.current.leave()
	}
	f.current = state
	if f.name == "" {
		f.set.rewound.Store(true)
	}
	return ops.Snapshot{Name: name, Created: kept.created}, nil
}

// metrics returns the number of forks and their memory.
func (s *forkSet) metrics() []metrics.Metric {
	s.mu.RLock()
	forks := len(s.forks)
	s.mu.RUnlock()
	return []metrics.Metric{
		{Name: "stator_forks", Help: "Forks of the database.", Type: metrics.Gauge, Samples: metrics.Value(float64(forks))},
		{Name: "stator_fork_bytes", Help: "Memory of what was written to forks.", Type: metrics.Gauge, Samples: metrics.Value(float64(s.budget.Used()))},
	}
}
