package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/encryption"
)

// Verified is the result of the verification of a backup, or of a set of backups.
type Verified struct {
	File  string // the manifest, or the record of the set
	Table string // empty for a set
	Items int64
	Fault string // empty if the backup is complete and undamaged
	Key   string // why it cannot be verified with the given encryption key, or without one; empty if it can
}

// VerifyAll reads all complete backups at a place, and all sets, and calls done
// for each. Backups that are being created, or were abandoned, are not reported:
// without a manifest there is no backup. A backup that needs another encryption key is
// not damaged, and is reported as such.
func VerifyAll(ctx context.Context, place blob.Place, done func(Verified)) error {
	names, err := place.Names(ctx)
	if err != nil {
		return fmt.Errorf("list backups in %s: %w", place, err)
	}
	for _, name := range names {
		v, ok := Verified{File: name}, true
		switch {
		case strings.HasSuffix(name, suffixManifest):
			err = verifyBackup(ctx, place, &v)
		case strings.HasSuffix(name, suffixSet):
			err = verifySet(ctx, place, names, &v)
		default:
			ok = false
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !ok || errors.Is(err, blob.ErrNotFound) && !stillListed(ctx, place, name) {
			continue // deleted meanwhile
		}
		switch {
		case encryption.IsKeyError(err):
			v.Key = err.Error()
		case err != nil:
			v.Fault = err.Error()
		}
		done(v)
	}
	return nil
}

func stillListed(ctx context.Context, place blob.Place, name string) bool {
	names, err := place.Names(ctx)
	return err != nil || slices.Contains(names, name)
}

// verifyBackup reads a whole backup.
func verifyBackup(ctx context.Context, place blob.Place, v *Verified) error {
	id, ok := cutID(v.File, suffixManifest)
	if !ok {
		return &Damaged{v.File, 0, "its name is not that of a backup"}
	}
	m, err := readManifest(ctx, place, v.File)
	if err != nil {
		return err
	}
	if v.Table, v.Items = m.Table.Name, m.Items; m.ID != id {
		return &Damaged{v.File, 0, "it belongs to a different backup"}
	}
	return verify(ctx, place, id)
}

// verifySet checks that all backups of a set exist.
func verifySet(ctx context.Context, place blob.Place, names []string, v *Verified) error {
	s, err := readSet(ctx, place, v.File)
	if err != nil {
		return err
	}
	for _, id := range s.Backups {
		if !slices.Contains(names, id+suffixManifest) {
			return &Damaged{v.File, 0, "the backup " + id + " of the set does not exist"}
		}
	}
	return nil
}
