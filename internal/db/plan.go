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

// Write is a plan to change one item. Every change of an item is a Write.
type Write struct {
	Table string
	Key   item.Item // contains at least the key attributes

	// Fit returns a fault if the write does not fit the table. It defaults to
	// CheckKey.
	Fit func(t *schema.Table, key item.Item) error

	// If reports whether the condition of the write holds for the item before
	// it (nil when absent). Without it the write is unconditional.
	If func(before item.Item) bool

	Effect Effect

	// Deletes marks a write whose effect is Remove or Keep. It is admitted on a disk
	// that is almost full.
	Deletes bool

	// Update marks an update, which has its own size check and faults.
	// ActionBytes is the size of its actions in that check.
	Update      bool
	ActionBytes int

	Actor change.Actor // defaults to a customer
}

// Effect computes the item after a write from the item before it (nil when
// absent). It must not keep state: an engine may run a write more than once.
type Effect func(before item.Item) (after item.Item, err error)

// Replace is the effect of a put.
func Replace(it item.Item) Effect {
	return func(item.Item) (item.Item, error) { return it, nil }
}

// Remove is the effect of a delete.
func Remove(item.Item) (item.Item, error) { return nil, nil }

// Keep is the effect of a write that only checks its condition.
func Keep(before item.Item) (item.Item, error) { return before, nil }

func (w *Write) fits(t *schema.Table) error {
	if w.Fit == nil {
		return t.CheckKey(w.Key)
	}
	return w.Fit(t, w.Key)
}

// Outcome describes what a write did.
type Outcome struct {
	Table         *schema.Table // as the write found it
	Before, After item.Item
	Consumed      capacity.Consumed

	// CollectionBytes is the size of the item collection, in a table with local
	// indexes.
	CollectionBytes int64

	edits                   []index.Edit
	beforeBytes, afterBytes int // the sizes of Before and After
}

// ConditionFailed is returned when the condition of a write does not hold.
type ConditionFailed struct {
	Before item.Item // the item that the condition was evaluated on
}

func (*ConditionFailed) Error() string { return "the condition does not hold" }

// Cancelled is returned when some of several writes or reads are rejected, so
// that none is done.
type Cancelled struct {
	Reasons []error // by write or read; nil if it is not rejected
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

// add records err as the reason why the i-th of n actions is rejected. It returns
// an error that concerns more than one action. c may be nil.
func (c *Cancelled) add(i, n int, err error) (*Cancelled, error) {
	if isWhole(err) {
		return c, err
	}
	if c == nil {
		c = &Cancelled{Reasons: make([]error, n)}
	}
	c.Reasons[i] = err
	return c, nil
}

// isWhole reports whether an error concerns more than one action of several.
func isWhole(err error) bool {
	var fault *apierror.Error
	if errors.As(err, &fault) {
		return fault.Whole
	}
	var failed *ConditionFailed
	return !errors.As(err, &failed) && !isThrottled(err)
}

// conflict returns the error of n writes that waited too long for other writes of
// the same items.
func conflict(n int) error {
	c := &Cancelled{Reasons: make([]error, n)}
	for i := range c.Reasons {
		c.Reasons[i] = apierror.Conflict()
	}
	return c
}
