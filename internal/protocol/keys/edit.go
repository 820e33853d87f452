package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNoKey is returned when a file does not have the access key that is to be removed.
var ErrNoKey = errors.New("the file has no such access key")

const newFile = "# Access keys of stator serve --keys. A running server reads the file again on SIGHUP.\nkeys:\n"

// Add adds a key to a file, which it creates if there is none. All other lines stay.
func Add(path string, k *Key) error {
	if k.Principal == "" {
		named := *k
		named.Principal = DefaultPrincipal(k.AccessKey)
		k = &named
	}
	return edit(path, true, func(f *keyFile) ([]string, error) {
		indent, after := 2, 0
		switch {
		case len(f.entries) > 0:
			last := f.entries[len(f.entries)-1]
			indent, after = last.indent, last.last
		case f.member != nil:
			after = f.member.Key.GetToken().Position.Line
			f.lines[after-1] = strings.Replace(f.lines[after-1], "keys: []", "keys:", 1)
		default:
			after = len(f.lines)
			f.lines[after-1] = endLine(f.lines[after-1]) + "keys:\n"
		}
		f.lines[after-1] = endLine(f.lines[after-1])
		return slices.Insert(f.lines, after, entryText(k, indent)), nil
	}, func(before []*Key) []*Key { return append(before, k) })
}

// Remove removes a key from a file. All other lines stay.
func Remove(path, accessKey string) error {
	is := func(k *Key) bool { return k.AccessKey == accessKey }
	return edit(path, false, func(f *keyFile) ([]string, error) {
		i := slices.IndexFunc(f.entries, func(e keyEntry) bool { return is(&e.Key) })
		if i < 0 {
			return nil, ErrNoKey
		}
		if len(f.entries) == 1 { // a list without keys is written on purpose
			at := f.member.Key.GetToken().Position.Line - 1
			f.lines[at] = strings.Replace(f.lines[at], "keys:", "keys: []", 1)
		}
		return slices.Delete(f.lines, f.entries[i].first-1, f.entries[i].last), nil
	}, func(before []*Key) []*Key { return slices.DeleteFunc(before, is) })
}

func endLine(line string) string {
	if line == "" || strings.HasSuffix(line, "\n") {
		return line
	}
	return line + "\n"
}

// entryText is a key as lines of a file.
func entryText(k *Key, indent int) string {
	var b strings.Builder
	start := strings.Repeat(" ", indent) + "- "
	add := func(name, value string) {
		if value != "" {
			b.WriteString(start + name + ": " + strconv.Quote(value) + "\n")
			start = strings.Repeat(" ", indent+2)
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	add("access_key", k.AccessKey)
	add("secret", k.Secret.Reveal())
	add("session_token", k.Token.Reveal())
	add("expires", at(k.Expires))
	add("principal", k.Principal)
	add("created", at(k.Created))
	add("comment", k.Comment)
	return b.String()
}

// edit changes the lines of a file: all or nothing, also in a crash. It fails if the changed
// file does not have the expected keys.
func edit(path string, create bool, change func(*keyFile) ([]string, error), expected func([]*Key) []*Key) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link stays a link
	}
	written := path + ".new" // it is also a lock
	out, err := os.OpenFile(written, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: another program is changing the keys, or has crashed meanwhile\n        remove it if there is none", written)
	}
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		_ = out.Close()
		if !renamed {
			_ = os.Remove(written)
		}
	}()
	text, err := readPrivate(path)
	if create && errors.Is(err, fs.ErrNotExist) {
		text, err = []byte(newFile), nil
	}
	if err != nil {
		return err
	}
	changed, err := changeText(path, text, change, expected)
	if err != nil {
		return err
	}
	if _, err := out.WriteString(changed); err != nil {
		return err
	}
	if err := keepOwner(path, out); err != nil {
		return err
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(written, path); err != nil {
		return err
	}
	renamed = true
	return syncFolder(filepath.Dir(path))
}

func changeText(path string, text []byte, change func(*keyFile) ([]string, error), expected func([]*Key) []*Key) (string, error) {
	f, err := parse(path, text)
	if err != nil {
		return "", err
	}
	want := expected(f.keysOnly())
	lines, err := change(f)
	if err != nil {
		return "", err
	}
	changed := strings.Join(lines, "")
	after, err := parse(path, []byte(changed))
	if err != nil || !slices.EqualFunc(after.keysOnly(), want, sameKey) {
		return "", fmt.Errorf("%s is written in a form that cannot be changed without losing a part of it\n        change it in an editor, with one member per line", path)
	}
	return changed, nil
}

// keysOnly returns copies of the keys, without secrets of other files.
func (f *keyFile) keysOnly() (list []*Key) {
	for _, e := range f.entries {
		list = append(list, &e.Key)
	}
	return list
}

func sameKey(a, b *Key) bool {
	return a.AccessKey == b.AccessKey && a.Secret.Reveal() == b.Secret.Reveal() && a.Token.Reveal() == b.Token.Reveal() &&
		a.Expires.Equal(b.Expires) && a.Principal == b.Principal && a.Created.Equal(b.Created) && a.Comment == b.Comment
}

// syncFolder makes the names in a folder durable, where the system can.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	_ = folder.Sync() // some file systems do not support it
	return nil
}
