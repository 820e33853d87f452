package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/store"
)

// encryptedPlace is a place whose files are encrypted. Each data key is in a file of its own, which
// a master key encrypts: servers that share the place never replace the keys of others, and a new
// master key replaces these files only.
//
// Files that are not encrypted can be read, too: they are from before there was a key.
type encryptedPlace struct {
	Place
	master *encryption.MasterKey // nil if files are written as they are, and encrypted ones cannot be read

	mu     sync.Mutex
	keys   map[string]*encryption.DataKey
	active *encryption.DataKey // nil until a file is written
}

// keyRecord is the content of the file of a data key.
type keyRecord struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Master  string    `json:"master"` // id of the master key
	Created time.Time `json:"created"`
	Wrapped []byte    `json:"wrapped"`
}

const (
	keyFormat    = 1
	keyPrefix    = "stator-"
	keySuffix    = ".key"
	maxKeyRecord = 4 << 10
)

// Encrypted returns a place whose files are encrypted if there is a master key. It returns a
// *encryption.WrongKeyError if the place has keys, and none of that master key.
func Encrypted(ctx context.Context, place Place, master *encryption.MasterKey) (Place, error) {
	p := &encryptedPlace{Place: place, master: master, keys: make(map[string]*encryption.DataKey)}
	if master == nil {
		return p, nil
	}
	records, err := readKeys(ctx, place)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if r.Master != master.ID() {
			continue
		}
		if p.active, err = p.unwrap(r); err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
	}
	if p.active == nil && len(records) > 0 {
		return nil, fmt.Errorf("the backups in %s: %w; give that key to stator encryption rotate --backups, or use another place for --backups",
			place, &encryption.WrongKeyError{Used: records[0].Master, Given: master.ID()})
	}
	return p, nil
}

// readKeys reads the keys of a place.
func readKeys(ctx context.Context, place Place) (records []keyRecord, err error) {
	names, err := place.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("list files in %s: %w", place, err)
	}
	for _, name := range names {
		if !isKeyFile(name) {
			continue
		}
		r, err := readKey(ctx, place, name)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b keyRecord) int { return a.Created.Compare(b.Created) })
	return records, nil
}

func isKeyFile(name string) bool {
	return strings.HasPrefix(name, keyPrefix) && strings.HasSuffix(name, keySuffix)
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
	if json.Unmarshal(text, &r) != nil || name != keyFile(r.ID) {
		return r, fmt.Errorf("the key file %s in %s is damaged: %w", name, place, store.ErrCorrupt)
	}
	if r.Format != keyFormat {
		return r, fmt.Errorf("the key file %s in %s has format %d, and this version of stator knows format %d", name, place, r.Format, keyFormat)
	}
	return r, nil
}

func writeKey(ctx context.Context, place Place, master *encryption.MasterKey, d *encryption.DataKey, created time.Time) error {
	b, err := json.Marshal(keyRecord{keyFormat, d.ID(), master.ID(), created, master.Wrap(d)})
	if err != nil {
		panic(fmt.Sprintf("a key cannot be encoded: %v", err))
	}
	w, err := place.Create(ctx, keyFile(d.ID()))
	if err != nil {
		return err
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		w.Cancel()
		return err
	}
	return w.Commit()
}

// unwrap decrypts a data key. The caller holds the mutex, or is the only one.
func (p *encryptedPlace) unwrap(r keyRecord) (*encryption.DataKey, error) {
	if r.Master != p.master.ID() {
		return nil, &encryption.WrongKeyError{Used: r.Master, Given: p.master.ID()}
	}
	d, err := p.master.Unwrap(r.ID, r.Wrapped)
	if err != nil {
		return nil, fmt.Errorf("the key file %s: %w: %w", keyFile(r.ID), err, store.ErrCorrupt)
	}
	p.keys[d.ID()] = d
	return d, nil
}

