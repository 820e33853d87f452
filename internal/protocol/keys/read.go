package keys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/stator-db/stator/internal/process"
)

// Read reads a file of keys. Its errors have the line and what is wrong, and no secret.
func Read(path string) (*Set, error) {
	text, err := readPrivate(path)
	if err != nil {
		return nil, err
	}
	f, err := parse(path, text)
	if err != nil {
		return nil, err
	}
	if f.member == nil || f.member.Value.Type() == ast.NullType { // a file without keys has an empty list
		return nil, fmt.Errorf("%s: the file is empty: it must have a list of keys as its member keys; one without keys has keys: []", path)
	}
	return f.set()
}

// readPrivate reads a file that only its owner may read.
func readPrivate(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkMode(path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1)) // pipes do not have a size
	if err == nil && len(text) > maxFile {
		return nil, fmt.Errorf("%s: the file is larger than %d bytes", path, maxFile)
	}
	return text, err
}

// maxFile is the size of more keys than one server needs.
const maxFile = 4 << 20

// checkMode rejects a file that others may read or write.
func checkMode(path string, info fs.FileInfo) error {
	if info.IsDir() {
		return fmt.Errorf("%s is a folder, but must be a file of keys", path)
	}
	if process.Exposed(info) {
		return fmt.Errorf("%s has the mode %04o, so that other users can read or change its secrets\n        run: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	return nil
}

// keyFile is a file of keys that was parsed.
type keyFile struct {
	path    string
	lines   []string
	member  *ast.MappingValueNode // keys; nil without one
	entries []keyEntry
}

// keyEntry is one key of a file.
type keyEntry struct {
	Key
	secretFile *ast.StringNode // nil if the secret is in the entry
	at         *token.Token    // the access key
	first      int             // lines of the entry, from 1
	last       int
	indent     int // of its dash
}

// parse parses the text of a file of keys. It does not read secret files.
func parse(path string, text []byte) (*keyFile, error) {
	f := &keyFile{path: path, lines: strings.SplitAfter(string(text), "\n")}
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, f.reword(err)
	}
	if len(parsed.Docs) > 1 {
		return nil, f.fault(parsed.Docs[1].Start, "a second document is not allowed")
	}
	if len(parsed.Docs) == 0 {
		return f, nil
	}
	body := parsed.Docs[0].Body
	switch body.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return f, nil
	}
	members, ok := membersOf(body)
	if !ok {
		return nil, f.fault(body.GetToken(), "the file must have a list of keys as its member keys")
	}
	for _, m := range members {
		if name := m.Key.GetToken().Value; name != "keys" {
			return nil, f.fault(m.Key.GetToken(), member(name)+" is not a member of a file of keys; the only one is keys")
		}
		f.member = m
		if err := f.readEntries(m.Value); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *keyFile) readEntries(node ast.Node) error {
	if node.Type() == ast.NullType {
		return nil
	}
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return f.fault(node.GetToken(), "keys must be a list")
	}
	seen := make(map[string]int)
	for _, value := range list.Values {
		e, err := f.readEntry(value)
		if err != nil {
			return err
		}
		if line := seen[e.AccessKey]; line > 0 {
			return f.fault(e.at, fmt.Sprintf("the access key %s is in line %d already", e.AccessKey, line))
		}
		seen[e.AccessKey] = e.at.Position.Line
		f.entries = append(f.entries, *e)
	}
	return nil
}

// keyMembers are the members of an entry.
var keyMembers = []string{"access_key", "secret", "secret_file", "session_token", "expires", "principal", "created", "comment"}

func (f *keyFile) readEntry(node ast.Node) (*keyEntry, error) {
	members, ok := membersOf(node)
	if !ok {
		return nil, f.fault(node.GetToken(), "an entry of keys must have members: access_key, and secret or secret_file")
	}
	e := &keyEntry{first: members[0].Key.GetToken().Position.Line}
	has := make(map[string]*token.Token)
	for _, m := range members {
		name, at := m.Key.GetToken().Value, m.Key.GetToken()
		if !slices.Contains(keyMembers, name) {
			return nil, f.fault(at, member(name)+" is not a member of a key; the members are "+strings.Join(keyMembers, ", "))
		}
		text, ok := textOf(m.Value)
		if !ok {
			return nil, f.fault(at, name+" must have a value that is text, in one line")
		}
		has[name] = at
		if wrong := e.set(name, text, m.Value); wrong != "" {
			return nil, f.fault(m.Value.GetToken(), name+" "+wrong)
		}
		e.last = max(e.last, m.Value.GetToken().Position.Line)
	}
	e.at = members[0].Key.GetToken()
	if at := has["access_key"]; at != nil {
		e.at = at
	}
	for dash := members[0].Key.GetToken(); dash != nil; dash = dash.Prev {
		if dash.Type == token.SequenceEntryType {
			e.first, e.indent = dash.Position.Line, dash.Position.Column-1
			break
		}
	}
	if wrong := incomplete(has); wrong != "" {
		return nil, f.fault(e.at, wrong)
	}
	if e.Principal == "" {
		e.Principal = DefaultPrincipal(e.AccessKey)
	}
	return e, nil
}

