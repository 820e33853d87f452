package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/cloudwatch"
	"github.com/stator-db/stator/internal/console"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/store/overlay"
)

// ForkHeader names the fork that a request is for. The host name NAME.localhost and paths below
// ForkPath and the name do so too.
const (
	ForkHeader = "X-Stator-Fork"
	ForkPath   = "/fork/"
)

var forkHeader = []byte(ForkHeader)

// ForkURL returns the URL of a fork that was made by a request to an endpoint. of is the fork that
// has answered it, empty for the server's own database. A path names one fork: the URL is that of
// the server, which knows all forks by their names, without what names of.
func ForkURL(endpoint, of, name string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return strings.TrimRight(endpoint, "/") + ForkPath + name
	}
	path := strings.TrimRight(u.Path, "/")
	if named := ForkPath + of; of != "" && len(path) >= len(named) && strings.EqualFold(path[len(path)-len(named):], named) {
		path = path[:len(path)-len(named)]
	}
	if of != "" && hostName(u.Host) == of+".localhost" {
		u.Host = u.Host[len(of)+1:]
	}
	u.Path, u.RawPath = path+ForkPath+name, ""
	return u.String()
}

// Forks finds the databases that requests are for, other than the one that the handler was
// made with.
type Forks interface {
	// Acquire returns a fork. An empty name is for the database of the server, which is nil
	// unless it was rewound. The caller releases what it gets when the reply is sent.
	Acquire(ctx context.Context, name string) (Fork, error)
}

// Fork is a database while a request uses it.
type Fork interface {
	Database() *Database
	Release()
}

// Database is a fork as handlers serve it: with their limits, keys, policies, traces and audit
// log, which all forks share.
type Database struct {
	service  *ops.Service
	handlers sync.Map // by the *Handler of the server: the *Handler of the fork
	consoles sync.Map // by the *Handler of the server: the *console.Handler of the fork
}

// NewDatabase returns the Database of a service.
func NewDatabase(service *ops.Service) *Database { return &Database{service: service} }

// Handler returns a handler of the database, with the settings of the handler of the server.
func (d *Database) Handler(of *Handler) *Handler { return d.handlerOf(of) }

func (d *Database) handlerOf(h *Handler) *Handler {
	if known, ok := d.handlers.Load(h); ok {
		return known.(*Handler)
	}
	forked := *h
	forked.service, forked.cloudWatchService = d.service, cloudwatch.New(d.service)
	forked.forks, forked.forkOf, forked.fork, forked.console, forked.metrics = nil, h, d.service.Fork(), nil, nil
	forked.throughCache.http, forked.throughCache.dax = false, false
	known, _ := d.handlers.LoadOrStore(h, &forked)
	return known.(*Handler)
}

// consoleOf returns the console of the database, for a handler that has one.
func (d *Database) consoleOf(h *Handler) *console.Handler {
	if known, ok := d.consoles.Load(h); ok {
		return known.(*console.Handler)
	}
	known, _ := d.consoles.LoadOrStore(h, h.newConsole(d.handlerOf(h)))
	return known.(*console.Handler)
}

// WithForks makes requests for forks reach them. It is called before WithConsole.
func (h *Handler) WithForks(f Forks) *Handler {
	with := *h
	with.forks = f
	return &with
}

// namesFork reports whether a request names a fork by its header or its path, which have no other
// meaning.
func namesFork(r *door.Request) bool {
	_, _, ok := r.HeaderAt(forkHeader, 0)
	return ok || strings.HasPrefix(r.Path, ForkPath)
}

