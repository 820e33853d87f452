// Package access has the access keys and the principals of a server: those of its files, united
// with those that are stored in the database.
//
// A change in the database is used by all servers that share it when it returns. Who may make one
// is left to package ops, and what a signature proves to package auth.
package access

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/protocol/principals"
)

// Options say where access keys and principals are. Without any keys, signatures are not verified;
// without any policies, each key may do everything.
type Options struct {
	Keys     string // a file of access keys; may be empty
	Policies string // a file of principals; may be empty

	DatabaseKeys     bool // access keys are in the database, too
	DatabasePolicies bool // principals are in the database, too

	Log *slog.Logger // defaults to one that discards everything
}

// Store has the keys and principals.
type Store struct {
	o        Options
	verifier *auth.Verifier // nil without keys

	reading sync.Mutex // is held while the files are read, so that older ones never replace newer ones
	loading sync.Mutex // is held while the database is read, so that an older record never replaces a newer one

	mu     sync.Mutex // is held while keys and principals are replaced
	files  fileAccess
	stored *directory // of the database; nil before Attach
	db     *db.DB     // nil before Attach
}

// fileAccess is what was last read from the files. It does not change.
type fileAccess struct {
	keys *keys.Set
	who  *principals.Set
}

// Open reads the files. The keys and principals of the database are added by Attach.
func Open(o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{o: o}
	if !s.HasKeys() {
		if s.HasPolicies() {
			return nil, errors.New("policies require access keys: without verified signatures nobody is known")
		}
		return s, nil
	}
	files, err := s.readFiles()
	if err != nil {
		return nil, err
	}
	s.files = files
	s.verifier = auth.NewVerifier(files.keys, time.Now, o.Log)
	s.install()
	return s, nil
}

// HasKeys reports whether requests must be signed with a key.
func (s *Store) HasKeys() bool { return s.o.Keys != "" || s.o.DatabaseKeys }

// HasPolicies reports whether principals may do only what their policies allow.
func (s *Store) HasPolicies() bool { return s.o.Policies != "" || s.o.DatabasePolicies }

// HasFile reports whether there are keys in a file.
func (s *Store) HasFile() bool { return s.o.Keys != "" }

// Verifier verifies signatures with the keys; nil without keys.
func (s *Store) Verifier() *auth.Verifier { return s.verifier }

// Follow makes keys expire by another clock than the system's; requests are dated by it too if dates is
// set. It is called before the keys are used.
func (s *Store) Follow(now func() time.Time, dates bool) {
	if s.verifier != nil {
		s.verifier.Follow(now, dates)
	}
}

// readFiles reads the files.
func (s *Store) readFiles() (f fileAccess, err error) {
	f.keys = keys.NewSet()
	if f.who, err = principals.Define(nil); err != nil {
		return f, err
	}
	if s.o.Keys != "" {
		if f.keys, err = keys.Read(s.o.Keys); err != nil {
			return f, err
		}
	}
	if s.o.Policies != "" {
		f.who, err = principals.Read(s.o.Policies)
	}
	return f, err
}

// Counts say what is in use.
type Counts struct {
	Keys       int // access keys
	Principals int // principals with policies
	Files      int // files of principals and policies
}

