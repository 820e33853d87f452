package pebble

import "context"

// Only one process has a folder open, so a broadcast is a call of its own handler.

// Subscribe sets the handler of messages.
func (e *Engine) Subscribe(handle func(context.Context, []byte) error) { e.handle = handle }

// Broadcast calls the handler of this process.
func (e *Engine) Broadcast(ctx context.Context, message []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if e.handle == nil {
		return nil
	}
	return e.handle(ctx, message)
}

// Leads is always true.
func (e *Engine) Leads() bool { return true }
