package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store"
)

const (
	workers = 64
	rounds  = 20
)

// concurrently runs work in many goroutines and waits for them.
func concurrently(t *testing.T, work func(worker int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			if err := work(w); err != nil {
				t.Errorf("worker %d: %v", w, err)
			}
		})
	}
	wg.Wait()
}

func testConcurrency(t *testing.T, open Open) {
	cases(t, open, []engineTest{
		{"no increment of one key is lost", testNoLostIncrement},
		{"keys declared in any order do not deadlock", testNoDeadlock},
		{"of two Updates that read both keys and write one each, one sees the other", testNoWriteSkew},
		{"a snapshot and a range read show updates whole, and all that returned", testWholeUpdates},
		{"a read is never older than one before it", testMonotonicReads},
		{"stamps are unique, and those of a key grow", testUniqueStamps},
		{"no commit appears below the horizon", testNoCommitBelowHorizon},
	})
}

func testNoLostIncrement(t *testing.T, e store.Engine) {
	concurrently(t, func(int) error {
		for range rounds {
			if err := increment(e, "n"); err != nil {
				return err
			}
		}
		return nil
	})
	if n := number(t, e, "n"); n != workers*rounds {
		t.Errorf("%d, want %d", n, workers*rounds)
	}
}

func testNoDeadlock(t *testing.T, e store.Engine) {
	names := []string{"a", "b", "c", "d", "e"}
	concurrently(t, func(w int) error {
		r := rand.New(rand.NewPCG(1, uint64(w)))
		for range rounds {
			var keys []string
			for _, i := range r.Perm(len(names))[:3] {
				keys = append(keys, names[i])
			}
			if err := increment(e, keys...); err != nil {
				return err
			}
		}
		return nil
	})
	var sum uint64
	for _, k := range names {
		sum += number(t, e, k)
	}
	if sum != 3*workers*rounds {
		t.Errorf("%d, want %d", sum, 3*workers*rounds)
	}
}

