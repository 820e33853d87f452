package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/timeid"
)

// Manifest is what is known of a backup without reading its items. Its field
// names are for ever.
type Manifest struct {
	Format  int          `json:"format"`
	ID      string       `json:"id"`
	Name    string       `json:"name"`    // the customer's
	Created time.Time    `json:"created"` // when it was asked for
	Taken   time.Time    `json:"taken"`   // the moment that its items are of
	Table   schema.Table `json:"table"`

	Items     int64  `json:"items"`
	Bytes     int64  `json:"bytes"`     // of the items, as DynamoDB counts them
	FileBytes int64  `json:"fileBytes"` // of the file of items
	SHA256    string `json:"sha256"`    // of that file, up to its footer
	File      string `json:"file"`      // its name, if it is not the id and ".items"
}

// items is the name of the file of items.
func (m *Manifest) items() string {
	if m.File != "" {
		return m.File
	}
	return m.ID + suffixItems
}

// itemsFileID is the id in the name of a file of items: the name is the id, and,
// unless the server that was asked for the backup wrote it at once, eight digits
// that tell attempts apart.
func itemsFileID(name string) (id string, ok bool) {
	m := itemsPattern().FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return m[1], true
}

var itemsPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(` + timeid.Pattern + `)(-[0-9a-f]{8})?\.items$`) })

// The files of a backup, by what follows its id in their names. A listing in
// order shows that a backup is being made before its items, and that before
// the manifest, which makes it one.
const (
	suffixCreating = ".creating"
	suffixItems    = ".items"
	suffixManifest = ".manifest"
	suffixSet      = ".set"
)

// maxManifest bounds what is read of one.
const maxManifest = 4 << 20

// writeRecord writes a small file: JSON, and below it a checksum.
func writeRecord(ctx context.Context, place blob.Place, name string, content any) error {
	b, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("%s cannot be written as JSON: %v", name, err))
	}
	w, err := place.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%s\n%s\n", b, digest(b)); err != nil {
		w.Cancel()
		return err
	}
	return w.Commit()
}

// readRecord reads such a file.
func readRecord(ctx context.Context, place blob.Place, name string, content any) error {
	r, err := place.Open(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxManifest))
	if err != nil {
		return fmt.Errorf("read the backup file %s: %w", name, err)
	}
	b, sum, _ := bytes.Cut(text, []byte("\n"))
	if string(sum) != digest(b)+"\n" {
		return &Damaged{name, 0, "it has another checksum than it should"}
	}
	if err := json.Unmarshal(b, content); err != nil {
		return &Damaged{name, 0, err.Error()}
	}
	return nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func readManifest(ctx context.Context, place blob.Place, name string) (*Manifest, error) {
	m := new(Manifest)
	if err := readRecord(ctx, place, name, m); err != nil {
		return nil, err
	}
	if m.Format != format {
		return nil, fmt.Errorf("the backup file %s has format %d; this version knows %d", name, m.Format, format)
	}
	return m, nil
}