// Reload reads the files again. It replaces all that they have or, after an error, nothing: a new key
// is never used with the policies of before. Requests in flight are not disturbed.
func (s *Store) Reload() (Counts, error) {
	if s.verifier == nil {
		return Counts{}, nil
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	files, err := s.readFiles() // without mu: a file that is slow to read must not delay changes in the database
	if err != nil {
		return Counts{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = files
	c := s.install()
	s.warnShadowed()
	return c, nil
}

// topic is that of the message that the stored record was changed.
const topic = "access"

// Attach adds the keys and principals that a database stores, and follows their changes.
func (s *Store) Attach(ctx context.Context, d *db.DB) error {
	if !s.o.DatabaseKeys && !s.o.DatabasePolicies {
		return nil
	}
	s.mu.Lock()
	s.db = d
	s.mu.Unlock()
	follow := func(ctx context.Context, _ string) error {
		err := s.load(ctx)
		if errors.Is(err, errUnreadable) { // to try again does not help, and would hold up other changes
			s.o.Log.Error("the keys and policies of the database are not used any more", "error", err)
			return nil
		}
		return err
	}
	d.Subscribe(topic, follow) // before reading, to miss no change
	// Another server may have died after a change and before its broadcast.
	d.EveryMinute(func(time.Time) {
		ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
		defer cancel()
		err := d.AwaitLease(ctx) // not in load: a server gets its lease back once its handlers have read, for which they need s.loading
		if err == nil {
			err = follow(ctx, "")
		}
		if err != nil {
			s.o.Log.Warn("the keys and policies of the database could not be read again: retrying in a minute", "error", err)
		}
	})
	if err := s.load(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnShadowed()
	if s.o.DatabaseKeys && len(s.verifier.Keys().All()) == 0 {
		s.o.Log.Error("there is no access key, neither in a file nor in the database, so that all requests are rejected: start the server with a file of keys, too, and make one; see docs/access.md")
	}
	return nil
}

// loadTimeout is how long the reading takes at most that happens every minute.
const loadTimeout = 10 * time.Second

// load reads what is stored and uses it. If it cannot be decoded, only the files count.
func (s *Store) load(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.mu.Lock()
	d := s.db
	s.mu.Unlock()
	value, err := d.AccessRecord(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, err := decodeDirectory(value)
	if err != nil {
		s.stored = new(directory)
		s.install()
		return err
	}
	if s.stored != nil && s.stored.Revision == stored.Revision { // nothing is derived again from what is known
		return nil
	}
	s.stored = stored
	c := s.install()
	s.o.Log.Info("access keys and policies of the database are in use", "revision", stored.Revision, "keys", c.Keys, "principals", c.Principals)
	return nil
}

// install makes requests use the current files and record. The caller holds mu, but for Open.
func (s *Store) install() Counts {
	all, who := s.unite(s.stored)
	c := Counts{Keys: len(all.All())}
	if who != nil {
		c.Principals, c.Files = who.Len(), len(who.Files())
	}
	s.verifier.Replace(all, who)
	return c
}

// unite returns the keys and principals of the files with those of a record, which may be nil. The
// principals are nil without policies.
func (s *Store) unite(stored *directory) (*keys.Set, *principals.Set) {
	all, who := s.files.keys, s.files.who
	if stored != nil && s.o.DatabaseKeys {
		all, _ = keys.Unite(all, keys.NewSet(stored.Keys...))
	}
	if !s.HasPolicies() {
		return all, nil
	}
	if stored != nil && s.o.DatabasePolicies {
		defined, faults := principals.DefineStored(stored.definitions())
		for _, err := range faults {
			s.o.Log.Error("a policy in the database cannot be used, and its principal may do nothing: a later version has stored it", "error", err)
		}
		who, _ = principals.Unite(who, defined)
	}
	return all, who
}

// warnShadowed logs what of the database has no effect because the files have it, too. The caller
// holds mu.
func (s *Store) warnShadowed() {
	if s.stored == nil {
		return
	}
	if s.o.DatabaseKeys {
		for _, k := range s.stored.Keys {
			if s.files.keys.Find([]byte(k.AccessKey)) != nil {
				s.o.Log.Warn("the file of access keys takes precedence over the database", "accessKey", k.AccessKey)
			}
		}
	}
	if s.o.DatabasePolicies {
		for _, p := range s.stored.Principals {
			if s.files.who.Has(p.ARN) != "" {
				s.o.Log.Warn("the file of policies takes precedence over the database", "principal", p.ARN)
			}
		}
	}
}

// The sources of keys and principals.
const (
	sourceFile     = "file"
	sourceDatabase = "database"
)
