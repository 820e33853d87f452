package standby

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// state is stored with the data of a standby. An engine without one is not a
// standby's. The field names are part of the format and must not change.
type state struct {
	Format     int         `json:"format"`
	Loading    bool        `json:"loading,omitempty"` // the copy is unfinished: only Standby and Of are set besides
	Standby    string      `json:"standby"`           // id of the standby
	Of         string      `json:"of"`                // URL of the server
	Slot       string      `json:"slot"`
	Database   string      `json:"database"`
	Run        string      `json:"run"`            // id of the server's process that sent the newest changes
	Position   store.Stamp `json:"position"`       // all changes before are applied
	Last       store.Stamp `json:"last,omitempty"` // of the newest change that is applied; 0 if there is none since the copy
	Consistent store.Stamp `json:"consistent"`     // the first position at which the data is a state that the server had
	Fresh      time.Time   `json:"fresh"`          // by the standby's clock: all changes that were acknowledged before are applied, at a consistent position
}

func (s *state) encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("the state of a standby cannot be encoded as JSON: %v", err))
	}
	return b
}

// changesRequest returns the request of a process for the changes that follow the state.
func (s *state) changesRequest(process string) changesRequest {
	return changesRequest{Format: format, Process: process, Slot: s.Slot, Database: s.Database, Run: s.Run, From: s.Position, Last: s.Last}
}

// after returns the state once the changes of a reply are applied.
func (s *state) after(changes []pebble.Change, end changesEnd) state {
	next := *s
	next.Position, next.Run = end.Next, end.Run
	if len(changes) > 0 {
		next.Last = changes[len(changes)-1].Stamp
	}
	return next
}

// readState returns the state of an engine; nil if it is not a standby's.
func readState(e *pebble.Engine) (*state, error) {
	b, err := e.StandbyState()
	if err != nil || b == nil {
		return nil, err
	}
	s := new(state)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("the state of the standby cannot be decoded: %w: %w", store.ErrCorrupt, err)
	}
	if s.Format != format {
		return nil, fmt.Errorf("the state of the standby has format %d; this version reads format %d", s.Format, format)
	}
	return s, nil
}

// ErrStandby is returned when data that is to be served belongs to a standby.
var ErrStandby = errors.New("it is the data of a standby, which stator standby serves; promote it with stator promote")

// ErrUnfinished is returned when data that is to be served is an unfinished copy.
var ErrUnfinished = errors.New("it is an unfinished copy that a standby has made, with a part of the data; remove the folder, or start stator standby with its own data folder, which makes the copy again")

// CheckNotStandby returns ErrStandby if an engine has the data of a standby, and ErrUnfinished if
// it has a part of it.
func CheckNotStandby(e *pebble.Engine) error {
	s, err := readState(e)
	switch {
	case err != nil || s == nil:
		return err
	case s.Loading:
		return ErrUnfinished
	}
	return ErrStandby
}

// errNotStandby is returned for a folder that must not be replaced by a copy.
var errNotStandby = errors.New("it has data that is not a standby's, and a promoted standby cannot follow a server again: serve it with stator serve, or choose a new folder")

// partSuffix is added to the name of the data folder for a copy in progress.
const partSuffix = ".standby-copying"

// resolveDir returns the absolute name of a data folder, without symbolic links: a copy
// replaces the folder, not the link to it.
func resolveDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir) // other names are made by adding suffixes
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	return filepath.EvalSymlinks(dir)
}

// openDir opens the data of a standby. It returns nil if there is none yet, and
// completes the replacement of a folder by a new copy.
func openDir(o pebble.Options) (*pebble.Engine, *state, error) {
	exists, err := hasFiles(o.Dir)
	if err != nil {
		return nil, nil, err
	}
	if exists {
		return openComplete(o)
	}
	// A copy takes the place of the folder, which fails now rather than after the copy
	// if the folder is a mount point.
	if err := os.Remove(o.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("a standby replaces its data folder, which therefore cannot be a mount point: choose a folder in it: %w", err)
	}
	for _, suffix := range []string{partSuffix, oldSuffix} {
		from := o
		from.Dir += suffix
		if complete, err := hasCopy(from); err != nil {
			return nil, nil, err
		} else if !complete {
			continue // it is made again
		}
		if err := replaceDir(from.Dir, o.Dir, false); err != nil {
			return nil, nil, err
		}
		return openComplete(o)
	}
	return nil, nil, nil
}

// hasCopy reports whether a folder has a complete copy.
func hasCopy(o pebble.Options) (bool, error) {
	if own, err := isMarked(o.Dir); err != nil || !own {
		return false, err
	}
	if removed, err := pebble.IsBeingRemoved(o.Dir); err != nil || removed {
		return false, err
	}
	e, s, err := openStandby(o)
	if err != nil {
		return false, fmt.Errorf("%s: %w", o.Dir, err)
	}
	return s != nil && !s.Loading, e.Close()
}

// openComplete opens a folder with data, which must be a standby's, and removes what an
// interrupted copy has left. Other folders with these names prevent a copy, not that it is opened.
func openComplete(o pebble.Options) (*pebble.Engine, *state, error) {
	e, s, err := openStandby(o)
	if err != nil {
		return nil, nil, err
	}
	if s == nil {
		return nil, nil, errors.Join(errNotStandby, e.Close())
	}
	if s.Loading {
		return nil, nil, errors.Join(ErrUnfinished, e.Close())
	}
	err = mark(o.Dir)
	for _, suffix := range []string{partSuffix, oldSuffix} {
		if removeErr := removeOwn(o.Dir + suffix); !errors.Is(removeErr, pebble.ErrNotMarked) {
			err = errors.Join(err, removeErr)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	return e, s, nil
}

func openStandby(o pebble.Options) (*pebble.Engine, *state, error) {
	e, err := pebble.Open(o)
	if err != nil {
		return nil, nil, err
	}
	s, err := readState(e)
	if err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	return e, s, nil
}

// hasFiles reports whether a folder exists and is not empty.
func hasFiles(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}

// oldSuffix is added to the name of a folder that a new copy has replaced, until it is
// removed.
const oldSuffix = ".standby-replaced"

// replaceDir renames a folder to the name of another. If isOwn is set, the other is an older
// copy of this standby, and is removed. Otherwise it must be absent or empty: it is not the
// standby's. A crash leaves one of the two under that name, or only the new one under its
// own.
func replaceDir(from, to string, isOwn bool) error {
	if isOwn {
		if err := removeOwn(to + oldSuffix); err != nil {
			return err
		}
		if err := os.Rename(to, to+oldSuffix); err != nil {
			return err
		}
	}
	if err := os.Rename(from, to); err != nil {
		if isOwn {
			return errors.Join(err, os.Rename(to+oldSuffix, to))
		}
		return fmt.Errorf("the copy cannot become the data folder of the standby, which another process may have created: %w", err)
	}
	if err := pebble.SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	if isOwn {
		_ = removeOwn(to + oldSuffix) // otherwise the next start removes it
	}
	return nil
}

// dirIdentity identifies a folder, whatever its name is later.
type dirIdentity struct{ info fs.FileInfo }

func identityOf(dir string) dirIdentity {
	info, _ := os.Stat(dir)
	return dirIdentity{info} // nil if it is absent
}

// isAt reports whether a folder has this name now.
func (f dirIdentity) isAt(dir string) bool {
	now, err := os.Stat(dir)
	return err == nil && f.info != nil && os.SameFile(f.info, now)
}
