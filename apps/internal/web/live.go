package web

import (
	"fmt"
	"net/http"
	"sync"
)

// Live notifies pages of changes by server-sent events. A slow page may miss
// events, but never the last one. The zero value is ready to use.
type Live struct {
	mutex     sync.Mutex
	listeners map[chan string]struct{}
}

// maxListeners is the maximum number of connected pages.
const maxListeners = 1000

// Broadcast sends a line of text to all connected pages.
func (l *Live) Broadcast(line string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for c := range l.listeners {
		select {
		case c <- line:
		default: // replace the pending line with the newest
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

// ServeHTTP serves the event stream that a page's EventSource reads.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := l.listen()
	if !ok {
		http.Error(w, "too many pages are connected", http.StatusServiceUnavailable)
		return
	}
	defer l.leave(c)
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprint(w, ": listening\n\n")
	_ = control.Flush() // the next write reports the error
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
