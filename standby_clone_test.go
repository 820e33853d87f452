package stator

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
)

// Of two standbys with copies of one folder, such as a machine and its clone, the one that was started
// last follows, and the other is refused. They do not copy everything again and again.
func TestClonedStandby(t *testing.T) {
	p := startPrimary(t)
	var log logtest.Log
	base := t.TempDir()
	dir, clone := filepath.Join(base, "standby"), filepath.Join(base, "clone")
	s := openTestStandby(t, dir, p.web.URL, &log)
	waitEqual(t, p, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	copyDir(t, dir, clone)
	first := openTestStandby(t, dir, p.web.URL, &log)
	defer first.Close()
	waitEqual(t, p, first)
	second := openTestStandby(t, clone, p.web.URL, &log)
	defer second.Close()
	value := make([]byte, 1<<20)
	for range 40 { // more than the server keeps once a standby has it
		if err := p.engine().Update(t.Context(), nil, func(tx store.Tx) error {
			tx.Set([]byte("zz"), value)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Millisecond)
	}
	if n := strings.Count(log.String(), "copying everything again"); n > 1 {
		t.Fatalf("everything was copied %d times", n)
	}
	waitEqual(t, p, second)
	for !strings.Contains(first.Status().Error, "copy of this standby's data folder") {
		time.Sleep(time.Millisecond)
	}
}
