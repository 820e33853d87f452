// Package gold reads and generates a day's gold files: the consolidated customers and
// contributions that the data platform writes to a bucket.
//
//	day=2026-05-15/manifest.json
//	day=2026-05-15/customers-00000.parquet
//	day=2026-05-15/contributions-00000.jsonl
//
// The manifest is written last. It lists the files with their numbers of rows, so that
// an incomplete day can be recognised.
package gold

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Manifest lists the files of a day.
type Manifest struct {
	Day string `json:"day"`

	// AsOf is the time up to which all contributions are settled and in the files.
	// It becomes the batch view's lastUpdated.
	AsOf time.Time `json:"asOf"`

	Customers     []File `json:"customers"`
	Contributions []File `json:"contributions"`

	// Accomplished lists goals of earlier months that customers have reached.
	Accomplished []File `json:"accomplished,omitempty"`

	sum string
}

// File is one of a day's files, named relative to the manifest.
type File struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"`
}

const (
	maxManifest = 4 << 20
	maxFiles    = 20_000
	maxRows     = 1 << 40
)

// Folder returns the folder of a day's files.
func Folder(day string) string { return "day=" + day }

var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._=/-]{0,199}\.(parquet|jsonl)$`)

// ErrNoDay is returned for a day that has no manifest yet.
var ErrNoDay = errors.New("does not exist or is incomplete")

// ReadManifest reads the manifest of a day.
func ReadManifest(ctx context.Context, bucket *blob.Bucket, day string, now time.Time) (*Manifest, error) {
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		return nil, fmt.Errorf("the day is %.40q, but must be like 2026-05-15", day)
	}
	name := path.Join(Folder(day), "manifest.json")
	b, err := readAll(ctx, bucket, name, maxManifest)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fmt.Errorf("day %s %w: the bucket has no %s", day, ErrNoDay, name)
	}
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s is not a manifest: %w", name, err)
	}
	sum := sha256.Sum256(b)
	m.sum = hex.EncodeToString(sum[:8])
	if err := m.check(day, now); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func (m *Manifest) check(day string, now time.Time) error {
	switch {
	case m.Day != day:
		return fmt.Errorf("it has the day %.40q", m.Day)
	case m.AsOf.Year() < 2000:
		return fmt.Errorf("asOf is missing or before the year 2000")
	case m.AsOf.After(now.Add(5 * time.Minute)):
		// It would hide all pending balances until that time.
		return fmt.Errorf("asOf is %s, which is in the future", m.AsOf.UTC().Format(time.RFC3339))
	case len(m.Customers) == 0:
		return fmt.Errorf("it lists no files of customers")
	case len(m.Files()) > maxFiles:
		return fmt.Errorf("it lists more than %d files", maxFiles)
	}
	seen := make(map[string]bool)
	for _, f := range m.Files() {
		if !fileName.MatchString(f.Name) || strings.Contains(f.Name, "..") {
			return fmt.Errorf("%.100q is not the name of a .parquet or .jsonl file of this day", f.Name)
		}
		if seen[f.Name] {
			return fmt.Errorf("it lists %s twice", f.Name)
		}
		if f.Rows < 0 || f.Rows > maxRows {
			return fmt.Errorf("%s cannot have %d rows", f.Name, f.Rows)
		}
		seen[f.Name] = true
	}
	return nil
}

// Files returns all files.
func (m *Manifest) Files() []File {
	return slices.Concat(m.Customers, m.Contributions, m.Accomplished)
}

// Sum returns a checksum of the manifest.
func (m *Manifest) Sum() string { return m.sum }

// Rows returns the number of rows of all files.
func (m *Manifest) Rows() int64 {
	var n int64
	for _, f := range m.Files() {
		n += f.Rows
	}
	return n
}

func readAll(ctx context.Context, bucket *blob.Bucket, name string, limit int64) ([]byte, error) {
	r, err := bucket.NewReader(ctx, name, nil)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s has more than the limit of %d bytes", name, limit)
	}
	return b, nil
}
