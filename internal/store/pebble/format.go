package pebble

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/stator-db/stator/internal/store/pebble/walguard"
)

// formatMarker is the name of the marker by which Pebble knows the format of a
// folder.
const formatMarker = "format-version"

// beginNewest marks a folder without data as one of the newest format. Without
// that Pebble begins with its oldest, whose log hides damage, and raises it step
// by step, with a sync of the folder for each.
//
// A crash leaves the marker there or not. Pebble makes a database in both cases,
// as long as there is no manifest.
func beginNewest(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(names, isNotOurs) {
		return nil // it is for Pebble to say what it is
	}
	m, _, err := atomicfs.LocateMarkerInListing(fs, dir, formatMarker, names)
	if err != nil {
		return err
	}
	return errors.Join(m.Move(pebble.FormatNewest.String()), m.Close())
}

// isNotOurs tells of the name of a file whether it is something else than what
// we have put beside Pebble's data before that is opened.
func isNotOurs(name string) bool {
	return name != "LOCK" && name != pidName && name != walguard.MarksName
}
