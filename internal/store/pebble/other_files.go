package pebble

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// OtherFilesError is returned by Open when a folder has files but no data of an engine.
type OtherFilesError struct {
	Dir  string
	Name string // of one of the files
}

// Error completes the sentence "cannot open data in ./data: …".
func (e *OtherFilesError) Error() string {
	return fmt.Sprintf("the folder has other files, such as %s, and no data of stator", e.Name)
}

// checkOwn returns the error of a folder that is not ours: files of an engine would be mixed
// with others. A folder that is absent, empty or has data of an engine is ours.
func checkOwn(o Options) error {
	if o.AllowOtherFiles {
		return nil
	}
	names, err := o.FS.List(o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	slices.Sort(names)
	other := ""
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, "stator."), strings.HasPrefix(name, "marker."):
			return nil
		case slices.Contains(ignoredNames, name):
		case other == "":
			other = name
		}
	}
	if other == "" {
		return nil
	}
	return &OtherFilesError{Dir: o.Dir, Name: other}
}

// ignoredNames are the files of a folder that is as good as empty: those of a new file
// system, those that keep an empty folder in a repository, and the first that Open creates.
var ignoredNames = []string{"lost+found", ".gitkeep", ".gitignore", "LOCK"}
