package stand

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/apps/internal/web"
)

// Where a fault takes effect.
const (
	onFile = "file"
	onList = "list"
)

// FaultNames are the faults, with a description of each.
var FaultNames = map[string]string{
	"slow":        "sends the file in small pieces with pauses",
	"broken":      "cuts the connection in the middle",
	"stalled":     "stops sending in the middle, and keeps the connection",
	"truncated":   "sends the first half as if it were the whole file",
	"longer":      "sends more bytes than it announced",
	"corrupt":     "sends a wrong byte",
	"norange":     "ignores Range and sends the whole file",
	"expired":     "replies 403, as if the URL had expired",
	"missing":     "answers 404",
	"unavailable": "answers 503",
	"forgedkey":   "lists an AES key that is not wrapped for the key",
	"forgedsum":   "lists a wrong SHA-256",
	"notready":    "of a day: lists nothing yet",
	"badjson":     "of a day: replies with half of a list",
}

var listed = []string{"forgedkey", "forgedsum"}

type fault struct {
	name  string
	times int
}

// Fault makes the file of an entity, or the list of a date, misbehave a number of
// times.
func (s *Stand) Fault(of, name string, times int) error {
	if _, ok := FaultNames[name]; !ok {
		return fmt.Errorf("there is no fault %q", name)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.faults[of] = &fault{name, times}
	return nil
}

// take uses up a fault that takes effect here.
func (s *Stand) take(of, where string) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	f := s.faults[of]
	if f == nil || f.times == 0 || where != "" && slices.Contains(listed, f.name) != (where == onList) {
		return ""
	}
	f.times--
	return f.name
}

// misbehave serves a file with a fault.
func (s *Stand) misbehave(w http.ResponseWriter, r *http.Request, how string, body []byte) {
	half := len(body) / 2
	pause := s.Pace * pieceBytes / time.Duration(max(len(body), pieceBytes))
	plain := w
	if pause > 0 {
		w = &pieces{ResponseWriter: plain, left: -1, pause: pause}
	}
	switch how {
	case "expired":
		http.Error(w, "Request has expired", http.StatusForbidden)
		return
	case "missing":
		http.NotFound(w, r)
		return
	case "unavailable":
		http.Error(w, "try later", http.StatusServiceUnavailable)
		return
	case "truncated":
		body = body[:half]
	case "longer":
		body = append(body, "more than announced"...)
	case "corrupt":
		if len(body) > 0 {
			body[half] ^= 1
		}
	case "norange":
		r.Header.Del("Range")
	case "broken":
		w = &pieces{ResponseWriter: plain, left: half, pause: pause, end: func() { panic(http.ErrAbortHandler) }}
	case "stalled":
		w = &pieces{ResponseWriter: plain, left: half, pause: pause, end: func() { <-r.Context().Done(); panic(http.ErrAbortHandler) }}
	case "slow":
		w = &pieces{ResponseWriter: plain, left: -1, pause: s.Pause + 2*pause}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// pieceBytes is the size of a piece.
const pieceBytes = 4 << 10

// pieces writes in small pieces, up to a limit.
type pieces struct {
	http.ResponseWriter
	left  int // -1 for no end
	end   func()
	pause time.Duration
}

func (p *pieces) Write(b []byte) (int, error) {
	sum := 0
	for len(b) > 0 {
		n := min(len(b), pieceBytes)
		if p.left >= 0 {
			n = min(n, p.left)
		}
		if n == 0 {
			p.end()
		}
		n, err := p.ResponseWriter.Write(b[:n])
		sum += n
		if err != nil {
			return sum, err
		}
		if err := http.NewResponseController(p.ResponseWriter).Flush(); err != nil {
			return sum, err
		}
		if p.left >= 0 {
			p.left -= n
		}
		b = b[n:]
		time.Sleep(p.pause)
	}
	return sum, nil
}

// controlDay handles PUT /control/days/DATE {"files": 5000}.
func (s *Stand) controlDay(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Files int `json:"files"`
	}
	if err := web.Read(w, r, 1<<10, &in); err != nil || in.Files < 0 || in.Files > 1_000_000 {
		http.Error(w, `send {"files": 10}`, http.StatusBadRequest)
		return
	}
	s.Day(r.PathValue("date"), in.Files)
	w.WriteHeader(http.StatusNoContent)
}

// controlFault handles PUT /control/faults/NAME {"fault": "slow", "times": 3}.
func (s *Stand) controlFault(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Fault string `json:"fault"`
		Times int    `json:"times"`
	}
	err := web.Read(w, r, 1<<10, &in)
	if err == nil {
		err = s.Fault(r.PathValue("name"), in.Fault, in.Times)
	}
	if err != nil {
		http.Error(w, err.Error()+"; faults are "+strings.Join(slices.Sorted(maps.Keys(FaultNames)), ", "), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
