package clock

import "time"

// observe compares the wall clock with Now, unless another goroutine does so.
func (c *Clock) observe() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	begun := c.elapsed()
	wall := c.wall().Round(0)
	elapsed := c.elapsed()
	if elapsed-begun > c.tolerance/slewPart {
		return // the goroutine was interrupted between the readings
	}
	l := c.line.Load()
	now := l.at(elapsed)
	// The monotonic clock stands still while the machine is suspended.
	if slept := c.slept(); slept-c.sleeps > time.Second {
		now, c.sleeps = now.Add(slept-c.sleeps), slept
	}
	ahead := wall.Sub(now)
	if ahead.Abs() <= c.tolerance {
		c.returned(ahead)
		c.line.Store(&line{since: elapsed, wall: now, ahead: ahead, past: l.past})
		return
	}
	c.depart(elapsed, ahead)
	c.line.Store(&line{since: elapsed, wall: now, past: l.past})
}

// returned ends a departure.
func (c *Clock) returned(ahead time.Duration) {
	if d := c.departed.Swap(nil); d != nil {
		c.log.Info("the wall clock agrees with the monotonic clock again; expired and old data is deleted again", "was ahead", d.ahead.Round(time.Millisecond), "is ahead", ahead.Round(time.Millisecond))
	}
}

// depart records by how much the wall clock is ahead. A departure begins again when
// that changes.
func (c *Clock) depart(elapsed, ahead time.Duration) {
	d := c.departed.Load()
	if d != nil && (ahead-d.ahead).Abs() <= c.tolerance {
		c.departed.Store(&departure{since: d.since, seen: elapsed, ahead: ahead})
		return
	}
	c.departed.Store(&departure{since: elapsed, seen: elapsed, ahead: ahead})
	c.log.Warn("the wall clock was stepped: its time is not used, and nothing expires or is trimmed, until it returns or has run on for a while",
		"ahead", ahead.Round(time.Millisecond), "for", c.settle)
}

// Accept makes Now step to the wall clock if that has departed and has agreed with
// itself for the settling time. It returns nil otherwise.
func (c *Clock) Accept() *Step {
	if c.elapsed == nil {
		return nil
	}
	c.observe()
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.departed.Load()
	if d == nil || d.seen-d.since < c.settle {
		return nil
	}
	elapsed := c.elapsed()
	l := c.line.Load()
	from := l.at(elapsed)
	// Times are stored in milliseconds. One that is read after the step must not be
	// before it when it is rounded.
	s := &Step{From: from, To: from.Add(d.ahead).Truncate(time.Millisecond)}
	c.line.Store(&line{since: elapsed, wall: s.To, past: l.past.add(s)})
	c.departed.Store(nil)
	c.log.Warn("the time of the wall clock was accepted", "from", s.From, "to", s.To)
	return s
}
