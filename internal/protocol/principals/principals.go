// Package principals knows who may do what: principals with their policies, of a file or of
// definitions that a database stores.
//
// It leaves who has signed a request to package auth, and what a request needs to the
// operations.
package principals

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/stator-db/stator/internal/language/policy"
)

// Identity is a principal with what applies to it.
type Identity struct {
	Principal *policy.Principal
	UserID    string            // aws:userid
	Tags      map[string]string // aws:PrincipalTag
	Policies  policy.Policies   // but for that of the resource
	Listed    bool              // the set has the principal
}

// Set has the identities of a file or of definitions. It does not change.
type Set struct {
	users map[string]*entry // by ARN
	roles map[string]*entry
	names map[string]string // ARNs by their names, which are unique in an account
	files []string
}

func newSet() *Set {
	return &Set{users: make(map[string]*entry), roles: make(map[string]*entry), names: make(map[string]string)}
}

// entry is a principal of a file.
type entry struct {
	ARN      string            `yaml:"arn"`
	Policies []string          `yaml:"policies"`
	Boundary string            `yaml:"boundary"`
	Tags     map[string]string `yaml:"tags"`
	Sessions []roleSession     `yaml:"sessions"`

	identity []*policy.Document
	boundary *policy.Document
	sessions map[string][]*policy.Document
}

// roleSession is a session of a role with policies of its own.
type roleSession struct {
	Name     string   `yaml:"name"`
	Policies []string `yaml:"policies"`
}

const (
	maxFile       = 4 << 20
	maxPrincipals = 100_000
)

// Read reads a file of principals, and the policies that it names by their paths, which are
// relative to the file.
func Read(path string) (*Set, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Principals []*entry `yaml:"principals"`
	}
	if err := yaml.NewDecoder(strings.NewReader(string(text)), yaml.Strict()).Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %s", path, reword(err))
	}
	if file.Principals == nil { // a file without principals has an empty list
		return nil, fmt.Errorf("%s: the file is empty: it must have a list of principals as its member principals", path)
	}
	if len(file.Principals) > maxPrincipals {
		return nil, fmt.Errorf("%s has %d principals; at most %d are possible", path, len(file.Principals), maxPrincipals)
	}
	s := newSet()
	s.files = []string{path}
	load := loader{folder: filepath.Dir(path), parsed: make(map[string]*policy.Document)}
	for i, e := range file.Principals {
		if e == nil {
			return nil, fmt.Errorf("%s: principal %d is empty", path, i+1)
		}
		err := s.check(e)
		if err == nil {
			err = load.documents(e)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: principal %d (%s): %w", path, i+1, e.ARN, err)
		}
		s.add(e)
	}
	s.files = append(s.files, load.files...)
	return s, nil
}

// reword returns an error of the YAML library with its position in one line.
func reword(err error) string {
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return err.Error()
	}
	at := syntax.GetToken().Position
	return fmt.Sprintf("%d:%d: %s", at.Line, at.Column, syntax.GetMessage())
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o022 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s has the mode %04o, so that other users can change what is allowed\n        run: chmod go-w %s", path, info.Mode().Perm(), path)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder, but must be a file", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1)) // pipes do not have a size
	if err == nil && len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return text, err
}

// loader reads each policy once.
type loader struct {
	folder string
	parsed map[string]*policy.Document
	files  []string
}

func (l *loader) read(kind policy.Kind, name string) (*policy.Document, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.folder, path)
	}
	key := fmt.Sprint(kind, path)
	if d, ok := l.parsed[key]; ok {
		return d, nil
	}
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	d, err := policy.Parse(kind, text)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	d.File = path
	l.parsed[key] = d
	if !slices.Contains(l.files, path) {
		l.files = append(l.files, path)
	}
	return d, nil
}

