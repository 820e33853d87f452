package pebble

import (
	"errors"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// formatMarker is the name of the marker file in which Pebble keeps the format of a folder.
const formatMarker = "format-version"

// markNewestFormat marks an empty folder as one of the newest format. Without that Pebble
// starts with its oldest format, whose WAL hides damage, and upgrades step by step, each
// with a sync of the folder.
//
// A crash may or may not leave the marker there. Pebble creates a database in both cases,
// as long as there is no manifest.
func markNewestFormat(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(names, isNotOurs) {
		return nil // Pebble decides what it is
	}
	m, _, err := atomicfs.LocateMarkerInListing(fs, dir, formatMarker, names)
	if err != nil {
		return err
	}
	return errors.Join(m.Move(pebble.FormatNewest.String()), m.Close())
}

// isNotOurs reports whether a file is none of those that the engine creates before Pebble
// opens the folder.
func isNotOurs(name string) bool {
	return name != "LOCK" && !strings.HasPrefix(name, "stator.")
}
