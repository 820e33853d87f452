package db

import (
	"errors"
	"fmt"

	"github.com/stator-db/stator/internal/apierror"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// Write is a change of one item. Whatever changes an item is one of these.
type Write struct {
	Table string
	Key   item.Item // has at least the attributes of the key

	// Fit tells whether the write fits the table; CheckKey unless set.
	Fit func(t *schema.Table, key item.Item) error

	// If tells whether the write may happen, given the item before it (nil
	// when absent); always unless set.
	If func(before item.Item) bool

	Effect Effect

	// Update is set by updates: they are held against the size limit, and
	// worded, in another way. ActionBytes is what their actions count there.
	Update      bool
	ActionBytes int

	Actor change.Actor // a customer unless set
}

// Effect works out the item after a write from the item before it (nil when
// absent). It must not keep state: an engine may run a write more than once.
type Effect func(before item.Item) (after item.Item, err error)

// Replace is the effect of a put.
func Replace(it item.Item) Effect {
	return func(item.Item) (item.Item, error) { return it, nil }
}

// Remove is the effect of a delete.
func Remove(item.Item) (item.Item, error) { return nil, nil }

// Keep is the effect of a write that only looks.
func Keep(before item.Item) (item.Item, error) { return before, nil }

func (w *Write) fits(t *schema.Table) error {
	if w.Fit == nil {
		return t.CheckKey(w.Key)
	}
	return w.Fit(t, w.Key)
}

// Outcome is what a write did.
type Outcome struct {
	Table         *schema.Table // as the write found it
	Before, After item.Item
	Consumed      capacity.Consumed

	// CollectionBytes is the size of the item's collection, in a table that
	// has such.
	CollectionBytes int64

	edits                   []index.Edit
	beforeBytes, afterBytes int // the sizes of Before and After
}

// ConditionFailed is the error of a write whose condition does not hold.
type ConditionFailed struct {
	Before item.Item // the item it looked at
}

func (*ConditionFailed) Error() string { return "the condition does not hold" }

// Cancelled is the error of several writes of which some cannot happen.
type Cancelled struct {
	Reasons []error // by write; nil where there is none
}

func (c *Cancelled) Error() string { return fmt.Sprintf("cancelled: %v", c.first()) }

func (c *Cancelled) first() error {
	for _, err := range c.Reasons {
		if err != nil {
			return err
		}
	}
	return nil
}

// add notes that the i-th of n writes cannot happen. An error that is more
// than the reason of one write is handed back.
func (c *Cancelled) add(i, n int, err error) (*Cancelled, error) {
	var fault *apierror.Error
	var failed *ConditionFailed
	if errors.As(err, &fault) && fault.Whole || fault == nil && !errors.As(err, &failed) {
		return c, err
	}
	if c == nil {
		c = &Cancelled{Reasons: make([]error, n)}
	}
	c.Reasons[i] = err
	return c, nil
}

// conflict is the error of writes that waited too long for others of the same
// items.
func conflict(n int) error {
	c := &Cancelled{Reasons: make([]error, n)}
	for i := range c.Reasons {
		c.Reasons[i] = apierror.Conflict()
	}
	return c
}
