package standby

import (
	"bufio"
	"context"
	"io"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/virtualtime"
)

// silentSnapshot has one pair, which a scan finds after a long time, as behind many deleted keys.
type silentSnapshot struct {
	store.Snapshot
	after time.Duration
}

func (s silentSnapshot) Scan(context.Context, store.Range) iter.Seq2[store.Pair, error] {
	return func(yield func(store.Pair, error) bool) {
		time.Sleep(s.after)
		yield(store.Pair{Key: []byte("key"), Value: []byte("value")}, nil)
	}
}

// bufferedWriter is a connection that sends when it is flushed, as that of a server does.
type bufferedWriter struct {
	out     *bufio.Writer
	flushes atomic.Int64
}

func (w *bufferedWriter) Write(b []byte) (int, error) { return w.out.Write(b) }

func (w *bufferedWriter) Flush() {
	w.flushes.Add(1)
	_ = w.out.Flush() // the reader has gone
}

// A standby does not give a copy up while the scan of the server finds no keys.
func TestScanThatFindsNothing(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := newTestSource(nil)
		in, out := io.Pipe()
		to := &bufferedWriter{out: bufio.NewWriterSize(out, 1<<20)}
		const silence = 10 * stallTimeout
		go func() {
			w := newMessageWriter(to)
			w.json(messageBegin, copyBegin{Slot: "slot"})
			pairs, err := s.sendPairs(t.Context(), silentSnapshot{after: silence}, func() error { return nil }, w)
			if err != nil {
				t.Error(err)
			}
			w.json(messageEnd, copyEnd{Pairs: pairs})
			if err := w.flush(); err != nil {
				t.Error(err)
			}
			to.Flush()
			_ = out.Close() // of a pipe: it does not fail
		}()
		stalled := time.AfterFunc(stallTimeout, func() { _ = in.CloseWithError(errIncomplete) })
		r := &messageReader{bufio.NewReader(&timedReader{in, stalled})}
		began := time.Now()
		if err := r.nextJSON(messageBegin, new(copyBegin)); err != nil {
			t.Fatal(err)
		}
		var end copyEnd
		f := &Follower{}
		count := 0
		for _, err := range f.pairs(r, &end) {
			if err != nil {
				t.Fatalf("after %s: %v", time.Since(began), err)
			}
			count++
		}
		if count != 1 || time.Since(began) < silence {
			t.Errorf("%d pairs arrived after %s", count, time.Since(began))
		}
		if n := to.flushes.Load(); n > int64(silence/aliveInterval)+2 {
			t.Errorf("the connection was flushed %d times", n)
		}
	})
}

// A panic while an empty message is written does not end the process: it is that of the request.
func TestPanicOfAnEmptyMessage(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		defer func() {
			if p := recover(); p != any(http.ErrAbortHandler) {
				t.Errorf("the panic is %v", p)
			}
		}()
		w := newMessageWriter(abortingWriter{})
		_, err := newTestSource(nil).sendPairs(t.Context(), silentSnapshot{after: time.Minute}, func() error { return nil }, w)
		t.Errorf("it is lost: %v", err)
	})
}

// abortingWriter is a connection on which net/http, or a handler in between, gives up.
type abortingWriter struct{}

func (abortingWriter) Write([]byte) (int, error) { panic(http.ErrAbortHandler) }
