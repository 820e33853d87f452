package rules

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Cached are rules for one question at a time. They are read anew when they have
// become old, and when a product is asked for that they do not have.
type Cached struct {
	Source *Source
	Log    *slog.Logger
	Now    func() time.Time

	mutex sync.Mutex
	set   *Set
	asked time.Time
}

// How old rules may be, and how often an unknown product lets us look again.
const (
	maxAge     = time.Minute
	lookAgain  = 5 * time.Second
	askTimeout = 10 * time.Second
)

// Goal finds the goal for which a product counts. When the rules cannot be read,
// those known still hold; a product that they do not have is then an error, since
// it may have become known meanwhile.
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
			c.Log.Warn("the rules cannot be read; those known still hold", "error", err)
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
