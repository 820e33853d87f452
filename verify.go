package stator

import (
	"context"
	"errors"

	"github.com/stator-db/stator/internal/db/backup"
)

// TableReport is the result of Verify for one table, or, if Table is empty, for
// what belongs to no table.
type TableReport struct {
	Table   string           `json:"table"`
	Items   int64            `json:"items"`
	Entries map[string]int64 `json:"entries"` // by index name
	Changes int64            `json:"changes"` // change records
	Records int64            `json:"records"` // other keys
	Faults  int64            `json:"faults"`
	First   []string         `json:"first"` // descriptions of the first faults
	Notes   []string         `json:"notes"` // differences that a crash may cause, and that harm no data
}

// Verify reads everything that is stored and checks that it is consistent. The
// last report is that of what belongs to no table. Verify calls progress from
// time to time with the table that it reads, or "", and the keys so far.
func (d *DB) Verify(ctx context.Context, progress func(table string, keys int64)) ([]TableReport, error) {
	reports, err := d.db.Verify(ctx, progress)
	found := make([]TableReport, len(reports))
	for i, r := range reports {
		found[i] = TableReport(r)
	}
	return found, err
}

// BackupReport is the result of VerifyBackups for one file of a backup.
type BackupReport struct {
	File  string `json:"file"`
	Table string `json:"table"`
	Items int64  `json:"items"`
	Fault string `json:"fault,omitempty"`
	Key   string `json:"needsKey,omitempty"` // why it cannot be verified with the given key, or without one
}

// VerifyBackups reads all backups in a folder or at a URL, and compares their
// files with their checksums and manifests. VerifyBackups calls progress for each,
// also for those that need another key.
func VerifyBackups(ctx context.Context, from string, with BackupKey, progress func(BackupReport)) error {
	key, err := loadKey(ctx, with.EncryptionKey)
	if err != nil {
		return err
	}
	files, err := openPlace(ctx, from, key, with.AllowPlain)
	if err != nil {
		return err
	}
	err = backup.VerifyAll(ctx, files, func(f backup.Verified) { progress(BackupReport(f)) })
	return errors.Join(err, files.Close())
}
