package blob

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// memory is a Place that is lost with the process.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte
}

func newMemory() *memory { return &memory{files: make(map[string][]byte)} }

func (m *memory) String() string { return "mem://" }

func (m *memory) Close() error { return nil }

func (m *memory) Create(ctx context.Context, name string) (Writer, error) {
	CheckName(name)
	return &memoryWriter{place: m, ctx: ctx, name: name}, nil
}

func (m *memory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	CheckName(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.files[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (m *memory) Names(context.Context) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		if !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names, nil
}

func (m *memory) Find(_ context.Context, prefix string) (found []File, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, content := range m.files {
		if strings.HasPrefix(name, prefix) {
			found = append(found, File{name, int64(len(content))})
		}
	}
	slices.SortFunc(found, byName)
	return found, nil
}

func (m *memory) Remove(_ context.Context, name string) error {
	CheckName(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.files, name)
	return nil
}

type memoryWriter struct {
	bytes.Buffer
	place *memory
	ctx   context.Context
	name  string
}

// Commit fails if the context has ended, as it does in an object store.
func (w *memoryWriter) Commit() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.place.mu.Lock()
	defer w.place.mu.Unlock()
	w.place.files[w.name] = w.Bytes()
	return nil
}

func (w *memoryWriter) Cancel() {}
