package access

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/protocol/principals"
)

// Administers reports whether an identity may change keys and principals. Without policies the
// identity is nil.
type Administers func(*principals.Identity) bool

// CreateKey makes an access key of a principal, which defaults to a user that is named after the key.
func (s *Store) CreateKey(ctx context.Context, principal, comment string, by Administers) (*keys.Key, error) {
	d, err := s.database(s.o.DatabaseKeys, "access keys", "--keys")
	if err != nil {
		return nil, err
	}
	if wrong := keys.CheckPrincipal(principal); principal != "" && wrong != "" {
		return nil, apierror.Validation("The principal %s", wrong)
	}
	if !isPrintable(comment) {
		return nil, apierror.Validation("The comment has characters that cannot be printed")
	}
	k := &keys.Key{Principal: principal, Comment: comment, Created: d.Now().UTC().Truncate(time.Second)}
	k.AccessKey, k.Secret = keys.Generate()
	if principal == "" {
		k.Principal = keys.DefaultPrincipal(k.AccessKey)
	}
	return k, s.change(ctx, d, by, func(stored *directory) error {
		stored.Keys = append(stored.Keys, k)
		return nil
	})
}

// DeleteKey removes an access key from the database.
func (s *Store) DeleteKey(ctx context.Context, accessKey string, by Administers) error {
	d, err := s.database(s.o.DatabaseKeys, "access keys", "--keys")
	if err != nil {
		return err
	}
	return s.change(ctx, d, by, func(stored *directory) error {
		i := slices.IndexFunc(stored.Keys, func(k *keys.Key) bool { return k.AccessKey == accessKey })
		switch {
		case i >= 0:
			stored.Keys = slices.Delete(stored.Keys, i, i+1)
			return nil
		case s.current().keys.Find([]byte(accessKey)) != nil:
			return apierror.Validation("The access key %s is in a file of the server, not in the database: remove it there, with stator key revoke --keys FILE, and send SIGHUP", accessKey)
		}
		return apierror.NotFound("The database has no access key %s", accessKey)
	})
}

// ListedKey is a key with where it is: file or database.
type ListedKey struct {
	*keys.Key
	Source string
}

