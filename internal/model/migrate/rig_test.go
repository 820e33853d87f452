package migrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/migrate"
	"github.com/stator-db/stator/internal/model/prove"
)

// rig is a server with the tables of an old model.
type rig struct {
	*testing.T
	e        *apply.Endpoint
	old, new *model.Model
	seed     uint64
	options  migrate.Options
}

func newRig(t *testing.T, old, new string) *rig {
	t.Helper()
	s, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	g := &rig{T: t, seed: rand.Uint64(), old: parse(t, old), new: parse(t, new)}
	t.Logf("seed %d", g.seed)
	g.e = &apply.Endpoint{URL: "http://stator.invalid", Client: s.Client(), Sign: func(r *http.Request, _ []byte) error {
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		return nil
	}}
	g.options = migrate.Options{
		ID: "test", Owner: "first", Poll: time.Millisecond, Lease: 30 * time.Second, Retry: time.Nanosecond,
		Quiet: 20 * time.Millisecond, Delay: 20 * time.Millisecond, Patience: 20 * time.Millisecond, Drain: 10 * time.Second, Samples: 50, Segments: 3,
	}
	if err := prove.Create(t.Context(), g.e.Send, g.old, false, apply.Waiting{Every: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return g
}

func parse(t *testing.T, text string) *model.Model {
	t.Helper()
	m, err := model.Parse("test.model.yaml", []byte("model: 1\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (g *rig) migrator() *migrate.Migrator {
	return migrate.New(g.e.Send, g.e.SendStreams, g.old, g.new, g.options)
}

// do runs a command that must succeed.
func (g *rig) do(goal migrate.Phase) *migrate.State {
	g.Helper()
	st, err := g.migrator().Run(g.Context(), goal)
	if err != nil || st.Phase != goal {
		g.Fatalf("%s: %+v, %v", goal, st, err)
	}
	return st
}

// rollBack makes the application write to the old tables again. The migration is
// to be verified then.
func (g *rig) rollBack() *migrate.State {
	g.Helper()
	st, err := g.migrator().Run(g.Context(), migrate.RolledBack)
	if err != nil || st.Phase != migrate.Verify {
		g.Fatalf("rollback: %+v, %v", st, err)
	}
	return st
}

func (g *rig) send(operation string, body any) []byte {
	g.Helper()
	text, err := g.e.Send(g.Context(), operation, body)
	if err != nil {
		g.Fatalf("%s %v: %v", operation, body, err)
	}
	return text
}

// all returns the items of a table as JSON.
func (g *rig) all(table string) []string {
	g.Helper()
	var items []string
	body := map[string]any{"TableName": table, "ConsistentRead": true}
	for {
		var reply struct {
			Items            []map[string]any
			LastEvaluatedKey map[string]any
		}
		if err := json.Unmarshal(g.send("Scan", body), &reply); err != nil {
			g.Fatal(err)
		}
		for _, it := range reply.Items {
			text, _ := json.Marshal(it)
			items = append(items, string(text))
		}
		if reply.LastEvaluatedKey == nil {
			slices.Sort(items)
			return items
		}
		body["ExclusiveStartKey"] = reply.LastEvaluatedKey
	}
}

// stringItem is an item whose attributes are strings.
type stringItem map[string]string

func (a stringItem) json() map[string]any {
	m := make(map[string]any, len(a))
	for name, v := range a {
		m[name] = map[string]string{"S": v}
	}
	return m
}

func (a stringItem) pick(names ...string) map[string]any {
	m := make(map[string]any)
	for _, name := range names {
		m[name] = map[string]string{"S": a[name]}
	}
	return m
}

// writer writes items at random and knows what is stored.
type writer struct {
	g      *rig
	table  string
	keys   []string
	make   func(r *rand.Rand, n int) stringItem // the n-th item, with random attributes
	stored map[int]stringItem
	writes atomic.Int64
}

// fill stores items 0 to n-1.
func (w *writer) fill(n int) {
	w.g.Helper()
	r := rand.New(rand.NewPCG(w.g.seed, 1))
	w.stored = make(map[int]stringItem)
	for from := 0; from < n; from += 25 {
		var puts []any
		for i := from; i < min(n, from+25); i++ {
			w.stored[i] = w.make(r, i)
			puts = append(puts, map[string]any{"PutRequest": map[string]any{"Item": w.stored[i].json()}})
		}
		w.g.send("BatchWriteItem", map[string]any{"RequestItems": map[string]any{w.table: puts}})
	}
}

// write puts or deletes random items until the context ends, some more often
// than others.
func (w *writer) write(ctx context.Context, r *rand.Rand, n int) error {
	for ctx.Err() == nil {
		i := int(float64(n) * r.Float64() * r.Float64())
		if r.IntN(4) == 0 {
			it := w.make(r, i)
			if _, err := w.g.e.Send(context.WithoutCancel(ctx), "DeleteItem", map[string]any{"TableName": w.table, "Key": it.pick(w.keys...)}); err != nil {
				return err
			}
			delete(w.stored, i)
		} else {
			it := w.make(r, i)
			if _, err := w.g.e.Send(context.WithoutCancel(ctx), "PutItem", map[string]any{"TableName": w.table, "Item": it.json()}); err != nil {
				return err
			}
			w.stored[i] = it
		}
		w.writes.Add(1)
		_ = apply.Sleep(ctx, 200*time.Microsecond)
	}
	return nil
}

// whileWriting runs fn while writers write.
func (g *rig) whileWriting(n int, fn func(), writers ...*writer) {
	g.Helper()
	ctx, cancel := context.WithCancel(g.Context())
	var group sync.WaitGroup
	for i, w := range writers {
		group.Go(func() {
			if err := w.write(ctx, rand.New(rand.NewPCG(g.seed, uint64(i+2))), n); err != nil {
				g.Errorf("writer of %s: %v", w.table, err)
			}
		})
	}
	fn()
	cancel()
	group.Wait()
}

// wantItems checks the content of a table.
func (g *rig) wantItems(table string, want []stringItem) {
	g.Helper()
	var texts []string
	for _, a := range want {
		text, _ := json.Marshal(a.json())
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	is := g.all(table)
	if !slices.Equal(is, texts) {
		missing, extra := 0, 0
		set := make(map[string]bool)
		for _, s := range is {
			set[s] = true
		}
		for _, s := range texts {
			if !set[s] {
				missing++
			}
			delete(set, s)
		}
		extra = len(set)
		g.Errorf("table %s has %d items, want %d: %d are missing or different, %d are not expected (seed %d)", table, len(is), len(texts), missing, extra, g.seed)
	}
}

// mapped returns the stored items of a writer, as fn changes them.
func (w *writer) mapped(fn func(a stringItem)) (all []stringItem) {
	for _, a := range w.stored {
		b := maps.Clone(a)
		fn(b)
		all = append(all, b)
	}
	return all
}

var errKilled = errors.New("killed")

// killed returns a migrator that cannot send any request after some number of
// them, like a process that was killed. The next one has the same owner, so that
// it need not wait for the end of the lease.
func (g *rig) killed(after int64, r *rand.Rand) *migrate.Migrator {
	executed := r.IntN(2) == 0
	var n atomic.Int64
	limit := func(send apply.Send) apply.Send {
		return func(ctx context.Context, operation string, body any) ([]byte, error) {
			switch at := n.Add(1); {
			case at == after && executed:
				_, _ = send(ctx, operation, body) // its reply is lost
				return nil, errKilled
			case at >= after:
				return nil, errKilled
			}
			return send(ctx, operation, body)
		}
	}
	return migrate.New(limit(g.e.Send), limit(g.e.SendStreams), g.old, g.new, g.options)
}

// killRepeatedly runs a migration to a goal in processes that are killed.
func (g *rig) killRepeatedly(goal migrate.Phase) (kills int) {
	g.Helper()
	r := rand.New(rand.NewPCG(g.seed, 99))
	for limit := 20.0; kills < 100; limit *= 1.4 {
		if g.runKilled(goal, int64(limit)+r.Int64N(int64(limit)), r) {
			return kills
		}
		kills++
	}
	g.Fatalf("%s is not reached (seed %d)", goal, g.seed)
	return kills
}

// runKilled runs a process that is killed after some requests. It reports whether
// the goal was reached before.
func (g *rig) runKilled(goal migrate.Phase, after int64, r *rand.Rand) bool {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), time.Minute)
	defer cancel()
	st, err := g.killed(after, r).Run(ctx, goal)
	switch {
	case err == nil && goal != "" && st.Phase == goal:
		return true
	case errors.Is(err, errKilled) || strings.Contains(fmt.Sprint(err), "lease") || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
	default:
		g.Fatalf("a process that was killed after %d requests returned %+v, %v (seed %d)", after, st, err, g.seed)
	}
	return false
}
