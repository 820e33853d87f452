package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
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

	mutex sync.Mutex
	pages map[string]map[chan struct{}]struct{}
	count int
}

// maxPages is the maximum number of live pages, since each of them reads.
const maxPages = 2000

// Changed notifies the pages of a person whose goals changed.
func (l *Live) Changed(personID string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for c := range l.pages[personID] {
		select {
		case c <- struct{}{}:
		default: // a notification is pending
		}
	}
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

// live serves server-sent events: the tag of each new state of a person.
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
	first, err := s.person(r.Context(), personID)
	if err != nil {
		web.Fail(w, r, s.Log, err)
		return
	}
	tag := first.tag
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	fmt.Fprintf(w, "retry: 1000\ndata: %s\n\n", tag)
	_ = control.Flush()
	ticks := time.NewTicker(s.Live.Poll)
	defer ticks.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-woken:
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
