package stator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/tikv"
	"github.com/stator-db/stator/internal/store/tikv/tikvtest"
)

// fleetTest is servers that share a database with a table Items, whose key is pk.
type fleetTest struct {
	testing.TB
	cluster *tikvtest.Cluster
	backups string
	lease   time.Duration
	beat    time.Duration
	delay   time.Duration // of each request to the cluster
}

func newFleet(t testing.TB) *fleetTest {
	t.Helper()
	return &fleetTest{TB: t, cluster: tikvtest.New(t), backups: t.TempDir(), lease: 10 * time.Second}
}

// fleetServer is a server of a fleet. Its methods can be called at the same time.
type fleetServer struct {
	testing.TB
	db     *DB
	engine *tikv.Engine
	cable  *cable
	close  func()
}

// open starts a server. wrap, which may be nil, changes its engine.
func (f *fleetTest) open(c *Cache, wrap func(*tikv.Engine) store.Engine) *fleetServer {
	f.Helper()
	log := slog.New(slog.DiscardHandler)
	s := &fleetServer{TB: f.TB, cable: &cable{Client: f.cluster.Client(), delay: f.delay}}
	options := tikv.Options{Log: log}
	options.Lease, options.Beat = f.lease, f.beat
	s.engine = f.cluster.OpenOver(f.TB, s.cable, options)
	engine := store.Engine(s.engine)
	if wrap != nil {
		engine = wrap(s.engine)
	}
	o := Options{Backups: f.backups, Log: log, Cache: c}
	var err error
	if s.db, err = openOn(context.Background(), engine, o, o.clock(s.engine)); err != nil {
		f.Fatal(err)
	}
	s.close = sync.OnceFunc(func() {
		s.cable.off.Store(false)
		if err := s.db.Close(); err != nil {
			f.Error(err)
		}
	})
	f.Cleanup(s.close)
	return s
}

// createTable creates the table.
func (s *fleetServer) createTable() {
	s.Helper()
	s.do("CreateTable", `{"TableName":"Items","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]}`)
}

// valid waits until the coherent cache of a server is used.
func (s *fleetServer) valid() *fleetServer {
	s.Helper()
	soon(s, "the cache is used", s.db.db.CacheIsValid)
	return s
}

// cable is a connection that a test can interrupt.
type cable struct {
	client.Client
	off   atomic.Bool
	delay time.Duration // of each request
}

func (c *cable) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	if c.delay > 0 {
		time.Sleep(c.delay)
	}
	for c.off.Load() {
		select {
		case <-ctx.Done():
			return nil, tikvtest.ErrEnded
		case <-time.After(time.Millisecond):
		}
	}
	return c.Client.SendRequest(ctx, addr, req, timeout)
}

func soon(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after 30 s", what)
		}
	}
}

// send sends a request over HTTP and returns the reply, how the cache was used, and whether
// it succeeded.
func (s *fleetServer) send(ctx context.Context, operation, body string) (reply, use string, ok bool) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	_ = signAnything(r)
	w := httptest.NewRecorder()
	s.db.Handler().ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Body)
	return string(text), w.Header().Get("X-Stator-Cache"), w.Code == http.StatusOK
}

func signAnything(r *http.Request) error {
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	return nil
}

func (s *fleetServer) do(operation, body string) (reply, use string) {
	s.Helper()
	reply, use, ok := s.send(s.Context(), operation, body)
	if !ok {
		s.Errorf("%s %s: %s", operation, body, reply)
	}
	return reply, use
}

func (s *fleetServer) put(pk string, v int) {
	s.Helper()
	s.do("PutItem", fmt.Sprintf(`{"TableName":"Items","Item":{"pk":{"S":%q},"v":{"N":"%d"}}}`, pk, v))
}

// get returns the value of an item, 0 if there is none, and how the cache was used.
func (s *fleetServer) get(pk string) (v int, use string) {
	s.Helper()
	reply, use := s.do("GetItem", fmt.Sprintf(`{"TableName":"Items","Key":{"pk":{"S":%q}}}`, pk))
	return valueIn(reply), use
}

func valueIn(reply string) (v int) {
	if _, text, ok := strings.Cut(reply, `"v":{"N":"`); ok {
		_, _ = fmt.Sscanf(text, "%d", &v)
	}
	return v
}

// want checks what a server returns for an item, and how the cache was used.
func (s *fleetServer) want(pk string, v int, use string) {
	s.Helper()
	if got, used := s.get(pk); got != v || used != use {
		s.Errorf("%s is %d (%s), want %d (%s)", pk, got, used, v, use)
	}
}

const (
	scanItems  = `{"TableName":"Items"}`
	queryItemA = `{"TableName":"Items","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"a"}}}`
)

