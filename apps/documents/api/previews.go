package api

import (
	"context"
	"errors"
	"sync"

	"github.com/stator-db/stator/apps/documents/keys"
)

// The limits of previews. One has its file, its pages and its picture in memory; one that
// waits has nothing.
const (
	previewsAtOnce    = 4
	previewsOfTenant  = 2
	previewsRequested = 32 // of a tenant, with those that wait
)

// errPreviews is returned for a tenant that requests too many previews, or if one waits for
// too long.
var errPreviews = errors.New("too many previews at the same time")

// previews limits how many previews are made at the same time. The zero value is ready to
// use.
type previews struct {
	mutex   sync.Mutex
	all     chan struct{}
	tenants map[keys.Tenant]*previewing
}

// previewing is what a tenant uses.
type previewing struct {
	requested int
	turns     chan struct{}
}

// enter waits for the turn of a tenant. The caller must call leave.
func (p *previews) enter(ctx context.Context, of keys.Tenant) (leave func(), err error) {
	use := p.request(of)
	if use == nil {
		return nil, errPreviews
	}
	for i, turns := range []chan struct{}{use.turns, p.all} {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-use.turns
			}
			p.end(of, use)
			return nil, errPreviews
		}
	}
	return func() {
		<-p.all
		<-use.turns
		p.end(of, use)
	}, nil
}

// request counts a request of a tenant. It returns nil if there are too many.
func (p *previews) request(of keys.Tenant) *previewing {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.tenants == nil {
		p.all, p.tenants = make(chan struct{}, previewsAtOnce), make(map[keys.Tenant]*previewing)
	}
	use := p.tenants[of]
	if use == nil {
		use = &previewing{turns: make(chan struct{}, previewsOfTenant)}
		p.tenants[of] = use
	}
	if use.requested == previewsRequested {
		return nil
	}
	use.requested++
	return use
}

func (p *previews) end(of keys.Tenant, use *previewing) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if use.requested--; use.requested == 0 {
		delete(p.tenants, of)
	}
}
