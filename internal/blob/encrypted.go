package blob

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/store"
)

// encryptedPlace is a place whose files are encrypted. The data key of a file is in the file, wrapped
// by the master key. A second copy is in a file of its own, by which the master key is replaced: see
// RotateKeys. Servers that share the place never replace the keys of others.
//
// Nothing is read before the first file is created or opened, so that a place which cannot be reached
// fails the backups that need it, and nothing else.
type encryptedPlace struct {
	Place
	master     *encryption.MasterKey // nil if files are written as they are, and encrypted ones cannot be read
	allowPlain bool                  // files that are not encrypted are read although there is a key

	mu     sync.Mutex
	active *encryption.DataKey // of new files; nil until one is created
}

// keyRecord is the content of the file of a data key.
type keyRecord struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Master  string    `json:"master"` // id of the master key
	Created time.Time `json:"created"`
	Wrapped []byte    `json:"wrapped"`

	sealed encryption.SealedRecord // zero for the format 1, which has no checksum
}

const (
	plainKeyFormat = 1 // a line of JSON
	keyFormat      = 2 // a sealed record
	keyPrefix      = "stator-"
	keySuffix      = ".key"
	maxKeyRecord   = 4 << 10
)

// Encrypted returns a place whose files are encrypted if there is a master key. Files that are not
// encrypted are read if there is none, or with allowPlain: otherwise opening one returns a
// *encryption.NotEncryptedError.
func Encrypted(place Place, master *encryption.MasterKey, allowPlain bool) Place {
	return &encryptedPlace{Place: place, master: master, allowPlain: allowPlain}
}

// CheckKeys returns an error that says which keys of a place of Encrypted cannot be used: those of
// another master key, if there are no others, and those that cannot be read. Backups that need other
// keys are not affected.
func CheckKeys(ctx context.Context, place Place) error {
	p, ok := place.(*encryptedPlace)
	if !ok || p.master == nil {
		return nil
	}
	records, unreadable, err := readKeys(ctx, p.Place)
	if err != nil {
		return err
	}
	found := errors.Join(slices.Collect(maps.Values(unreadable))...)
	isOwn := func(r keyRecord) bool { return r.Master == p.master.ID() }
	if len(records) > 0 && !slices.ContainsFunc(records, isOwn) {
		found = errors.Join(found, fmt.Errorf("the backups in %s: %w; to use them, give both keys to stator encryption rotate --backups",
			place, &encryption.WrongKeyError{Used: records[0].Master, Given: p.master.ID()}))
	}
	return found
}

// readKeys reads the key files of a place, in the order of their creation. unreadable are those that
// cannot be read.
func readKeys(ctx context.Context, place Place) (records []keyRecord, unreadable map[string]error, err error) {
	unreadable = make(map[string]error)
	files, err := place.Find(ctx, keyPrefix)
	if err != nil {
		return nil, nil, fmt.Errorf("list files in %s: %w", place, err)
	}
	for _, f := range files {
		if !isKeyFile(f.Name) {
			continue
		}
		r, err := readKey(ctx, place, f.Name)
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case errors.Is(err, ErrNotFound): // it was removed meanwhile
		case err != nil:
			unreadable[f.Name] = err
		default:
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b keyRecord) int { return a.Created.Compare(b.Created) })
	return records, unreadable, nil
}

func isKeyFile(name string) bool {
	return strings.HasPrefix(name, keyPrefix) && strings.HasSuffix(name, keySuffix) && !strings.Contains(name, "/")
}

func keyFile(id string) string { return keyPrefix + id + keySuffix }

