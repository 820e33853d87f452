package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/encryption"
)

// FilesDone is called with how many of the files of a place are done.
type FilesDone func(done, total int)

// rotatedKey is a data key that gets another master key.
type rotatedKey struct {
	key     *encryption.DataKey
	created time.Time
}

// RotateKeys wraps the data keys at a place with a new master key, if they are wrapped with the old
// one, and returns how many there were. Before that it creates a new data key for new files. If it is
// interrupted, it can be called again.
//
// It reads the beginning of each file, since the key file of a data key may have been removed. It
// returns an error if a data key cannot be read from its key file, nor from the files that it has
// encrypted; the others are rotated nevertheless.
func RotateKeys(ctx context.Context, place Place, before, after *encryption.MasterKey, progress FilesDone) (rotated int, err error) {
	records, unreadable, err := readKeys(ctx, place)
	if err != nil {
		return 0, err
	}
	keys := make(map[string]rotatedKey)
	decided := make(map[string]bool) // ids of data keys that are in keys, or have another master key
	var others []string              // ids of other master keys
	for _, r := range records {
		d, err := r.unwrap(before)
		if err == nil {
			keys[r.ID] = rotatedKey{d, r.Created}
		}
		if err != nil && r.Master == before.ID() {
			unreadable[keyFile(r.ID)] = err
			continue
		}
		decided[r.ID] = true
		others = append(others, r.Master)
	}
	err = eachHeader(ctx, place, progress, func(_ string, h *encryption.StreamHeader) error {
		if d, err := h.Unwrap(before); err == nil && !decided[h.KeyID] {
			keys[h.KeyID], decided[h.KeyID] = rotatedKey{key: d}, true // a zero time: it is not the newest
			delete(unreadable, keyFile(h.KeyID))
		}
		if h.Master != "" {
			others = append(others, h.Master)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	lost := errors.Join(slices.Collect(maps.Values(unreadable))...)
	if len(keys) == 0 && !slices.Contains(others, after.ID()) {
		switch {
		case lost != nil:
			return 0, lost
		case len(others) == 0:
			return 0, fmt.Errorf("%s has no encrypted backups", place)
		}
		return 0, &encryption.WrongKeyError{Used: others[0], Given: before.ID()}
	}
	if err := writeKey(ctx, place, after, encryption.NewDataKey(), createdAfter(records)); err != nil {
		return 0, err
	}
	for _, k := range keys {
		if err := writeKey(ctx, place, after, k.key, k.created); err != nil {
			return rotated, err
		}
		rotated++
	}
	return rotated, lost
}

// eachHeader calls do for each encrypted file of a place with its beginning. Files that are not
// encrypted, or whose beginning is damaged, are omitted.
func eachHeader(ctx context.Context, place Place, progress FilesDone, do func(name string, h *encryption.StreamHeader) error) error {
	names, err := place.Names(ctx)
	if err != nil {
		return fmt.Errorf("list files in %s: %w", place, err)
	}
	names = slices.DeleteFunc(names, isKeyFile)
	for i, name := range names {
		h, err := headerOf(ctx, place, name)
		switch {
		case errors.Is(err, ErrNotFound) || errors.Is(err, encryption.ErrDamaged): // removed meanwhile, or damaged
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case h != nil:
			if err := do(name, h); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		progress(i+1, len(names))
	}
	return nil
}

// headerOf reads the beginning of a file; nil if it is not encrypted.
func headerOf(ctx context.Context, place Place, name string) (*encryption.StreamHeader, error) {
	f, err := place.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written to it
	in, isEncrypted, err := peek(f)
	if err != nil || !isEncrypted {
		return nil, err
	}
	return encryption.ReadStreamHeader(in)
}

// RewriteFiles encrypts all files that a master key opens with its newest data key, and removes its
// other data keys. Files that are not encrypted, and those of other master keys, remain as they are. A
// file that is damaged remains, too, and an error names it. If it is interrupted, it can be called
// again.
func RewriteFiles(ctx context.Context, place Place, master *encryption.MasterKey, progress FilesDone) (rewritten int, err error) {
	p := &encryptedPlace{Place: place, master: master}
	active, err := p.activeKey(ctx)
	if err != nil {
		return 0, err
	}
	var damaged error
	err = eachHeader(ctx, place, progress, func(name string, h *encryption.StreamHeader) error {
		if h.KeyID == active.ID() && h.Master == master.ID() {
			return nil
		}
		switch err := p.rewrite(ctx, name); {
		case err == nil:
			rewritten++
		case ctx.Err() != nil:
			return ctx.Err()
		case encryption.IsKeyError(err), errors.Is(err, ErrNotFound):
		default:
			damaged = errors.Join(damaged, err)
		}
		return nil
	})
	if err = errors.Join(err, damaged); err != nil {
		return rewritten, err
	}
	records, _, err := readKeys(ctx, place)
	if err != nil {
		return rewritten, err
	}
	for _, r := range records {
		if r.Master == master.ID() && r.ID != active.ID() {
			if err := place.Remove(ctx, keyFile(r.ID)); err != nil {
				return rewritten, err
			}
		}
	}
	return rewritten, nil
}

// rewrite replaces a file by one with the active data key. What is copied is authenticated.
func (p *encryptedPlace) rewrite(ctx context.Context, name string) error {
	in, err := p.Open(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // nothing was written to it
	out, err := p.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Cancel()
		return err
	}
	return out.Commit()
}