// key returns a data key.
func (p *encryptedPlace) key(ctx context.Context, id string) (*encryption.DataKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d, ok := p.keys[id]; ok {
		return d, nil
	}
	r, err := readKey(ctx, p.Place, keyFile(id))
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("its key file %s is missing: %w", keyFile(id), store.ErrCorrupt)
	}
	if err != nil {
		return nil, err
	}
	return p.unwrap(r)
}

// activeKey returns the key of new files, and creates it if there is none.
func (p *encryptedPlace) activeKey(ctx context.Context) (*encryption.DataKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active == nil {
		d := encryption.NewDataKey()
		if err := writeKey(ctx, p.Place, p.master, d, time.Now().UTC()); err != nil {
			return nil, err
		}
		p.active, p.keys[d.ID()] = d, d
	}
	return p.active, nil
}

// Create begins a file.
func (p *encryptedPlace) Create(ctx context.Context, name string) (Writer, error) {
	if p.master == nil {
		return p.Place.Create(ctx, name)
	}
	d, err := p.activeKey(ctx)
	if err != nil {
		return nil, err
	}
	w, err := p.Place.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	return &encryptingWriter{w, encryption.NewStreamWriter(w, d)}, nil
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
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (p *encryptedPlace) reader(ctx context.Context, f io.ReadCloser, name string) (io.ReadCloser, error) {
	header := make([]byte, encryption.HeaderBytes)
	n, err := io.ReadFull(f, header)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if !encryption.HasMagic(header[:n]) {
		return unreadFile{io.MultiReader(strings.NewReader(string(header[:n])), f), f}, nil
	}
	if p.master == nil {
		return nil, fmt.Errorf("%s: %w", name, &encryption.NeedsKeyError{})
	}
	h, err := encryption.ReadHeader(header[:n])
	if err != nil {
		return nil, damagedFile(name, err)
	}
	d, err := p.key(ctx, h.KeyID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	stream, err := encryption.NewStreamReader(f, header, d)
	if err != nil {
		return nil, damagedFile(name, err)
	}
	return &decryptingReader{f, stream, name}, nil
}

func damagedFile(name string, err error) error {
	return fmt.Errorf("%s: %w: %w", name, err, store.ErrCorrupt)
}

type unreadFile struct {
	io.Reader
	io.Closer
}

type decryptingReader struct {
	io.Closer
	stream *encryption.StreamReader
	name   string
}

func (r *decryptingReader) Read(b []byte) (int, error) {
	n, err := r.stream.Read(b)
	if errors.Is(err, encryption.ErrDamaged) {
		err = damagedFile(r.name, err)
	}
	return n, err
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

// RotateKeys encrypts the data keys at a place with a new master key, if they are encrypted with
// the old one, and returns how many there were. It creates a new data key for new files. If it is
// interrupted, it can be called again.
func RotateKeys(ctx context.Context, place Place, before, after *encryption.MasterKey) (rotated int, err error) {
	records, err := readKeys(ctx, place)
	if err != nil {
		return 0, err
	}
	known := 0
	for _, r := range records {
		if r.Master == after.ID() {
			known++
		}
		if r.Master != before.ID() {
			continue
		}
		d, err := before.Unwrap(r.ID, r.Wrapped)
		if err != nil {
			return rotated, fmt.Errorf("the key file %s: %w: %w", keyFile(r.ID), err, store.ErrCorrupt)
		}
		if err := writeKey(ctx, place, after, d, r.Created); err != nil {
			return rotated, err
		}
		rotated++
	}
	switch {
	case rotated > 0:
	case len(records) == 0:
		return 0, fmt.Errorf("%s has no encrypted backups", place)
	case known == 0:
		return 0, &encryption.WrongKeyError{Used: records[0].Master, Given: before.ID()}
	default:
		return 0, nil // they are rotated already
	}
	return rotated, writeKey(ctx, place, after, encryption.NewDataKey(), time.Now().UTC())
}
