package docs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/db/transfer"
)

// The page on exports names all fields of a job's record.
func TestExportFormat(t *testing.T) {
	text := read(t, "formats/export.md")
	for _, v := range []any{transfer.Job{}, transfer.Export{}, transfer.Import{}, transfer.CSVOptions{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("the field %s of %T is not on the page", name, v)
			}
		}
	}
}
