package extract

import (
	"context"
	"crypto/sha256"
	"slices"

	"github.com/stator-db/stator/apps/documents/extract/layout"
)

// Memo keeps the last file that Builtin has read in contexts with it, so that the
// same file need not be read and recognised again while a workflow is edited.
type Memo struct {
	turn slots // one reads at a time
	sum  [sha256.Size]byte
	doc  *layout.Document
}

// NewMemo returns an empty memo.
func NewMemo() *Memo { return &Memo{turn: make(slots, 1)} }

type memoKey struct{}

// WithMemo returns a context in which files are read with a memo.
func WithMemo(ctx context.Context, m *Memo) context.Context {
	return context.WithValue(ctx, memoKey{}, m)
}

// read returns the document of the memo, or reads it. Concurrent callers wait.
func (m *Memo) read(ctx context.Context, f File, read func(context.Context, File) (layout.Document, error)) (layout.Document, error) {
	if err := m.turn.acquire(ctx); err != nil {
		return layout.Document{}, err
	}
	defer m.turn.release()
	sum := sha256.Sum256(f.Data)
	if m.doc == nil || m.sum != sum {
		doc, err := read(ctx, f)
		if err != nil {
			return doc, err
		}
		m.sum, m.doc = sum, &doc
	}
	// A search divides cells of rows, so each caller gets rows of its own.
	doc := *m.doc
	doc.Pages = slices.Clone(doc.Pages)
	for i := range doc.Pages {
		doc.Pages[i].Rows = slices.Clone(doc.Pages[i].Rows)
	}
	return doc, nil
}
