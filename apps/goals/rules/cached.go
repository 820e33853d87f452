package rules

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Cached is a cache of the rules. It reloads them when they are old, and when a product
// is not in them.
type Cached struct {
	Source *Source
	Log    *slog.Logger
	Now    func() time.Time

	mutex sync.Mutex
	set   *Set
	asked time.Time
}

// How old rules may be, and how often an unknown product causes a reload.
const (
	maxAge     = time.Minute
	lookAgain  = 5 * time.Second
	askTimeout = 10 * time.Second
)

// Goal returns the goal for which a product counts. If the rules cannot be read, the
// cached ones are used; an unknown product is then an error, since it may have been
// added.
func (c *Cached) Goal(ctx context.Context, product string) (goalID string, ok bool, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	age := c.Now().Sub(c.asked)
	if c.set == nil || age > maxAge || !c.set.knows(product) && age > lookAgain {
		err := c.refresh(ctx)
		if err != nil && (c.set == nil || !c.set.knows(product)) {
			return "", false, err
		}
		if err != nil {
			c.Log.Warn("reading the rules failed; using the cached ones", "error", err)
		}
	}
	i, ok := c.set.Products[product]
	if !ok {
		return "", false, nil
	}
	return c.set.Goals[i].ID, true, nil
}

func (s *Set) knows(product string) bool {
	_, ok := s.Products[product]
	return ok
}

func (c *Cached) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	set, err := c.Source.Load(ctx)
	if err != nil {
		return err
	}
	c.set, c.asked = set, c.Now()
	return nil
}