func (l *loader) readAll(kind policy.Kind, names []string) (all []*policy.Document, err error) {
	for _, name := range names {
		d, err := l.read(kind, name)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// documents reads the policies of a principal.
func (l *loader) documents(e *entry) (err error) {
	if e.identity, err = l.readAll(policy.Identity, e.Policies); err != nil {
		return err
	}
	if e.Boundary != "" {
		if e.boundary, err = l.read(policy.Boundary, e.Boundary); err != nil {
			return err
		}
	}
	e.sessions = make(map[string][]*policy.Document)
	for _, one := range e.Sessions {
		if err := checkSession(e, one.Name, len(one.Policies)); err != nil {
			return err
		}
		if e.sessions[one.Name], err = l.readAll(policy.Session, one.Policies); err != nil {
			return err
		}
	}
	return nil
}

func checkSession(e *entry, name string, policies int) error {
	if name == "" || policies == 0 || e.sessions[name] != nil {
		return fmt.Errorf("session %q: a session has a name of its own, and policies", name)
	}
	return nil
}

// check checks a principal but for its policies.
func (s *Set) check(e *entry) error {
	isRole := e.isRole()
	if isRole {
		// A role is known by the sessions that assume it.
		name := e.ARN[strings.LastIndexByte(e.ARN, '/')+1:]
		account := strings.TrimPrefix(strings.Split(e.ARN, ":role/")[0], "arn:aws:iam::")
		if _, err := policy.NewPrincipal("arn:aws:sts::"+account+":assumed-role/"+name+"/session", e.ARN); err != nil {
			return errors.New("this is not the ARN of a role, as in arn:aws:iam::000000000000:role/NAME")
		}
	} else if p, err := policy.NewPrincipal(e.ARN, ""); err != nil {
		return err
	} else if p.Kind == policy.AssumedRole {
		return errors.New("a session has the policies of its role: the principal is the role, as in arn:aws:iam::000000000000:role/NAME")
	}
	if arn, twice := s.names[e.name()]; twice {
		return fmt.Errorf("there is %s already; names must differ, also with other paths", arn)
	}
	for key := range e.Tags {
		for other := range e.Tags {
			if key != other && strings.EqualFold(key, other) {
				return fmt.Errorf("the tags %s and %s differ in case only", min(key, other), max(key, other))
			}
		}
	}
	if len(e.Sessions) > 0 && !isRole {
		return errors.New("only a role has sessions")
	}
	return nil
}

// add adds a principal that was checked.
func (s *Set) add(e *entry) {
	into := s.users
	if e.isRole() {
		into = s.roles
	}
	into[e.ARN] = e
	s.names[e.name()] = e.ARN
}

func (e *entry) isRole() bool { return strings.Contains(e.ARN, ":role/") }

// name is what differs between principals: the names of IAM are unique in an account, whatever
// their paths; policies may have them as variables.
func (e *entry) name() string {
	return fmt.Sprint(e.isRole(), accountOf(e.ARN), "/", strings.ToLower(nameOf(e.ARN)))
}

func accountOf(arn string) string { return strings.Split(arn, ":")[4] }

func nameOf(arn string) string { return arn[strings.LastIndexAny(arn, "/:")+1:] }

// Files returns the paths of all files that were read.
func (s *Set) Files() []string { return s.files }

// Identity returns the identity of a principal. One that the file does not have has no
// policies: then only its account's root user may do anything. Without a set, which is nil,
// the result is nil: everything is allowed.
func (s *Set) Identity(arn string) (*Identity, error) {
	if s == nil {
		return nil, nil
	}
	p, err := policy.NewPrincipal(arn, "")
	if err != nil {
		return nil, err
	}
	found := &Identity{Principal: p}
	var e *entry
	switch p.Kind {
	case policy.AssumedRole:
		e = s.role(p)
		session := arn[strings.LastIndexByte(arn, '/')+1:]
		found.UserID = p.Name + ":" + session
		if e != nil {
			found.Policies.Session = e.sessions[session]
		}
	case policy.User:
		e = s.users[arn]
		found.UserID = p.Name
	case policy.Root:
		e = s.users[arn]
		found.UserID = p.Account
	}
	if e != nil {
		found.Listed, found.Tags = true, e.Tags
		found.Policies.Identity, found.Policies.Boundary = e.identity, e.boundary
	}
	return found, nil
}

// Nobody returns the identity of a principal that has no policies and may do nothing.
func Nobody(arn string) *Identity { return &Identity{Principal: &policy.Principal{ARN: arn}} }

// role returns the role of a session. The ARN of a session does not have the path of its
// role.
func (s *Set) role(p *policy.Principal) *entry {
	if e := s.roles[p.RoleARN]; e != nil {
		return e
	}
	for arn, e := range s.roles {
		if accountOf(arn) == p.Account && nameOf(arn) == p.Name {
			p.RoleARN = arn
			return e
		}
	}
	return nil
}