// Keys returns the keys of this server: those of its file, and then those of the database.
func (s *Store) Keys() ([]ListedKey, error) {
	if _, err := s.database(s.o.DatabaseKeys, "access keys", "--keys"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []ListedKey
	for _, k := range s.files.keys.All() {
		list = append(list, ListedKey{k, sourceFile})
	}
	for _, k := range s.stored.Keys {
		list = append(list, ListedKey{k, sourceDatabase})
	}
	return list, nil
}

// NoPrincipal is the revision of a principal that the database does not have.
const NoPrincipal = "NO_POLICY"

// maxPrincipalBytes is the largest definition of a principal.
const maxPrincipalBytes = 256 << 10

// PutPrincipal stores a principal in place of the one with its ARN, if there is one, and returns the
// revision. It fails if expected, which may be nil, is not the revision of the stored one. An equal
// definition changes nothing.
func (s *Store) PutPrincipal(ctx context.Context, p principals.Definition, expected *string, by Administers) (revision string, err error) {
	d, err := s.database(s.o.DatabasePolicies, "policies", "--policies")
	if err != nil {
		return "", err
	}
	if err := checkDefinition(&p); err != nil {
		return "", err
	}
	err = s.change(ctx, d, by, func(stored *directory) error {
		i, found := stored.principal(p.ARN)
		if err := checkRevision(stored, p.ARN, expected); err != nil {
			return err
		}
		if other := s.current().who.Has(p.ARN); other != "" {
			return apierror.Validation("The file of policies of the server has %s, which takes precedence over the database: change it there", other)
		}
		if found && reflect.DeepEqual(stored.Principals[i].Definition, p) {
			revision = revisionText(stored.Principals[i].Revision)
			return errUnchanged
		}
		now := &storedPrincipal{Definition: p, Revision: stored.Revision + 1}
		revision = revisionText(now.Revision)
		if found {
			stored.Principals[i] = now
			return nil
		}
		stored.Principals = slices.Insert(stored.Principals, i, now)
		if _, err := principals.Define(stored.definitions()); err != nil { // another one has its name
			return apierror.Validation("The policies cannot be used: %v", err)
		}
		return nil
	})
	return revision, err
}

// checkDefinition returns why a definition cannot be used.
func checkDefinition(p *principals.Definition) error {
	size := 0
	add := func(list ...principals.NamedPolicy) {
		for _, one := range list {
			size += len(one.Name) + len(one.Document)
		}
	}
	add(p.Policies...)
	if p.Boundary != nil {
		add(*p.Boundary)
	}
	for _, one := range p.Sessions {
		add(one.Policies...)
	}
	if size > maxPrincipalBytes {
		return apierror.LimitExceeded("The policies of a principal can have at most %d bytes.", maxPrincipalBytes)
	}
	if err := checkNames(p); err != nil {
		return err
	}
	if _, err := principals.Define([]principals.Definition{*p}); err != nil {
		return apierror.Validation("The policies cannot be used: %v", err)
	}
	return nil
}

// checkNames checks that all names of a definition can be printed.
func checkNames(p *principals.Definition) error {
	names := []string{p.ARN}
	if p.Boundary != nil {
		names = append(names, p.Boundary.Name)
	}
	for _, one := range p.Policies {
		names = append(names, one.Name)
	}
	for _, s := range p.Sessions {
		names = append(names, s.Name)
		for _, one := range s.Policies {
			names = append(names, one.Name)
		}
	}
	for key, value := range p.Tags {
		names = append(names, key, value)
	}
	for _, name := range names {
		if !isPrintable(name) {
			return apierror.Validation("The name or tag %q has characters that cannot be printed", name)
		}
	}
	return nil
}

// isPrintable reports whether a text changes nothing on the terminal of an administrator but for
// showing it.
func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// DeletePrincipal removes a principal from the database. It fails if expected, which may be nil, is
// not its revision.
func (s *Store) DeletePrincipal(ctx context.Context, arn string, expected *string, by Administers) error {
	d, err := s.database(s.o.DatabasePolicies, "policies", "--policies")
	if err != nil {
		return err
	}
	return s.change(ctx, d, by, func(stored *directory) error {
		if err := checkRevision(stored, arn, expected); err != nil {
			return err
		}
		i, found := stored.principal(arn)
		if !found {
			return apierror.NotFound("The database has no principal %s", arn)
		}
		stored.Principals = slices.Delete(stored.Principals, i, i+1)
		return nil
	})
}

// Principal returns a principal of the database, and its revision.
func (s *Store) Principal(arn string) (p principals.Definition, revision string, err error) {
	if _, err := s.database(s.o.DatabasePolicies, "policies", "--policies"); err != nil {
		return p, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.stored.principal(arn)
	switch {
	case found:
		return s.stored.Principals[i].Definition, revisionText(s.stored.Principals[i].Revision), nil
	case s.files.who.Has(arn) == arn:
		return p, "", apierror.NotFound("The principal %s is in a file of the server, not in the database", arn)
	}
	return p, "", apierror.NotFound("The database has no principal %s", arn)
}

// ListedPrincipal is a principal with where it is: file or database, and there its revision.
type ListedPrincipal struct {
	principals.Listing
	Source   string
	Revision string
}

// Principals returns the principals of this server: those of its file, and then those of the database.
func (s *Store) Principals() ([]ListedPrincipal, error) {
	if _, err := s.database(s.o.DatabasePolicies, "policies", "--policies"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []ListedPrincipal
	for _, l := range s.files.who.List() {
		list = append(list, ListedPrincipal{Listing: l, Source: sourceFile})
	}
	for _, p := range s.stored.Principals {
		list = append(list, ListedPrincipal{Listing: p.List(), Source: sourceDatabase, Revision: revisionText(p.Revision)})
	}
	return list, nil
}

// checkRevision checks that a principal has the revision that a caller expects.
func checkRevision(stored *directory, arn string, expected *string) error {
	if expected == nil {
		return nil
	}
	now := NoPrincipal
	if i, found := stored.principal(arn); found {
		now = revisionText(stored.Principals[i].Revision)
	}
	if now != *expected {
		return apierror.RevisionMismatch("The principal %s has the revision %s, not %s: another request has changed it", arn, now, *expected)
	}
	return nil
}

func revisionText(n int64) string { return strconv.FormatInt(n, 10) }

// current returns what was last read from the files.
func (s *Store) current() fileAccess {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files
}

// database returns the database, or the error of a server that does not use it for what is named.
func (s *Store) database(used bool, what, flag string) (*db.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !used || s.db == nil {
		return nil, apierror.Validation("The %s of this server are not in the database: start it with %s database", what, flag)
	}
	return s.db, nil
}

// errUnchanged is returned by an edit that changes nothing.
var errUnchanged = errors.New("nothing is changed")

// change changes what is stored. When it returns, all servers use what is stored. edit may be called
// more than once.
func (s *Store) change(ctx context.Context, d *db.DB, by Administers, edit func(*directory) error) error {
	var refused error // by edit, or because of what it would do
	err := d.ChangeAccessRecord(ctx, func(before []byte) (after []byte, err error) {
		defer func() { refused = err }()
		stored, err := decodeDirectory(before)
		if err != nil {
			return nil, err
		}
		administered := s.administered(stored, by)
		if err := edit(stored); err != nil {
			return nil, err
		}
		if administered && !s.administered(stored, by) {
			return nil, apierror.Validation("After this change no access key of this server could change keys and policies any more: allow another principal to do that first, or use a key of a file")
		}
		stored.Revision++
		return encodeDirectory(stored)
	})
	if err != nil && !errors.Is(err, refused) {
		return err
	}
	// Also without a change: an equal request may have been stored, but not broadcast, and finds nothing
	// to change when it is repeated. The client may have disconnected, and must not leave servers with
	// different keys.
	if err := d.Broadcast(context.WithoutCancel(ctx), topic, "changed"); err != nil {
		return err
	}
	if errors.Is(refused, errUnchanged) {
		return nil
	}
	return refused
}

// administered reports whether the owner of a key that does not expire may change keys and principals.
func (s *Store) administered(stored *directory, by Administers) bool {
	s.mu.Lock()
	all, who := s.unite(stored)
	s.mu.Unlock()
	seen := make(map[string]bool)
	for _, k := range all.All() {
		if k.Temporary() || seen[k.Principal] {
			continue
		}
		seen[k.Principal] = true
		if identity, err := who.Identity(k.Principal); err == nil && by(identity) {
			return true
		}
	}
	return false
}
