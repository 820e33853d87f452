package pebble

import "context"

// A folder is open in one process only, which is all that there is to tell.

// Listen sets what this process does when it is told something.
func (e *Engine) Listen(hear func(context.Context, []byte) error) { e.hear = hear }

// Tell has this process hear a message.
func (e *Engine) Tell(ctx context.Context, message []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if e.hear == nil {
		return nil
	}
	return e.hear(ctx, message)
}

// Leads is always true.
func (e *Engine) Leads() bool { return true }
