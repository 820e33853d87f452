package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/internal/web"
)

// Live notifies the pages of a person whose goals changed.
type Live struct {
	// Poll is how often a page checks for changes of other processes. Changed
	// notifies it at once.
	Poll time.Duration

	mutex   sync.Mutex
	changed map[string]time.Time // changes of the last seconds
	pages   map[string]map[chan struct{}]struct{}
	count   int
}

// maxPages is the maximum number of live pages, since each of them reads.
const maxPages = 2000

// Changed notifies the pages of a person whose goals changed.
func (l *Live) Changed(personID string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.remember(personID, time.Now())
	for c := range l.pages[personID] {
		select {
		case c <- struct{}{}:
		default: // a notification is pending
		}
	}
}

// recently is how long a change is remembered, for a page that was read before it and
// connects after it.
const recently = 10 * time.Second

func (l *Live) remember(personID string, now time.Time) {
	if l.changed == nil {
		l.changed = make(map[string]time.Time)
	}
	if len(l.changed) >= maxPages {
		for id, at := range l.changed {
			if now.Sub(at) > recently {
				delete(l.changed, id)
			}
		}
	}
	if len(l.changed) < maxPages {
		l.changed[personID] = now
	}
}

// changedSince reports whether a person's goals may have changed since a time.
func (l *Live) changedSince(personID string, since time.Time) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	at, ok := l.changed[personID]
	return time.Since(since) > recently || ok && at.After(since) || !ok && len(l.changed) >= maxPages
}

// ChangedAll notifies all pages.
func (l *Live) ChangedAll() {
	l.mutex.Lock()
	people := slices.Collect(maps.Keys(l.pages))
	l.mutex.Unlock()
	for _, id := range people {
		l.Changed(id)
	}
}

func (l *Live) open(personID string) (chan struct{}, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.count == maxPages {
		return nil, false
	}
	l.count++
	if l.pages == nil {
		l.pages = make(map[string]map[chan struct{}]struct{})
	}
	if l.pages[personID] == nil {
		l.pages[personID] = make(map[chan struct{}]struct{})
	}
	c := make(chan struct{}, 1)
	l.pages[personID][c] = struct{}{}
	return c, true
}

func (l *Live) close(personID string, c chan struct{}) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.count--
	delete(l.pages[personID], c)
	if len(l.pages[personID]) == 0 {
		delete(l.pages, personID)
	}
}

// live serves server-sent events: one when a person's goals may have changed. A change
// that this process makes is sent without reading the tables; the page reads them. For
// changes of other processes the tables are polled. tag and at are the state that the
// page has, and when it was read: a page costs no second read when it connects.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	id, err := goals.ParsePerson(r.PathValue("person"))
	if err != nil {
		web.Fail(w, r, s.Log, web.Refuse(http.StatusBadRequest, "bad_person", "%v", err))
		return
	}
	personID := id.String()
	woken, ok := s.Live.open(personID)
	if !ok {
		web.Fail(w, r, s.Log, web.Refuse(http.StatusServiceUnavailable, "too_many", "too many pages are live"))
		return
	}
	defer s.Live.close(personID, woken)
	tag := `"` + r.FormValue("tag") + `"`
	micros, _ := strconv.ParseInt(r.FormValue("at"), 10, 64) // 0 is long ago
	stale := s.Live.changedSince(personID, time.UnixMicro(micros))
	if stale {
		now, err := s.person(r.Context(), personID)
		if err != nil {
			web.Fail(w, r, s.Log, err)
			return
		}
		stale, tag = now.tag != tag, now.tag
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	fmt.Fprint(w, "retry: 1000\n: listening\n\n")
	if stale {
		fmt.Fprintf(w, "data: %s\n\n", tag)
	}
	_ = control.Flush()
	ticks := time.NewTicker(s.Live.Poll)
	defer ticks.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-woken:
			// It is not known which state the page reads: another process may change it before or
			// after that. So the next poll notifies the page once more.
			tag = ""
			if _, err := fmt.Fprint(w, "data: changed\n\n"); err != nil {
				return
			}
			_ = control.Flush()
			continue
		case <-ticks.C:
		}
		now, err := s.person(r.Context(), personID)
		if err != nil || now.tag == tag {
			continue // the next poll retries
		}
		tag = now.tag
		if _, err := fmt.Fprintf(w, "data: %s\n\n", tag); err != nil {
			return
		}
		_ = control.Flush()
	}
}
