package scrub

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/db/verify"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// candidateEngine is an engine whose leadership the test decides.
type candidateEngine struct {
	store.Engine
	leads atomic.Bool
}

func (e *candidateEngine) Leads() bool { return e.leads.Load() }

// scrubbed is a database in memory with some items, and its scrub.
type scrubbed struct {
	*db.DB
	*Scrub
	engine *candidateEngine
	log    logtest.Log
	busy   atomic.Bool
}

const items = 2000

// open fills a database and starts its scrub. It runs in a bubble of synctest.
func open(t *testing.T, rate int) *scrubbed {
	t.Helper()
	inner, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	s := &scrubbed{engine: &candidateEngine{Engine: inner}}
	s.engine.leads.Store(true)
	if s.DB, err = db.Open(t.Context(), s.engine, db.Options{}); err != nil {
		t.Fatal(err)
	}
	attr := []schema.Attribute{{Name: "id", Type: item.S}}
	if _, err := s.CreateTable(t.Context(), schema.Table{Name: "Orders", Key: schema.Key{Partition: attr}, Attributes: attr}); err != nil {
		t.Fatal(err)
	}
	for from := 0; from < items; from += 100 {
		var writes []db.Write
		for i := range 100 {
			it := item.Make(map[string]item.Value{"id": item.String(fmt.Sprint(from + i))})
			writes = append(writes, db.Write{Table: "Orders", Key: it, Effect: db.Replace(it)})
		}
		if _, err := s.Write(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	s.Scrub = Start(t.Context(), s.DB, Options{Rate: rate, Busy: s.busy.Load, Log: s.log.Logger()})
	t.Cleanup(func() {
		s.Scrub.Close()
		if err := s.DB.Close(); err != nil {
			t.Error(err)
		}
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// plant damages one item behind the database's back.
func (s *scrubbed) plant(t *testing.T) {
	t.Helper()
	table, err := s.Table("Orders")
	if err != nil {
		t.Fatal(err)
	}
	it := item.Make(map[string]item.Value{"id": item.String("7")})
	if err := s.engine.Update(t.Context(), nil, func(tx store.Tx) error {
		tx.Set(keyspace.Item(nil, table, it), codec.EncodeItem(it)[:3])
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// All data is verified again and again, at the given rate, and a finding is
// logged and counted once. The control: nothing is found before it is planted.
func TestScrub(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := open(t, 100)
		time.Sleep(startDelay + items/2/100*time.Second)
		if st := s.Status(); st.Passes != 0 || st.Keys < items/3 || st.Keys > items*2/3 || st.Share() < 0.3 || st.Share() > 0.7 {
			t.Errorf("after half of a pass the status is %+v, with a share of %v", st, st.Share())
		}
		time.Sleep(passInterval)
		if st := s.Status(); st.Passes != 1 || st.Keys < items || len(st.Findings) > 0 || s.log.String() != "" {
			t.Errorf("after a pass the status is %+v, and the log\n%s", st, s.log.String())
		}
		s.plant(t)
		time.Sleep(4 * passInterval)
		st := s.Status()
		if st.Passes < 4 || st.Findings[verify.KindItem] != 1 || strings.Count(s.log.String(), "not consistent") != 1 {
			t.Errorf("after a plant the status is %+v, and the log\n%s", st, s.log.String())
		}
		text := string(metrics.Append(nil, s.Metrics()...))
		for _, want := range []string{fmt.Sprintf("stator_scrub_passes_total %d\n", st.Passes), `stator_scrub_findings_total{kind="item"} 1`, `stator_scrub_findings_total{kind="index"} 0`} {
			if !strings.Contains(text, want) {
				t.Errorf("the metrics lack %s:\n%s", want, text)
			}
		}
	})
}

// While the server is busy the scrub pauses, but not for ever.
func TestScrubPausesUnderLoad(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := open(t, 1000)
		s.busy.Store(true)
		time.Sleep(startDelay + 3*maxPause)
		busy := s.Status().Keys
		if busy == 0 || busy >= items {
			t.Errorf("%d keys are read by a busy server, want some", busy)
		}
		s.busy.Store(false)
		time.Sleep(maxPause)
		if st := s.Status(); st.Passes != 1 {
			t.Errorf("after the load the status is %+v", st)
		}
	})
}

// Only the leader scrubs; a server that becomes the leader begins a new pass.
func TestOnlyTheLeaderScrubs(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := open(t, 100)
		s.engine.leads.Store(false)
		time.Sleep(time.Hour)
		if st := s.Status(); st.Keys > 0 {
			t.Errorf("a server that does not lead has read %d keys", st.Keys)
		}
		s.engine.leads.Store(true)
		time.Sleep(startDelay + 10*time.Second)
		s.engine.leads.Store(false)
		time.Sleep(time.Hour)
		if st := s.Status(); st.Keys == 0 || st.Passes > 0 {
			t.Errorf("after ten seconds as the leader the status is %+v", st)
		}
		s.engine.leads.Store(true)
		time.Sleep(startDelay + items/100*time.Second + time.Minute)
		if st := s.Status(); st.Passes != 1 {
			t.Errorf("after a minute as the leader the status is %+v", st)
		}
	})
}
