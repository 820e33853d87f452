package workload

// roomEvery limits the search for deleted tables while all shapes are taken: one request in
// roomEvery that has a new shape searches.
const roomEvery = 1024

// makeRoom drops the shapes and terms of tables that do not exist any more, and reports
// whether there were any. A table that is deleted and created again keeps its counts unless
// there is no room: programs that test often do that.
func (r *Recorder) makeRoom(p *countPeriod) bool {
	if r.Exists == nil || p.full.Add(1)%roomEvery != 1 {
		return false
	}
	gone := make(map[string]bool)
	p.mu.RLock()
	for shape := range p.known {
		gone[shape.Table] = false
	}
	p.mu.RUnlock()
	for table := range gone {
		gone[table] = table != "" && !r.Exists(table)
	}
	return p.drop(gone)
}

// TableDeleted makes room if there is none: requests may find in the cache that their shape
// is not counted separately, and do not look for room.
func (r *Recorder) TableDeleted() {
	p := r.current.Load()
	p.full.Store(0)
	p.mu.RLock()
	full := len(p.known) >= MaxShapes
	p.mu.RUnlock()
	if full {
		r.makeRoom(p)
	}
}

// drop drops the shapes and terms of tables.
func (p *countPeriod) drop(gone map[string]bool) (dropped bool) {
	p.mu.Lock()
	for shape, c := range p.known {
		if gone[shape.Table] {
			c.dropped.Store(true)
			delete(p.known, shape)
			dropped = true
		}
	}
	p.mu.Unlock()
	if !dropped {
		return false
	}
	p.cache.sweep(&p.other)
	p.terms.drop(gone)
	return true
}

// sweep removes the counters that were dropped, and that of the shapes without room.
func (c *fingerprintCache) sweep(other *Counter) {
	for i := range c.sets {
		for j := range c.sets[i] {
			at := &c.sets[i][j]
			if e := at.Load(); e != nil && (e.counter == other || e.counter.dropped.Load()) {
				at.CompareAndSwap(e, nil)
			}
		}
	}
}
