package stator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/stator-db/stator/internal/db/backup"
	"github.com/stator-db/stator/internal/store/pebble"
)

// TableBackup is one table of a backup of the whole server.
type TableBackup struct {
	Table string `json:"table"`
	Items int64  `json:"items"`
	Bytes int64  `json:"bytes"` // of the items, as DynamoDB counts them
	File  string `json:"file"`
}

func tableBackup(m backup.Manifest) TableBackup {
	return TableBackup{Table: m.Table.Name, Items: m.Items, Bytes: m.Bytes, File: m.ID + ".items"}
}

// BackupKey says which backups are read.
type BackupKey struct {
	EncryptionKey string // of those that are encrypted; as in Options
	AllowPlain    bool   // also those that are not encrypted, if there is an EncryptionKey
}

// SaveBackup stores a backup of a whole server, read from the server's reply, in
// a folder or at a URL. It stores either the complete backup or nothing. It is
// encrypted if encryptionKey, which is as in Options, is not empty. SaveBackup
// calls progress for each table.
func SaveBackup(ctx context.Context, from io.Reader, to, encryptionKey string, progress func(TableBackup)) error {
	key, err := loadKey(ctx, encryptionKey)
	if err != nil {
		return err
	}
	files, err := openPlace(ctx, to, key, false)
	if err != nil {
		return err
	}
	err = backup.ReadAll(ctx, from, files, time.Now(), func(m backup.Manifest) { progress(tableBackup(m)) })
	return errors.Join(err, files.Close())
}

// RestoreOptions say which backup is restored.
type RestoreOptions struct {
	BackupKey

	// Database is the id of the database whose newest scheduled backup is restored. Without it the newest
	// backup is, unless several databases have scheduled backups there: the error names them.
	Database string
}

// RestoreBackup creates a data folder, which must not exist, from the newest
// backup of a whole server in a folder or at a URL. The folder appears once it
// is complete. With an EncryptionKey the folder is encrypted with it, too. Backups
// that are newer and need another key are logged. RestoreBackup calls progress for
// each table.
func RestoreBackup(ctx context.Context, from, dir string, o RestoreOptions, log *slog.Logger, progress func(TableBackup)) (err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s already exists", dir)
	}
	part := dir + ".restoring"
	err = pebble.RemoveMarked(part, restoringName) // left by an earlier attempt; fails if that one is still running
	if errors.Is(err, pebble.ErrNotMarked) {
		return fmt.Errorf("the restore needs the name %s for a folder, and no restore has created what is there: move or remove it: %w", part, err)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", part, err)
	}
	if err := pebble.MakeMarked(part, restoringName); err != nil {
		return err
	}
	d, err := Open(ctx, Options{Dir: part, AllowOtherFiles: true, Backups: from, EncryptionKey: o.EncryptionKey, AllowPlainBackups: o.AllowPlain, Log: log})
	if err != nil {
		return errors.Join(err, pebble.RemoveMarked(part, restoringName))
	}
	err = backup.RestoreAll(ctx, d.backupFiles, d.db, o.Database, log, func(m backup.Manifest) { progress(tableBackup(m)) })
	if err = errors.Join(err, d.Close()); err != nil {
		return errors.Join(err, pebble.RemoveMarked(part, restoringName))
	}
	if err := os.Rename(part, dir); err != nil {
		return err
	}
	return errors.Join(pebble.Unmark(dir, restoringName), pebble.SyncDir(filepath.Dir(dir)))
}

// restoringName is the file that marks the unfinished folder of a restore.
const restoringName = "stator.restoring"
