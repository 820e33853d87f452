package ops

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/cache"
)

// beginWrites begins writes through the cache. It returns nil if the request does not go
// through it, or if a write does not fit its table: then the database reports why. A
// coherent cache gets the writes from the database itself.
func (s *Service) beginWrites(ctx context.Context, writes ...db.Write) *cache.Write {
	if s.through(ctx) == nil || s.cache.Mode() != cache.DAX {
		return nil
	}
	keys := make([][]byte, len(writes))
	for i := range writes {
		w := &writes[i]
		t, err := s.DB.Table(w.Table)
		if err != nil || w.Fit(t, w.Key) != nil {
			return nil
		}
		keys[i] = keyspace.Item(nil, t, w.Key)
	}
	return s.cache.BeginWrite(keys...)
}

// write executes a write, and caches the item after it if the request goes through the
// cache.
func (s *Service) write(ctx context.Context, w db.Write) ([]db.Outcome, error) {
	if s.cache == nil {
		return s.DB.Write(ctx, w)
	}
	through := s.beginWrites(ctx, w)
	if through == nil {
		return s.DB.Write(ctx, w)
	}
	defer through.End()
	done, err := s.DB.Write(ctx, w)
	switch {
	case err == nil:
		through.Put(0, done[0].After)
	case !isFault(err):
		through.Forget(0) // it may have been written
	}
	return done, err
}

// writeBatch executes a batch, and caches the items of the writes that were done if the
// request goes through the cache.
func (s *Service) writeBatch(ctx context.Context, writes []db.Write) ([]db.Outcome, error) {
	through := s.beginWrites(ctx, writes...)
	if through == nil {
		return s.DB.WriteBatch(ctx, writes...)
	}
	defer through.End()
	done, err := s.DB.WriteBatch(ctx, writes...)
	if err != nil {
		through.Forget(0) // some may have been written
		return nil, err
	}
	for i := range done {
		if done[i].Table != nil {
			through.Put(i, done[i].After)
		}
	}
	return done, nil
}

// transactCached executes a transaction. If the request goes through the cache, its items
// are then read and cached in the background, as DAX does.
func (s *Service) transactCached(ctx context.Context, token *db.Token, actions []action) (done []db.Outcome, err error) {
	var through *cache.Write
	if s.through(ctx) != nil {
		writes := make([]db.Write, len(actions))
		for i := range actions {
			writes[i] = actions[i].Write
		}
		through = s.beginWrites(ctx, writes...)
	}
	if through == nil {
		return s.transact(ctx, token, actions)
	}
	ended := false
	defer func() {
		if !ended {
			through.End()
		}
	}()
	if done, err = s.transact(ctx, token, actions); err != nil {
		if _, replayed := errors.AsType[*db.Replayed](err); !replayed && !isFault(err) {
			through.Forget(0)
		}
		return nil, err
	}
	gets := make([]db.GetKey, len(actions))
	for i := range actions {
		gets[i] = db.GetKey{Table: actions[i].Table, Key: done[i].Table.Key.Of(actions[i].Key)}
	}
	ended = true
	s.refresher.add(transacted{through, gets})
	return done, nil
}

// refresher reads the items of transactions and caches them.
type refresher struct {
	db *db.DB

	mu      sync.Mutex
	waiting []transacted
	workers int
	closed  bool
	work    sync.WaitGroup
	ctx     context.Context // of the reads
	stop    context.CancelFunc
}

// transacted is the items of a transaction that was committed.
type transacted struct {
	write *cache.Write
	gets  []db.GetKey
}

// Bounds of a refresher. The items of further transactions are removed from the cache.
const (
	maxRefreshers = 4
	maxTransacted = 256
)

func newRefresher(d *db.DB) *refresher {
	r := &refresher{db: d}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// add makes the items of a transaction be read.
func (r *refresher) add(t transacted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.waiting) == maxTransacted {
		t.write.Forget(0)
		t.write.End()
		return
	}
	r.waiting = append(r.waiting, t)
	if r.workers < maxRefreshers {
		r.workers++
		r.work.Go(r.run)
	}
}

// run reads the items of transactions until none is waiting.
func (r *refresher) run() {
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 {
			r.workers--
			r.mu.Unlock()
			return
		}
		next := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		r.read(next)
	}
}

// read reads and caches the items of a transaction. What could not be read is removed
// from the cache.
func (r *refresher) read(t transacted) {
	defer func() {
		if p := recover(); p != nil { // nobody waits for the items
			r.db.Log().Error("panic while the items of a transaction were read for the cache", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	defer t.write.End()
	t.write.Forget(0)
	items, err := r.db.GetSnapshot(r.ctx, db.MaxTransactionBytes, nil, t.gets...)
	if err != nil {
		return
	}
	for i, it := range items {
		t.write.Put(i, it)
	}
}

// close cancels the reads, and waits for those in progress.
func (r *refresher) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.work.Wait()
}

// Close ends the work that requests have left to do in the background. It is called
// before the database is closed.
func (s *Service) Close() {
	if s.refresher != nil {
		s.refresher.close()
	}
}