// unannounced is an engine whose writes are not announced to other servers.
type unannounced struct{ *tikv.Engine }

func (unannounced) Attended(string) bool { return false }

func withoutAnnouncements(e *tikv.Engine) store.Engine { return unannounced{e} }

// A write through any server, with or without a cache, is seen at once through a coherent
// cache of another.
func TestCoherentCacheOfAFleet(t *testing.T) {
	f := newFleet(t)
	plain := f.open(nil, nil)
	plain.createTable()
	a, b := f.open(NewCache(CacheCoherent), nil).valid(), f.open(NewCache(CacheCoherent), nil).valid()
	v := 0
	command := f.open(nil, func(e *tikv.Engine) store.Engine { return withoutBackground(e) })
	for _, writer := range []*fleetServer{plain, command, a, b} {
		for _, request := range []string{
			`PutItem {"TableName":"Items","Item":{"pk":{"S":"a"},"v":{"N":"%d"}}}`,
			`UpdateItem {"TableName":"Items","Key":{"pk":{"S":"a"}},"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"N":"%d"}}}`,
			`BatchWriteItem {"RequestItems":{"Items":[{"PutRequest":{"Item":{"pk":{"S":"a"},"v":{"N":"%d"}}}}]}}`,
			`TransactWriteItems {"TransactItems":[{"Put":{"TableName":"Items","Item":{"pk":{"S":"a"},"v":{"N":"%d"}}}}]}`,
			`ExecuteStatement {"Statement":"UPDATE Items SET v = %d WHERE pk = 'a'"}`,
		} {
			v++
			operation, body, _ := strings.Cut(fmt.Sprintf(request, v), " ")
			writer.do(operation, body)
			for _, reader := range []*fleetServer{a, b} {
				for _, use := range []string{"miss", "hit"} {
					reader.want("a", v, use)
					for operation, body := range map[string]string{"Scan": scanItems, "Query": queryItemA} {
						if reply, used := reader.do(operation, body); valueIn(reply) != v || used != use {
							t.Errorf("after %s, %s returns %s (%s), want %d (%s)", request, operation, reply, used, v, use)
						}
					}
				}
			}
		}
	}
	a.want("other", 0, "miss")
	plain.do("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"a"},"v":{"N":"99"}}}`)
	a.want("other", 0, "hit") // an item that nobody has written
	if reply, _, ok := plain.send(t.Context(), "PutItem", `{"TableName":"Items","Item":{"pk":{"S":"other"}},"ConditionExpression":"attribute_exists(pk)"}`); ok {
		t.Error(reply)
	}
	a.want("other", 0, "hit") // a write that was rejected changes nothing
	sent := plain.db.db.CacheMetrics()[0].Samples[0].Value
	a.close()
	b.close()
	soon(t, "no cache is known", func() bool { return !plain.engine.Attended("coherent") })
	plain.put("a", 100)
	if after := plain.db.db.CacheMetrics()[0].Samples[0].Value; sent == 0 || after != sent {
		t.Errorf("%v announcements with caches, %v after a write without", sent, after)
	}
}

// With concurrent writes and reads through three servers, no read that begins after a write
// was answered returns what was before it. The control is servers that do not announce
// writes.
func TestCoherentFleetIsNeverStale(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrap  func(*tikv.Engine) store.Engine
		stale bool
	}{{"announced", nil, false}, {"not announced", withoutAnnouncements, true}} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			servers := []*fleetServer{f.open(NewCache(CacheCoherent), c.wrap), f.open(NewCache(CacheCoherent), c.wrap), f.open(nil, c.wrap)}
			servers[0].createTable()
			servers[0].valid()
			servers[1].valid()
			reads, hits, stale := readAndWrite(t, 15, func() *fleetServer { return servers[rand.N(len(servers))] })
			t.Logf("%d reads, %d hits, %d stale", reads, hits, stale)
			if (stale > 0) != c.stale || hits < 10 {
				t.Errorf("of %d reads %d are hits, and %d are stale", reads, hits, stale)
			}
		})
	}
}

