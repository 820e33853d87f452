package pebble

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store/pebble/walguard"
)

// quarantineDir is the folder for tables that may have data but are not named by the
// manifest. Nothing in it is ever read or deleted.
const quarantineDir = "quarantine"

// checkManifest returns an error if the manifest is damaged.
//
// Pebble deletes the tables that its manifest does not name. If the manifest is as it was
// written, they are what a crash left of a flush or compaction. If there is no mark to
// prove that, they are kept.
func (e *Engine) checkManifest(o Options, files vfs.FS, options *pebble.Options) error {
	if o.withoutWAL() || o.skipMarks {
		return nil
	}
	m, err := e.marks.CheckFolder(files, o.Dir)
	if err != nil || m.Name == "" || m.Verified {
		return err
	}
	unknown, err := e.unknownTables(o.Dir, *options)
	if err != nil || len(unknown) == 0 {
		return err
	}
	if !m.Whole {
		return fmt.Errorf("a part of the manifest %s cannot be read, and it does not name the tables %s: the folder was not changed; "+
			"restore the folder from a copy or its tables from backups, or move these files elsewhere to open the folder without their items: %w",
			m.Name, strings.Join(unknown, " "), pebble.ErrCorruption)
	}
	if err := moveTables(o.FS, o.Dir, unknown); err != nil {
		return fmt.Errorf("move tables that the manifest %s does not name to %s: %w", m.Name, quarantineDir, err)
	}
	e.log.Warn("tables that the manifest does not name were kept: a crash may have left them, and the manifest has no mark to prove that; "+
		"if no items are missing, remove them", "folder", o.FS.PathJoin(o.Dir, quarantineDir), "tables", strings.Join(unknown, " "))
	return nil
}

// unknownTables returns the names of the tables in a folder that its manifest does not name.
func (e *Engine) unknownTables(dir string, options pebble.Options) (unknown []string, err error) {
	names, err := options.FS.List(dir)
	if err != nil {
		return nil, err
	}
	tables := make(map[uint64]string)
	for _, name := range names {
		if n, ok := walguard.TableNumber(name); ok {
			tables[n] = name
		}
	}
	if len(tables) == 0 {
		return nil, nil
	}
	options.ReadOnly = true
	db, err := e.openPebble(dir, &options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}
	for _, level := range levels {
		for _, t := range level {
			delete(tables, uint64(t.BackingSSTNum))
		}
	}
	for _, name := range names {
		if n, ok := walguard.TableNumber(name); ok && tables[n] == name {
			unknown = append(unknown, name)
		}
	}
	return unknown, nil
}

// moveTables moves tables to the quarantine, where those of earlier times keep their names.
func moveTables(disk vfs.FS, dir string, tables []string) error {
	to := disk.PathJoin(dir, quarantineDir)
	if err := disk.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, name := range tables {
		target := disk.PathJoin(to, name)
		for n := 2; ; n++ {
			_, err := disk.Stat(target)
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return err
			}
			target = disk.PathJoin(to, fmt.Sprintf("%s.%d", name, n))
		}
		if err := disk.Rename(disk.PathJoin(dir, name), target); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(disk, to), syncDir(disk, dir))
}