// forkNamed returns the name of the fork that a request is for, which is empty for none, and the
// path that the fork sees.
func (h *Handler) forkNamed(r *door.Request) (name, path string, err error) {
	name, path = h.forkOfHost(r.Host), r.Path
	if below, ok := strings.CutPrefix(r.Path, ForkPath); ok {
		label, rest, _ := strings.Cut(below, "/")
		given, ok := ops.ForkName(label)
		switch {
		case !ok:
			return "", "", apierror.Validation("The path after %s must begin with the name of a fork: letters, digits and hyphens", ForkPath)
		case name != "" && name != given:
			return "", "", apierror.Validation("The path and the host name are of different forks")
		}
		name, path = given, "/"+rest
	}
	header, next, ok := r.HeaderAt(forkHeader, 0)
	if !ok {
		return name, path, nil
	}
	_, _, repeated := r.HeaderAt(forkHeader, next)
	given, ok := ops.ForkName(string(header[:min(len(header), 256)]))
	switch {
	case !ok || repeated:
		return "", "", apierror.Validation("The header %s must be the name of a fork, once: letters, digits and hyphens", ForkHeader)
	case name != "" && name != given:
		return "", "", apierror.Validation("The header %s and the path or the host name are of different forks", ForkHeader)
	}
	return given, path, nil
}

// forkOfHost returns the name of a fork in the Host of a request; empty for none. Names below
// localhost that the operator has listed are those of the server. Patterns of the operator, such as
// all names, list none.
func (h *Handler) forkOfHost(host string) string {
	if h.forks == nil || !strings.Contains(host, ".") || isIPv4(host) {
		return ""
	}
	full := hostName(host)
	label, below := strings.CutSuffix(full, ".localhost")
	if !below || strings.Contains(label, ".") || slices.Contains(h.hosts, full) {
		return ""
	}
	return label
}

// isIPv4 reports whether a Host begins with a digit and so does its last label: most requests
// are to an address.
func isIPv4(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return host[0] >= '0' && host[0] <= '9' && last != "" && last[0] >= '0' && last[0] <= '9'
}

// acquire returns the fork that a request is for, and the path that it sees. The fork is nil if the
// request is for the handler's own database.
func (h *Handler) acquire(ctx context.Context, r *door.Request) (Fork, string, error) {
	name, path, err := h.forkNamed(r)
	if err != nil {
		return nil, "", err
	}
	if h.forks == nil {
		return nil, "", noForks(name)
	}
	fork, err := h.forks.Acquire(ctx, name)
	return fork, path, err
}

// noForks is the error of a request for a fork of a database that has none.
func noForks(name string) error {
	return apierror.NoFork(name, ": no forks can be reached here; stator serve --forks allows them")
}

// answerFork answers a request for the database that it names.
func (h *Handler) answerFork(ctx context.Context, r *door.Request, a *door.Reply) {
	fork, path, err := h.acquire(ctx, r)
	switch {
	case err != nil:
		h.noFork(ctx, r, a, err)
		return
	case fork == nil:
		h.answer(ctx, r, a)
		return
	}
	r.Path = path // signatures are of EscapedPath
	streams := false
	defer func() {
		if !streams {
			fork.Release()
		}
	}()
	fork.Database().handlerOf(h).answer(ctx, r, a)
	if stream := a.Stream; stream != nil { // it is written when the reply is sent
		streams = true
		a.Stream = func(w io.Writer) error {
			defer fork.Release()
			return stream(w)
		}
	}
}

// noFork answers a request for a fork that cannot be used. It says of a fork that exists no
// more than of one that does not, as the request was not authenticated.
func (h *Handler) noFork(ctx context.Context, r *door.Request, a *door.Reply, err error) {
	var fault *apierror.Error
	if !errors.As(err, &fault) {
		if fault = h.faultOf(ctx, a, "", err); fault == nil {
			return
		}
	}
	if r.Method != http.MethodPost {
		plain(a, http.StatusNotFound, fault.Message+"\n")
		return
	}
	a.Write(wire.AppendError(a.Memory.Empty(), fault))
	send(a, typeAmazon, fault.Status)
}

// forkIsFull is the error of a write for which a fork has no memory. It is not one that
// clients repeat.
func forkIsFull(l *overlay.LimitError) *apierror.Error {
	if l.All {
		return apierror.LimitExceeded("What was written to all forks would exceed %d bytes, the limit of the server (stator serve --forks-memory): delete forks that are not needed any more", l.MaxBytes)
	}
	return apierror.LimitExceeded("What was written to this fork would exceed %d bytes, the limit of a fork (stator serve --fork-memory)", l.MaxBytes)
}