func readKey(ctx context.Context, place Place, name string) (r keyRecord, err error) {
	f, err := place.Open(ctx, name)
	if err != nil {
		return r, err
	}
	defer f.Close() //nolint:errcheck // nothing was written to it
	text, err := io.ReadAll(io.LimitReader(f, maxKeyRecord))
	if err != nil {
		return r, fmt.Errorf("read %s: %w", name, err)
	}
	wants := plainKeyFormat
	if sealed, ok := encryption.ReadSealed(text); ok {
		text, r.sealed, wants = sealed.Content, sealed, keyFormat
	}
	if json.Unmarshal(text, &r) != nil || name != keyFile(r.ID) {
		return r, fmt.Errorf("the key file %s in %s is damaged: %w", name, place, store.ErrCorrupt)
	}
	if r.Format != wants {
		return r, fmt.Errorf("the key file %s in %s has format %d, and this version of stator knows formats up to %d", name, place, r.Format, keyFormat)
	}
	return r, nil
}

func writeKey(ctx context.Context, place Place, master *encryption.MasterKey, d *encryption.DataKey, created time.Time) error {
	b, err := json.Marshal(keyRecord{Format: keyFormat, ID: d.ID(), Master: master.ID(), Created: created, Wrapped: master.Wrap(d)})
	if err != nil {
		panic(fmt.Sprintf("a key cannot be encoded: %v", err))
	}
	w, err := place.Create(ctx, keyFile(d.ID()))
	if err != nil {
		return err
	}
	if _, err := w.Write(master.SealRecord(b)); err != nil {
		w.Cancel()
		return err
	}
	return w.Commit()
}

// unwrap decrypts the data key in a key file.
func (r *keyRecord) unwrap(master *encryption.MasterKey) (*encryption.DataKey, error) {
	if r.Master != master.ID() {
		return nil, &encryption.WrongKeyError{Used: r.Master, Given: master.ID()}
	}
	if r.Format != plainKeyFormat && !r.sealed.IsOf(master) {
		return nil, fmt.Errorf("the key file %s was changed without the key: %w", keyFile(r.ID), store.ErrCorrupt)
	}
	d, err := master.Unwrap(r.ID, r.Wrapped)
	if err != nil {
		return nil, fmt.Errorf("the key file %s: %w: %w", keyFile(r.ID), err, store.ErrCorrupt)
	}
	return d, nil
}

// key returns the data key of a file. It is never kept, so that a backup that was just written is
// verified by what is stored.
func (p *encryptedPlace) key(ctx context.Context, h *encryption.StreamHeader) (*encryption.DataKey, error) {
	if h.Master == p.master.ID() {
		if d, err := h.Unwrap(p.master); err == nil {
			return d, nil
		}
	}
	// The master key was replaced since, the file is of an older version, or its own copy is damaged.
	r, err := readKey(ctx, p.Place, keyFile(h.KeyID))
	switch {
	case errors.Is(err, ErrNotFound) && h.Master != "" && h.Master != p.master.ID():
		return nil, &encryption.WrongKeyError{Used: h.Master, Given: p.master.ID()}
	case errors.Is(err, ErrNotFound):
		return nil, fmt.Errorf("its key file %s is missing: %w", keyFile(h.KeyID), store.ErrCorrupt)
	case err != nil:
		return nil, err
	}
	return r.unwrap(p.master)
}

// masterOf returns the id of the master key that a file needs; empty if it is unknown.
func (p *encryptedPlace) masterOf(ctx context.Context, h *encryption.StreamHeader) string {
	if r, err := readKey(ctx, p.Place, keyFile(h.KeyID)); err == nil {
		return r.Master
	}
	return h.Master
}

// activeKey returns the key of new files: the newest one of the master key. If there is none, it is
// created.
func (p *encryptedPlace) activeKey(ctx context.Context) (*encryption.DataKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active != nil {
		return p.active, nil
	}
	records, _, err := readKeys(ctx, p.Place)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(records) {
		if d, err := r.unwrap(p.master); err == nil {
			p.active = d
			return d, nil
		}
	}
	d := encryption.NewDataKey()
	if err := writeKey(ctx, p.Place, p.master, d, createdAfter(records)); err != nil {
		return nil, err
	}
	p.active = d
	return d, nil
}