func testNoWriteSkew(t *testing.T, e store.Engine) {
	ctx := context.Background()
	for round := range 50 {
		a, b := fmt.Appendf(nil, "a%d", round), fmt.Appendf(nil, "b%d", round)
		var wg sync.WaitGroup
		for _, mine := range [][]byte{a, b} {
			wg.Go(func() {
				err := e.Update(ctx, [][]byte{a, b}, func(tx store.Tx) error {
					_, hasA := tx.Get(a)
					_, hasB := tx.Get(b)
					if !hasA && !hasB {
						tx.Set(mine, []byte("1"))
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		v, err := e.Get(ctx, store.Strong, a, b)
		if err != nil || (v[0] == nil) == (v[1] == nil) {
			t.Fatalf("round %d: %q, %v", round, v, err)
		}
	}
}

func testWholeUpdates(t *testing.T, e store.Engine) {
	ctx := context.Background()
	// Each read allows some updates. Without this limit they get ahead of reads on a busy
	// machine, and a read that skips all older versions of a key gets slower with each of them.
	const updatesPerRead = 50
	allowed := make(chan struct{}, updatesPerRead)
	var writer sync.WaitGroup
	writer.Go(func() {
		for range allowed {
			if err := increment(e, "a", "b", "c"); err != nil {
				t.Error(err)
				return
			}
		}
	})
	allow := func() {
		for range updatesPerRead {
			select {
			case allowed <- struct{}{}:
			default:
				return
			}
		}
	}
	defer writer.Wait()
	defer close(allowed)
	for range 200 {
		allow()
		least := number(t, e, "b")
		s, err := e.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.Get(ctx, byteKeys("a", "b", "c")...)
		if err != nil || decode(v[0]) != decode(v[2]) || decode(v[0]) != decode(v[1]) || decode(v[0]) < least {
			t.Errorf("after %d: %x, %v", least, v, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		least = decode(v[0])
		var values []uint64
		err = e.ReadRange(ctx, store.Range{}, func(p store.Pair) bool { values = append(values, decode(p.Value)); return true })
		if err != nil || len(values) > 0 && (len(values) != 3 || values[0] != values[2] || values[0] != values[1]) || least > 0 && (len(values) == 0 || values[0] < least) {
			t.Errorf("ReadRange after %d: %d, %v", least, values, err)
		}
	}
}

func testMonotonicReads(t *testing.T, e store.Engine) {
	ctx := context.Background()
	concurrently(t, func(w int) error {
		var seen uint64
		for range rounds {
			if w%4 == 0 {
				if err := increment(e, "n"); err != nil {
					return err
				}
			}
			v, err := e.Get(ctx, store.Strong, []byte("n"))
			if err != nil {
				return err
			}
			if n := decode(v[0]); n < seen {
				return fmt.Errorf("%d after %d", n, seen)
			} else {
				seen = n
			}
		}
		return nil
	})
}

func testUniqueStamps(t *testing.T, e store.Engine) {
	ctx := context.Background()
	var mu sync.Mutex
	seen := make(map[store.Stamp]bool)
	concurrently(t, func(w int) error {
		key := fmt.Appendf(nil, "k%d", w%8)
		for range rounds {
			var stamp store.Stamp
			err := e.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
				stamp = tx.Stamp()
				if v, _ := tx.Get(key); uint64(tx.Stamp()) <= decode(v) {
					return fmt.Errorf("stamp %d after %d", tx.Stamp(), decode(v))
				}
				tx.Set(key, encode(uint64(tx.Stamp())))
				return nil
			})
			if err != nil {
				return err
			}
			mu.Lock()
			if seen[stamp] {
				t.Errorf("stamp %d twice", stamp)
			}
			seen[stamp] = true
			mu.Unlock()
		}
		return nil
	})
}

func testNoCommitBelowHorizon(t *testing.T, e store.Engine) {
	ctx := context.Background()
	// Writers append records by stamp. A reader that reads up to the horizon,
	// and continues from there, must read every record once.
	var written, read int
	var mu sync.Mutex
	done := make(chan struct{})
	var reader sync.WaitGroup
	from := encode(0)
	follow := func() {
		h, err := e.Horizon(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		s, err := e.Snapshot(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		to := encode(uint64(h))
		for _, err := range s.Scan(ctx, store.Range{Start: from, End: to, KeysOnly: true}) {
			if err != nil {
				t.Error(err)
			}
			read++
		}
		from = to
	}
	reader.Go(func() {
		for {
			follow()
			select {
			case <-done:
				return
			default:
			}
		}
	})
	concurrently(t, func(w int) error {
		for range rounds {
			var stamp store.Stamp
			err := e.Update(ctx, [][]byte{fmt.Appendf(nil, "\xfek%d", w)}, func(tx store.Tx) error {
				stamp = tx.Stamp()
				tx.Set(encode(uint64(tx.Stamp())), []byte("1"))
				return nil
			})
			if err != nil {
				return err
			}
			h, err := e.Horizon(ctx)
			if err != nil {
				return err
			}
			if h <= 0 || stamp == 0 {
				return fmt.Errorf("stamp %d, horizon %d", stamp, h)
			}
			mu.Lock()
			written++
			mu.Unlock()
		}
		return nil
	})
	close(done)
	reader.Wait()
	follow()
	if read != written {
		t.Errorf("%d records read of %d written", read, written)
	}
}

func testStamps(t *testing.T, open Open) {
	t.Run("they grow", func(t *testing.T) {
		e, _ := open(t)
		var last store.Stamp
		for i := range 100 {
			s := put(t, e, fmt.Sprintf("k%d", i), "1")
			if s <= last {
				t.Fatalf("stamp %d after %d", s, last)
			}
			last = s
		}
		if h, err := e.Horizon(context.Background()); err != nil || h <= last {
			t.Errorf("horizon %d, %v, after %d, with nothing in flight", h, err, last)
		}
	})
	t.Run("they and the data survive a restart", func(t *testing.T) {
		e, reopen := open(t)
		if reopen == nil {
			t.Skip("the engine loses its data on Close")
		}
		var last store.Stamp
		for i := range 5 {
			s := put(t, e, "a", fmt.Sprint(i+1))
			if s <= last {
				t.Fatalf("stamp %d after %d", s, last)
			}
			h, err := e.Horizon(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			last = max(s, h-1)
			e = reopen()
			same(t, "get", get(t, strong(e), "a"), []string{fmt.Sprint(i + 1)})
			if again, err := e.Horizon(context.Background()); err != nil || again < h {
				t.Errorf("horizon %d, %v, after %d", again, err, h)
			}
		}
	})
}

func testWaiting(t *testing.T, open Open) {
	t.Run("an Update that waits for another can be cancelled", func(t *testing.T) {
		e, _ := open(t)
		inside, left := make(chan struct{}), make(chan struct{})
		leave := sync.OnceFunc(func() { close(left) })
		t.Cleanup(leave) // otherwise the engine could not be closed
		var holder sync.WaitGroup
		holder.Go(func() {
			var once sync.Once
			err := e.Update(context.Background(), byteKeys("a"), func(tx store.Tx) error {
				once.Do(func() { close(inside) })
				<-left
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		<-inside
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		err := e.Update(ctx, byteKeys("b", "a", "c", "d"), func(tx store.Tx) error {
			tx.Set([]byte("a"), []byte("1"))
			return ctx.Err() // an engine without latches runs it
		})
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, store.ErrConflict) {
			t.Errorf("Update: %v", err)
		}
		// Its latches are released, except for a key that happens to share the latch
		// of the first.
		free := 0
		for _, key := range []string{"b", "c", "d"} {
			if err := e.Update(context.Background(), byteKeys(key), func(tx store.Tx) error {
				tx.Set([]byte(key), []byte("1"))
				return nil
			}); err == nil {
				free++
			}
		}
		if free < 2 {
			t.Errorf("%d of 3 keys are free", free)
		}
		leave()
		holder.Wait()
		put(t, e, "a", "2")
	})
	t.Run("nothing begins with a cancelled context", func(t *testing.T) {
		e, _ := open(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, getErr := e.Get(ctx, store.Strong, []byte("a"))
		_, snapshotErr := e.Snapshot(ctx)
		updateErr := e.Update(ctx, byteKeys("a"), func(store.Tx) error { return nil })
		readErr := e.ReadRange(ctx, store.Range{}, func(store.Pair) bool { return true })
		deleteErr := e.DeleteRange(ctx, []byte("a"), []byte("b"))
		for _, err := range []error{getErr, snapshotErr, updateErr, readErr, deleteErr} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
	})
}

func testClosing(t *testing.T, open Open) {
	ctx := context.Background()
	t.Run("after Close all is closed", func(t *testing.T) {
		e, _ := open(t)
		put(t, e, "a", "1")
		s, err := e.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
		_, getErr := e.Get(ctx, store.Strong, []byte("a"))
		_, snapshotErr := e.Snapshot(ctx)
		updateErr := e.Update(ctx, byteKeys("a"), func(store.Tx) error { return nil })
		_, horizonErr := e.Horizon(ctx)
		readErr := e.ReadRange(ctx, store.Range{}, func(store.Pair) bool { return true })
		_, viewErr := s.Get(ctx, []byte("a"))
		errs := []error{getErr, snapshotErr, updateErr, horizonErr, readErr, viewErr, e.DeleteRange(ctx, nil, nil)}
		for _, err := range s.Scan(ctx, store.Range{}) {
			errs = append(errs, err)
		}
		for i, err := range errs {
			if !errors.Is(err, store.ErrClosed) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("close snapshot: %v", err)
		}
	})
	t.Run("calls in progress end before Close does", func(t *testing.T) {
		e, reopen := open(t)
		acknowledged := make([]uint64, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				key := fmt.Sprintf("k%d", w)
				for {
					err := increment(e, key)
					if errors.Is(err, store.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					acknowledged[w]++
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if reopen == nil {
			return
		}
		e = reopen()
		for w, want := range acknowledged {
			if n := number(t, e, fmt.Sprintf("k%d", w)); n != want {
				t.Errorf("k%d is %d, want %d", w, n, want)
			}
		}
	})
}
