package migrate

import (
	"context"
	"sync"
)

// parallel calls fn for 0 to n-1, with a limited number of goroutines, and
// returns the first error. The others are cancelled.
func parallel(ctx context.Context, workers, n int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var group sync.WaitGroup
	for range min(workers, n) {
		group.Go(func() {
			for i := range next {
				if err := fn(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}

// background runs fn in a goroutine, and returns a context that ends with its
// error, and a function that stops it and waits for it.
func background(ctx context.Context, fn func(ctx context.Context) error) (context.Context, func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	inner, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		err := fn(inner)
		if err != nil && inner.Err() == nil {
			cancel(err)
		}
		done <- err
	}()
	return ctx, func() error {
		stopped := inner.Err() == nil
		stop()
		err := <-done
		cancel(nil)
		if stopped {
			return nil
		}
		return err
	}
}
