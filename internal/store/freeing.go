package store

import "context"

type freeingKey struct{}

// Freeing returns the context of an Update that frees space or is small, such as a delete.
// It may succeed where others fail with ErrFull.
func Freeing(ctx context.Context) context.Context {
	return context.WithValue(ctx, freeingKey{}, true)
}

// IsFreeing reports whether a context was made by Freeing.
func IsFreeing(ctx context.Context) bool { return ctx.Value(freeingKey{}) != nil }