// readAndWrite writes a few items often and reads them meanwhile, each request through a
// server that choose returns. It counts the reads that have returned what was replaced by a
// write that was answered before they began.
func readAndWrite(t *testing.T, writes int, choose func() *fleetServer) (reads, hits, stale int64) {
	const items = 3
	var answered [items]atomic.Int64 // the last value that a write was answered for
	var readsOf [items]atomic.Int64
	var all, hit, old atomic.Int64
	done := make(chan struct{})
	var writers, readers sync.WaitGroup
	for i := range items {
		pk := fmt.Sprint("item", i)
		writers.Go(func() { // one for each item, so that its values ascend
			for n := range writes {
				choose().put(pk, n+1)
				answered[i].Store(int64(n + 1))
				before := readsOf[i].Load()
				soon(t, "the item is read", func() bool { return readsOf[i].Load() >= before+5 })
			}
		})
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				time.Sleep(time.Millisecond) // so that writes are not starved
				least := answered[i].Load()
				v, use := choose().get(pk)
				all.Add(1)
				readsOf[i].Add(1)
				if use == "hit" {
					hit.Add(1)
				}
				if int64(v) < least {
					old.Add(1)
				}
			}
		})
	}
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			time.Sleep(time.Millisecond)
			var least [items]int64
			for i := range least {
				least[i] = answered[i].Load()
			}
			reply, _ := choose().do("Scan", scanItems)
			for i := range least {
				if _, found, ok := strings.Cut(reply, fmt.Sprintf(`"pk":{"S":"item%d"}`, i)); int64(valueIn(found)) < least[i] || !ok && least[i] > 0 {
					old.Add(1)
				}
			}
		}
	})
	writers.Wait()
	close(done)
	readers.Wait()
	return all.Load(), hit.Load(), old.Load()
}

// Servers with coherent caches start and stop while others write.
func TestCoherentServersStartAndStop(t *testing.T) {
	f := newFleet(t)
	writer := f.open(nil, nil)
	writer.createTable()
	var answered atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			writer.put("a", n)
			answered.Store(int64(n))
		}
	}()
	hits := 0
	for range 4 {
		s := f.open(NewCache(CacheCoherent), nil)
		for used := 0; used < 5; {
			least := answered.Load()
			v, use := s.get("a")
			if int64(v) < least {
				t.Errorf("a read returns %d (%s) after %d was answered", v, use, least)
			}
			if use == "hit" {
				used++
				hits++
			}
		}
		s.close()
	}
	close(stop)
	<-stopped
	t.Logf("%d writes, %d hits", answered.Load(), hits)
}

// pausedGet is an engine whose next Get of an item waits after it has read.
type pausedGet struct {
	*tikv.Engine
	pause atomic.Pointer[func()]
}

func (e *pausedGet) Get(ctx context.Context, c store.Consistency, keys ...[]byte) ([][]byte, error) {
	values, err := e.Engine.Get(ctx, c, keys...)
	if pause := e.pause.Swap(nil); pause != nil {
		(*pause)()
	}
	return values, err
}

// What a read has found before a write was committed is not cached after the write was
// announced. The control is a server that does not announce it.
func TestLateFillOfAFleet(t *testing.T) {
	for _, announced := range []bool{true, false} {
		f := newFleet(t)
		wrap := withoutAnnouncements
		if announced {
			wrap = nil
		}
		writer := f.open(nil, wrap)
		writer.createTable()
		var paused *pausedGet
		reader := f.open(NewCache(CacheCoherent), func(e *tikv.Engine) store.Engine {
			paused = &pausedGet{Engine: e}
			return paused
		}).valid()
		writer.put("a", 1)
		read, written := make(chan struct{}), make(chan struct{})
		pause := func() { close(read); <-written }
		paused.pause.Store(&pause)
		done := make(chan int)
		go func() { v, _ := reader.get("a"); done <- v }()
		<-read
		writer.put("a", 2)
		close(written)
		if v := <-done; v != 1 {
			t.Errorf("the read returns %d: it was not overtaken", v)
		}
		if announced {
			reader.want("a", 2, "miss")
		} else {
			reader.want("a", 1, "hit")
		}
	}
}

// leased is an engine that claims to have a lease.
type leased struct{ *tikv.Engine }

func (leased) Leased() bool { return true }

// A server that has lost its lease returns nothing from its cache, writes of others are
// answered once it has, and it drops its entries before it serves again. The control is one
// that does not look at its lease.
func TestCoherentCacheWithoutLease(t *testing.T) {
	t.Parallel()
	t.Run("lost", func(t *testing.T) { t.Parallel(); loseLease(t, nil) })
	t.Run("claimed", func(t *testing.T) {
		t.Parallel()
		loseLease(t, func(e *tikv.Engine) store.Engine { return leased{e} })
	})
}

