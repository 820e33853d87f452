package cli

import (
	"context"
	"errors"
	"io"
)

var errStdinEnded = errors.New("standard input has ended, and the server was started with --stop-with-stdin")

// untilEOF returns a context that is also canceled when r ends. With --stop-with-stdin, r is a pipe
// from the program that has started the server: the pipe ends with that program, however it ends.
func untilEOF(ctx context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // it ends with r: a read of a pipe cannot be interrupted, and the process ends after the server
		_, _ = io.Copy(io.Discard, r)
		cancel(errStdinEnded)
	}()
	return ctx, func() { cancel(nil) }
}
