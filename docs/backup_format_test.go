package docs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/db/backup"
)

// docs/formats/backup.md names all fields of a backup's record.
func TestBackupFormat(t *testing.T) {
	text := read(t, "formats/backup.md")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[backup.Manifest]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the field %s is not on the page", name)
		}
	}
}
