package stator

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
)

// restartWith replaces the folder of a server that is stopped, and starts it this many times, with a
// write in each run, before any request reaches it.
func (p *primaryServer) restartWith(starts int, replace func()) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.db.Load().Close(); err != nil {
		p.t.Fatal(err)
	}
	replace()
	p.open()
	for range starts - 1 {
		if err := p.engine().Update(p.t.Context(), nil, func(tx store.Tx) error {
			tx.Set([]byte("zz written"), []byte("v"))
			return nil
		}); err != nil {
			p.t.Error(err)
		}
		if err := p.db.Load().Close(); err != nil {
			p.t.Fatal(err)
		}
		p.open()
	}
}

// writeForTwoWindows writes until the server has given out stamps of later windows, which have
// about a second each.
func (p *primaryServer) writeForTwoWindows(w *workload) {
	begin, _ := p.engine().Horizon(p.t.Context())
	for h := begin; h.Time().Sub(begin.Time()) < 2*time.Second; {
		w.must(w.PutItem(p.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: w.item()}))
		h, _ = p.engine().Horizon(p.t.Context())
	}
}

// A standby does not follow a server whose data was replaced by an older state, and does not
// replace its newer copy by it, however often the server was started since.
func TestStandbyOfOlderData(t *testing.T) {
	for _, c := range []struct {
		attached bool // when the older state was copied
		starts   int  // of the server with the older state
	}{{false, 1}, {true, 1}, {false, 2}, {true, 2}} {
		t.Run(fmt.Sprintf("attached %v, starts %d", c.attached, c.starts), func(t *testing.T) {
			followOlderData(t, c.attached, c.starts)
		})
	}
}

func followOlderData(t *testing.T, attached bool, starts int) {
	p := startPrimary(t)
	w := &workload{t: t, r: rand.New(rand.NewPCG(5, 1)), Client: sdkClient(p.web.URL, nil)}
	w.createTable("Orders")
	older := filepath.Join(t.TempDir(), "older")
	var log logtest.Log
	if _, err := p.db.Load().db.ID(t.Context()); err != nil { // it is made when it is first asked for
		t.Fatal(err)
	}
	if !attached {
		p.restartWith(1, func() { copyDir(t, p.dir, older) })
	}
	s := openTestStandby(t, filepath.Join(t.TempDir(), "standby"), p.web.URL, &log)
	defer s.Close()
	waitEqual(t, p, s)
	if attached {
		p.restartWith(1, func() { copyDir(t, p.dir, older) })
	}
	p.writeForTwoWindows(w)
	w.createTable("Newer")
	waitEqual(t, p, s)
	p.restartWith(starts, func() { copyDir(t, older, p.dir) })
	w.createTable("Other")
	other, _ := p.engine().Horizon(t.Context())
	for !strings.Contains(s.Status().Error, "changes that the server does not have") {
		if s.Status().Position >= uint64(other) {
			t.Fatal("the standby follows the older state")
		}
		time.Sleep(time.Millisecond)
	}
	d, err := s.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.db.Describe("Newer"); err != nil {
		t.Error(err)
	}
	if _, err := d.db.Describe("Other"); err == nil {
		t.Error("it has changes of the older state")
	}
}

// The control of TestStandbyOfOlderData: a server that was started several times with its own data
// is followed, and a standby without a slot copies it again.
func TestStandbyOfServerStartedTwice(t *testing.T) {
	p := startPrimary(t)
	w := &workload{t: t, r: rand.New(rand.NewPCG(8, 1)), Client: sdkClient(p.web.URL, nil)}
	w.createTable("Orders")
	var log logtest.Log
	s := openTestStandby(t, filepath.Join(t.TempDir(), "standby"), p.web.URL, &log)
	defer s.Close()
	for _, copies := range []bool{false, true} {
		waitEqual(t, p, s)
		p.restartWith(3, func() {})
		if copies { // its changes take too much space
			if err := p.engine().Detach(t.Context(), p.engine().Attached().Slot); err != nil {
				t.Fatal(err)
			}
			p.restartWith(2, func() {})
		}
		waitEqual(t, p, s)
		if text := log.String(); strings.Contains(text, "does not have") || strings.Contains(text, "copying everything again") != copies {
			t.Errorf("copies %v: the log is %s", copies, text)
		}
	}
}
