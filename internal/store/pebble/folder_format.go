package pebble

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// folderFormat is the version of what is stored in a folder: of the engine's own records and
// files, and of the values of the database, which have checksums since version 2. It is the
// end of the name of an empty file; a folder without one is of version 1 or 2.
//
// Version 3 has the records of a standby. A version that does not know them would write
// without recording changes, or serve the data of a standby. Version 4 has files that are
// encrypted. Other folders remain of version 2.
const (
	folderFormat    = 2
	standbyFormat   = 3
	encryptedFormat = 4

	newestFormat = encryptedFormat
)

const folderFormatPrefix = "stator.format-"

// FormatError is returned by Open when a newer version has written to a folder.
type FormatError struct{ Found, Know int }

// Error completes the sentence "cannot open data in ./data: …".
func (e *FormatError) Error() string {
	return fmt.Sprintf("it has format %d, and this version of stator knows formats up to %d: use the version that has written it", e.Found, e.Know)
}

// checkFolderFormat returns the error of a folder that a newer version has written to.
// Otherwise it records the present format. The file is durable before data is: Pebble syncs
// the folder when it has created a WAL file.
func checkFolderFormat(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, folderFormatPrefix)
		if !ok {
			continue
		}
		if found, err := strconv.Atoi(digits); err == nil && found > newestFormat {
			return &FormatError{found, newestFormat}
		}
	}
	return addFolderFormat(fs, dir, names, folderFormat)
}

// addFolderFormat records that a folder, which has these files, has a format.
func addFolderFormat(fs vfs.FS, dir string, names []string, format int) error {
	name := folderFormatPrefix + strconv.Itoa(format)
	if slices.Contains(names, name) {
		return nil
	}
	f, err := fs.Create(fs.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return f.Close()
}

// markStandbyFormat records durably that a folder has records of a standby.
func markStandbyFormat(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err == nil {
		err = addFolderFormat(fs, dir, names, standbyFormat)
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	if err != nil {
		return failure("record the format of the folder", err)
	}
	return nil
}

// hasStandbyFormat reports whether markStandbyFormat was called for a folder.
func hasStandbyFormat(fs vfs.FS, dir string) (bool, error) {
	names, err := fs.List(dir)
	if err != nil {
		return false, failure("read the format of the folder", err)
	}
	return slices.Contains(names, folderFormatPrefix+strconv.Itoa(standbyFormat)), nil
}
