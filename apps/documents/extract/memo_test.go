package extract

import (
	"testing"

	"github.com/stator-db/stator/apps/documents/extract/layout"
)

// With a memo the same file is read once. A search does not change what others get.
func TestMemo(t *testing.T) {
	m := NewMemo()
	ctx := WithMemo(t.Context(), m)
	x := new(Builtin)
	a := File{"a.txt", []byte("Date   Total\n1.1.2026   5\n")}
	first, err := x.Read(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	kept := m.doc
	first.Pages[0].Rows[0] = layout.Row{}
	second, err := x.Read(ctx, File{"b.txt", a.Data})
	if err != nil || m.doc != kept || len(second.Pages[0].Rows[0].Cells) == 0 {
		t.Errorf("%+v, %v", second, err)
	}
	if _, err := x.Read(ctx, File{"a.txt", []byte("Total: 6")}); err != nil || m.doc == kept {
		t.Errorf("another file is not read, %v", err)
	}
	if _, err := x.Read(ctx, File{"a.txt", nil}); !IsUnreadable(err) {
		t.Errorf("%v", err)
	}
}
