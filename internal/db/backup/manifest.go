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

// Manifest describes a backup without its items. The field names are part of the
// file format and must not change.
type Manifest struct {
	Format  int          `json:"format"`
	ID      string       `json:"id"`
	Name    string       `json:"name"`    // as the customer gave it
	Created time.Time    `json:"created"` // when it was requested
	Taken   time.Time    `json:"taken"`   // when its items were read
	Table   schema.Table `json:"table"`

	Items     int64  `json:"items"`
	Bytes     int64  `json:"bytes"`     // size of the items as DynamoDB counts it
	FileBytes int64  `json:"fileBytes"` // size of the items file
	SHA256    string `json:"sha256"`    // of the items file, up to its footer
	File      string `json:"file"`      // name of the items file; defaults to the id and ".items"

	// Owner is the id of the database that a customer asked for the backup, which writes it.
	// Older versions did not store it.
	Owner string `json:"owner,omitempty"`

	Database string `json:"database,omitempty"` // id of the database whose schedule made the backup; empty if a customer did
	Set      int64  `json:"set,omitempty"`      // number of the set for which the schedule made it
}

// items returns the name of the items file.
func (m *Manifest) items() string {
	if m.File != "" {
		return m.File
	}
	return m.ID + suffixItems
}

// itemsFileID returns the backup id in the name of an items file. The name is the
// id, followed by eight digits that distinguish attempts unless the server that
// received the request wrote the file at the first attempt.
func itemsFileID(name string) (id string, ok bool) {
	m := itemsPattern().FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return m[1], true
}

var itemsPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(` + timeid.Pattern + `)(-[0-9a-f]{8})?\.items$`) })

// The suffixes that follow the id in the names of a backup's files. In sorted
// order the record of a pending backup precedes its items, and the items precede
// the manifest, which makes the backup complete.
const (
	suffixCreating = ".creating"
	suffixItems    = ".items"
	suffixManifest = ".manifest"
	suffixSet      = ".set"
)

// maxRecordBytes bounds how much of a record is read.
const maxRecordBytes = 4 << 20

// writeRecord writes a record: a small file of JSON, followed by a checksum.
func writeRecord(ctx context.Context, place blob.Place, name string, content any) error {
	b, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("%s cannot be encoded as JSON: %v", name, err))
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

// readRecord reads a file of writeRecord and verifies its checksum. It returns the id of its
// encryption key; empty if it is not encrypted.
func readRecord(ctx context.Context, place blob.Place, name string, content any) (key string, err error) {
	r, err := place.Open(ctx, name)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxRecordBytes))
	if err != nil {
		return "", fmt.Errorf("read backup file %s: %w", name, err)
	}
	b, sum, _ := bytes.Cut(text, []byte("\n"))
	if string(sum) != digest(b)+"\n" {
		return "", &Damaged{name, 0, "its checksum does not match"}
	}
	if err := json.Unmarshal(b, content); err != nil {
		return "", &Damaged{name, 0, err.Error()}
	}
	return blob.KeyOf(r), nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func readManifest(ctx context.Context, place blob.Place, name string) (*Manifest, error) {
	m := new(Manifest)
	if _, err := readRecord(ctx, place, name, m); err != nil {
		return nil, err
	}
	if m.Format != format {
		return nil, fmt.Errorf("backup file %s has format %d; this version reads format %d", name, m.Format, format)
	}
	return m, nil
}
