package web

import (
	"fmt"
	"net/http"
	"sync"
)

// Live tells pages that something changed, as server-sent events. A page that is
// slow misses tellings, never the last one. The zero value is ready.
type Live struct {
	mutex     sync.Mutex
	listeners map[chan string]struct{}
}

// maxListeners is how many pages are told at once.
const maxListeners = 1000

// Tell sends a line of text to all pages that listen.
func (l *Live) Tell(line string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for c := range l.listeners {
		select {
		case c <- line:
		default: // let the newest take the place of the one that waits
			select {
			case <-c:
			default:
			}
			c <- line
		}
	}
}

func (l *Live) listen() (chan string, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.listeners) == maxListeners {
		return nil, false
	}
	if l.listeners == nil {
		l.listeners = make(map[chan string]struct{})
	}
	c := make(chan string, 1)
	l.listeners[c] = struct{}{}
	return c, true
}

func (l *Live) leave(c chan string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.listeners, c)
}

// ServeHTTP is the stream of events that a page's EventSource reads.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := l.listen()
	if !ok {
		http.Error(w, "too many pages listen", http.StatusServiceUnavailable)
		return
	}
	defer l.leave(c)
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprint(w, ": listening\n\n")
	_ = control.Flush() // the next write tells
	for {
		select {
		case <-r.Context().Done():
			return
		case line := <-c:
			if _, err := fmt.Fprintf(w, "data: %s\n\n", line); err != nil {
				return
			}
			_ = control.Flush()
		}
	}
}
