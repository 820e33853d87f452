package standby

import (
	"slices"
	"sync"
)

// maxReplaced is how many processes that were replaced are known.
const maxReplaced = 16

// processes distinguishes a standby that was started again from two that run with copies of one
// folder. Both have the same id, and each would remove the changes that the other needs, so that both
// would copy everything again and again. The process that was started last replaces the one before: a
// process that has ended does not ask again, so one that does is a second one.
type processes struct {
	mu       sync.Mutex
	current  string   // the id of the one that was answered last; empty until then
	replaced []string // earlier ones, oldest first
}

// isReplaced reports whether another process has replaced this one.
func (p *processes) isReplaced(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return id != p.current && slices.Contains(p.replaced, id)
}

// answer records that a process is answered.
func (p *processes) answer(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id == "" || id == p.current {
		return
	}
	p.replaced = slices.DeleteFunc(p.replaced, func(r string) bool { return r == id })
	if p.current != "" {
		p.replaced = append(p.replaced, p.current)
	}
	p.replaced = p.replaced[max(0, len(p.replaced)-maxReplaced):]
	p.current = id
}