// createdAfter returns when a new key is created: now, and after all others.
func createdAfter(records []keyRecord) time.Time {
	now := time.Now().UTC()
	if n := len(records); n > 0 && !now.After(records[n-1].Created) {
		now = records[n-1].Created.Add(time.Second)
	}
	return now
}

// Create begins a file.
func (p *encryptedPlace) Create(ctx context.Context, name string) (Writer, error) {
	if p.master == nil {
		return p.Place.Create(ctx, name)
	}
	d, err := p.activeKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("the encryption key of new backups: %w", err)
	}
	w, err := p.Place.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	return &encryptingWriter{w, encryption.NewStreamWriter(w, d, p.master)}, nil
}

type encryptingWriter struct {
	Writer
	stream *encryption.StreamWriter
}

func (w *encryptingWriter) Write(b []byte) (int, error) { return w.stream.Write(b) }

func (w *encryptingWriter) Commit() error {
	if err := w.stream.Finish(); err != nil {
		w.Cancel()
		return err
	}
	return w.Writer.Commit()
}

// Open opens a file for reading.
func (p *encryptedPlace) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	f, err := p.Place.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	r, err := p.reader(ctx, f, name)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return r, nil
}

func (p *encryptedPlace) reader(ctx context.Context, f io.ReadCloser, name string) (io.ReadCloser, error) {
	in, isEncrypted, err := peek(f)
	switch {
	case err != nil:
		return nil, err
	case !isEncrypted && p.master != nil && !p.allowPlain:
		return nil, &encryption.NotEncryptedError{}
	case !isEncrypted:
		return plainFile{in, f}, nil
	}
	h, err := encryption.ReadStreamHeader(in)
	if p.master == nil {
		needs := new(encryption.NeedsKeyError)
		if err == nil {
			needs.Used = p.masterOf(ctx, h)
		}
		return nil, needs
	}
	if err != nil {
		return nil, corrupt(err)
	}
	d, err := p.key(ctx, h)
	if err != nil {
		return nil, err
	}
	stream, err := encryption.NewStreamReader(in, h, d)
	if err != nil {
		return nil, corrupt(err)
	}
	return &decryptingReader{f, stream, name, h.KeyID}, nil
}

// peek reports whether a file is encrypted, and returns a reader of all of it.
func peek(f io.Reader) (in *bufio.Reader, isEncrypted bool, err error) {
	const bufferBytes = 256 // larger reads bypass it
	in = bufio.NewReaderSize(f, bufferBytes)
	magic, err := in.Peek(encryption.MagicBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	return in, encryption.HasMagic(magic), nil
}

// corrupt adds store.ErrCorrupt to encryption.ErrDamaged.
func corrupt(err error) error {
	if errors.Is(err, encryption.ErrDamaged) {
		return fmt.Errorf("%w: %w", err, store.ErrCorrupt)
	}
	return err
}

type plainFile struct {
	io.Reader
	io.Closer
}

type decryptingReader struct {
	io.Closer
	stream    *encryption.StreamReader
	name, key string
}

func (r *decryptingReader) Read(b []byte) (int, error) {
	n, err := r.stream.Read(b)
	if errors.Is(err, encryption.ErrDamaged) {
		err = fmt.Errorf("%s: %w", r.name, corrupt(err))
	}
	return n, err
}

// KeyOf returns the id of the data key of a file that was opened; empty if it is not encrypted.
func KeyOf(file io.Reader) string {
	if r, ok := file.(*decryptingReader); ok {
		return r.key
	}
	return ""
}

// Names returns the names of all files but those of keys.
func (p *encryptedPlace) Names(ctx context.Context) ([]string, error) {
	names, err := p.Place.Names(ctx)
	return slices.DeleteFunc(names, isKeyFile), err
}

// Find returns files by the prefix of their names, except those of keys.
func (p *encryptedPlace) Find(ctx context.Context, prefix string) ([]File, error) {
	files, err := p.Place.Find(ctx, prefix)
	return slices.DeleteFunc(files, func(f File) bool { return isKeyFile(f.Name) }), err
}