func loseLease(t *testing.T, wrap func(*tikv.Engine) store.Engine) {
	f := newFleet(t)
	f.lease = 2 * time.Second // of a server that a busy machine delays, too
	writer := f.open(nil, nil)
	writer.createTable()
	reader := f.open(NewCache(CacheCoherent), wrap).valid()
	writer.put("a", 1)
	soon(t, "the item is cached", func() bool { v, use := reader.get("a"); return v == 1 && use == "hit" })
	reader.cable.off.Store(true)
	writer.put("a", 2) // is answered when the reader was removed
	if reader.engine.Leased() {
		t.Error("the server has a lease")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if reply, use, ok := reader.send(ctx, "GetItem", `{"TableName":"Items","Key":{"pk":{"S":"a"}}}`); ok != (wrap != nil) || ok && valueIn(reply) != 1 {
		t.Errorf("without a lease a read returns %s (%s)", reply, use)
	}
	if wrap != nil {
		return
	}
	reader.cable.off.Store(false)
	soon(t, "the item is cached again", func() bool {
		v, use := reader.get("a")
		if v != 2 {
			t.Errorf("the item is %d, want 2", v)
		}
		return use == "hit"
	})
	writer.put("a", 3)
	if v, use := reader.get("a"); v != 3 {
		t.Errorf("the item is %d (%s), want 3", v, use)
	}
}

// silent is an engine that never delivers an announcement.
type silent struct{ *tikv.Engine }

func (s silent) Announce(ctx context.Context, _ string, _ []byte) error {
	<-ctx.Done()
	return ctx.Err()
}

// A server that dies between a commit and its announcement makes the others drop all they
// have cached. The write was not answered.
func TestServerDiesBeforeItAnnounces(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.lease = 2 * time.Second // of a server that a busy machine delays, too
	reader := f.open(NewCache(CacheCoherent), nil)
	reader.createTable()
	writer := f.open(nil, func(e *tikv.Engine) store.Engine { return silent{e} })
	reader.valid()
	reader.put("a", 1)
	soon(t, "the item is cached", func() bool { v, use := reader.get("a"); return v == 1 && use == "hit" })
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan bool)
	go func() {
		_, _, ok := writer.send(ctx, "PutItem", `{"TableName":"Items","Item":{"pk":{"S":"a"},"v":{"N":"2"}}}`)
		answered <- ok
	}()
	soon(t, "the write is stored", func() bool {
		reply, _ := reader.do("GetItem", `{"TableName":"Items","Key":{"pk":{"S":"a"}},"ConsistentRead":true}`)
		return valueIn(reply) == 2
	})
	reader.want("a", 1, "hit") // the control: nobody has announced the write
	writer.cable.off.Store(true)
	soon(t, "the entry is dropped", func() bool { v, _ := reader.get("a"); return v == 2 })
	cancel()
	if <-answered {
		t.Error("the write was answered")
	}
}

// The caches of a DAX cluster follow writes through each other: items, and not the results of
// queries. Writes around the caches and those of another cluster are not seen.
func TestDAXCachesOfAFleet(t *testing.T) {
	f := newFleet(t)
	around := f.open(nil, nil)
	around.createTable()
	named := NewCache(CacheDAX)
	named.Cluster = "other"
	a, b, other := f.open(NewCache(CacheDAX), nil), f.open(NewCache(CacheDAX), nil), f.open(named, nil)
	soon(t, "the servers know of each other", func() bool { return a.engine.Attended("cached/stator") && b.engine.Attended("cached/stator") })
	a.put("a", 1)
	for _, s := range []*fleetServer{b, other} {
		s.want("a", 1, "miss")
		s.want("a", 1, "hit")
		s.do("Scan", scanItems)
	}
	around.put("a", 2)
	a.put("b", 1) // a message of the same servers, after which the write around would have been seen
	a.want("a", 1, "hit")
	b.want("b", 1, "miss")
	b.want("a", 1, "hit")
	for v, request := range []string{
		`PutItem {"TableName":"Items","Item":{"pk":{"S":"a"},"v":{"N":"10"}}}`,
		`TransactWriteItems {"TransactItems":[{"Put":{"TableName":"Items","Item":{"pk":{"S":"a"},"v":{"N":"11"}}}}]}`,
		`BatchWriteItem {"RequestItems":{"Items":[{"PutRequest":{"Item":{"pk":{"S":"a"},"v":{"N":"12"}}}}]}}`,
		`UpdateItem {"TableName":"Items","Key":{"pk":{"S":"a"}},"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"N":"13"}}}`,
	} {
		operation, body, _ := strings.Cut(request, " ")
		a.do(operation, body)
		soon(t, operation, func() bool { got, _ := b.get("a"); return got == 10+v })
	}
	soon(t, "it is in the cache of the writer", func() bool { got, use := a.get("a"); return got == 13 && use == "hit" })
	other.want("a", 1, "hit")
	if reply, use := b.do("Scan", scanItems); use != "hit" || valueIn(reply) != 1 {
		t.Errorf("a scan returns %s (%s)", reply, use)
	}
}