// incomplete returns what is wrong with the members that an entry has.
func incomplete(has map[string]*token.Token) string {
	switch {
	case has["access_key"] == nil:
		return "a key has no access_key"
	case has["secret"] == nil && has["secret_file"] == nil:
		return "a key has neither a secret nor a secret_file"
	case has["secret"] != nil && has["secret_file"] != nil:
		return "a key has both a secret and a secret_file"
	case has["session_token"] != nil && has["expires"] == nil:
		return "a key with a session_token is temporary and must have expires"
	case has["session_token"] == nil && has["expires"] != nil:
		return "a key with expires is temporary and must have a session_token"
	}
	return ""
}

// set sets a member, and returns what is wrong with its value.
func (e *keyEntry) set(name, text string, node ast.Node) (wrong string) {
	if text == "" && name != "comment" {
		return "is empty"
	}
	var err error
	switch name {
	case "access_key":
		e.AccessKey, wrong = text, checkAccessKey(text)
	case "secret":
		e.Secret = NewSecret(text)
		if len(text) > maxSecret {
			wrong = "is too long"
		}
	case "secret_file":
		path, ok := node.(*ast.StringNode)
		if !ok {
			return "must be the path of a file"
		}
		e.secretFile = path
	case "session_token":
		e.Token = NewSecret(text)
	case "expires":
		e.Expires, err = time.Parse(time.RFC3339, text)
	case "principal":
		e.Principal, wrong = text, CheckPrincipal(text)
	case "created":
		e.Created, err = time.Parse(time.RFC3339, text)
	case "comment":
		e.Comment = text
	}
	if err != nil {
		return "must be a time such as 2027-01-31T12:00:00Z"
	}
	return wrong
}

// set returns the keys, with the secrets of their files.
func (f *keyFile) set() (*Set, error) {
	list := make([]*Key, 0, len(f.entries))
	for i := range f.entries {
		e := &f.entries[i]
		if e.secretFile != nil {
			secret, err := readSecret(f.path, e.secretFile.Value)
			if err != nil {
				return nil, f.fault(e.secretFile.GetToken(), "secret_file cannot be used: "+withoutPath(err))
			}
			e.Secret = secret
		}
		list = append(list, &e.Key)
	}
	return NewSet(list...), nil
}

// readSecret reads the file of a secret, whose path is relative to that of the file of keys.
func readSecret(keysPath, path string) (Secret, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(keysPath), path)
	}
	text, err := readPrivate(path)
	if err != nil {
		return Secret{}, err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" || strings.ContainsAny(secret, "\r\n") || len(secret) > maxSecret {
		return Secret{}, fmt.Errorf("%s must have the secret in one line, and nothing else", path)
	}
	return NewSecret(secret), nil
}

// membersOf returns the members of a mapping, which has at least one.
func membersOf(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, len(n.Values) > 0
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// textOf returns the text of a scalar in one line.
func textOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, !strings.ContainsAny(n.Value, "\r\n")
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// fault returns an error with its position in the file.
func (f *keyFile) fault(at *token.Token, message string) error {
	if at == nil || at.Position == nil {
		return fmt.Errorf("%s: %s", f.path, message)
	}
	return fmt.Errorf("%s:%d:%d: %s", f.path, at.Position.Line, at.Position.Column, message)
}

// memberName matches what may be a misspelled member, and is no secret.
var memberName = regexp.MustCompile(`^[a-z_]{1,16}$`)

// member returns a name of a member for a message, which may be a secret in the wrong place.
func member(name string) string {
	if memberName.MatchString(name) {
		return strconv.Quote(name)
	}
	return "this"
}

// withoutPath returns the message of an error. If it is of opening a file it has no path, which may be
// the secret itself.
func withoutPath(err error) string {
	var opening *fs.PathError
	if errors.As(err, &opening) {
		return opening.Err.Error()
	}
	return err.Error()
}

// longWord matches parts of a message that may be a secret.
var longWord = regexp.MustCompile(`\S{16,}`)

// reword turns an error of the YAML library into one without parts of the file.
func (f *keyFile) reword(err error) error {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return fmt.Errorf("%s is not YAML", f.path)
	}
	return f.fault(syntax.GetToken(), longWord.ReplaceAllString(syntax.GetMessage(), "…"))
}
