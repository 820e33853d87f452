package keys

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// planted is a secret that must not be printed.
const planted = "PLANTED+secret/0123456789abcdefghijklmno"

func TestSecretIsNotPrinted(t *testing.T) {
	k := &Key{AccessKey: "AKID", Secret: NewSecret(planted), Token: NewSecret(planted)}
	inner := struct{ k Key }{*k}
	var text strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, value := range []any{k, *k, inner, &inner, k.Secret, []Secret{k.Secret}, map[string]Secret{"a": k.Secret}} {
			fmt.Fprintf(&text, verb+"\n", value)
		}
	}
	for _, value := range []any{k, k.Secret, map[string]any{"k": k}} {
		asJSON, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		asYAML, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(asJSON)
		text.Write(asYAML)
	}
	slog.New(slog.NewTextHandler(&text, nil)).Info("a line", "key", k, "secret", k.Secret, "inner", inner)
	slog.New(slog.NewJSONHandler(&text, nil)).Info("a line", "key", k, "secret", k.Secret, "inner", inner)
	for _, part := range []string{planted, fmt.Sprintf("%x", planted), fmt.Sprintf("%X", planted)} {
		if strings.Contains(text.String(), part) {
			t.Errorf("the secret is printed:\n%s", &text)
		}
	}
	if k.Secret.Reveal() != planted {
		t.Error("Reveal does not return the secret")
	}
}

const twoKeys = `# Keys of the shop.
keys:
  # the application
  - access_key: AKIDEXAMPLE
    secret: wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY
    principal: arn:aws:iam::000000000000:user/shop
    created: 2026-01-02T03:04:05Z
    comment: "the shop: all of it"
  - access_key: ASIATEMP # temporary
    secret: other
    session_token: token
    expires: 2026-06-01T00:00:00Z
    principal: arn:aws:sts::000000000000:assumed-role/reader/tim
`

func writeKeys(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	path := writeKeys(t, twoKeys+"  - {access_key: local, secret_file: local.secret}\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "local.secret"), []byte("from a file\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	s, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.All()); n != 3 {
		t.Fatalf("there are %d keys", n)
	}
	shop := s.Find([]byte("AKIDEXAMPLE"))
	if shop == nil || shop.Secret.Reveal() != "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" || shop.Principal != "arn:aws:iam::000000000000:user/shop" ||
		!shop.Created.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) || shop.Comment != "the shop: all of it" || shop.Temporary() {
		t.Errorf("the first key is %+v", shop)
	}
	temporary := s.Find([]byte("ASIATEMP"))
	if temporary == nil || !temporary.Temporary() || temporary.Token.Reveal() != "token" || !temporary.Expires.Equal(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the second key is %+v", temporary)
	}
	local := s.Find([]byte("local"))
	if local == nil || local.Secret.Reveal() != "from a file" || local.Principal != "arn:aws:iam::000000000000:user/local" {
		t.Errorf("the third key is %+v", local)
	}
	if s.Find([]byte("none")) != nil {
		t.Error("a key is found that is not there")
	}
}

func TestReadFaults(t *testing.T) {
	const start = "keys:\n  - access_key: AKID\n    "
	for _, c := range []struct{ name, text, want string }{
		{"an empty file", "", "keys.yaml: the file is empty"},
		{"a file of comments", "# keys:\n", "keys.yaml: the file is empty"},
		{"a list that is missing", "keys:\n", "keys.yaml: the file is empty"},
		{"an unknown member of the file", "policies: []\n", `keys.yaml:1:1: "policies" is not a member of a file of keys; the only one is keys`},
		{"a list without its name", "- access_key: a\n", "keys.yaml:1:1: the file must have a list of keys"},
		{"no list", "keys: AKID\n", "keys.yaml:1:7: keys must be a list"},
		{"an entry that is text", "keys:\n  - AKID\n", "keys.yaml:2:5: an entry of keys must have members"},
		{"an unknown member of a key", start + "secrets: a\n", `keys.yaml:3:5: "secrets" is not a member of a key; the members are access_key, secret,`},
		{"policies are not accepted yet", start + "secret: a\n    policies: []\n", `keys.yaml:4:5: "policies" is not a member of a key`},
		{"no access key", "keys:\n  - secret: a\n", "keys.yaml:2:5: a key has no access_key"},
		{"no secret", start + "comment: a\n", "keys.yaml:2:5: a key has neither a secret nor a secret_file"},
		{"two secrets", start + "secret: a\n    secret_file: b\n", "a key has both"},
		{"a token that never expires", start + "secret: a\n    session_token: b\n", "must have expires"},
		{"an expiry without a token", start + "secret: a\n    expires: 2026-01-01T00:00:00Z\n", "must have a session_token"},
		{"an expiry that is not a time", start + "secret: a\n    session_token: b\n    expires: tomorrow\n", "keys.yaml:5:14: expires must be a time such as"},
		{"an empty secret", start + "secret: ''\n", "keys.yaml:3:13: secret is empty"},
		{"a secret without a value", start + "secret:\n", "keys.yaml:3:5: secret must have a value"},
		{"a secret of several lines", start + "secret: |\n      a\n      b\n", "secret must have a value that is text, in one line"},
		{"an access key with a slash", "keys:\n  - access_key: a/b\n    secret: a\n", "keys.yaml:2:17: access_key must be printable ASCII"},
		{"a principal that is a group", start + "secret: a\n    principal: arn:aws:iam::000000000000:group/a\n", "keys.yaml:4:16: principal must be the ARN of a user"},
		{"an access key twice", start + "secret: a\n  - access_key: AKID\n    secret: b\n", "keys.yaml:4:5: the access key AKID is in line 2 already"},
		{"a secret file that is missing", start + "secret_file: none\n", "keys.yaml:3:18: secret_file cannot be used: "},
		{"a second document", start + "secret: a\n---\nkeys:\n", "a second document is not allowed"},
		{"a syntax error", start + "secret: \"" + planted + "\n", "keys.yaml:3:"},
		{"a member twice", start + "secret: " + planted + "\n    secret: " + planted + "\n", "keys.yaml:4:5: "},
		{"a secret in place of a name", "keys:\n  - " + planted + "\n", "keys.yaml:2:5: "},
		{"a secret as the name of a member", start + planted + ": a\n", "keys.yaml:3:5: this is not a member of a key; the members are access_key, secret,"},
		{"a secret after an equal sign", start + "secret=" + planted + ": a\n", "keys.yaml:3:5: this is not a member of a key"},
		{"a secret as the member of the file", planted + ": a\n", "keys.yaml:1:1: this is not a member of a file of keys; the only one is keys"},
		{"a secret in place of its file", start + "secret_file: " + planted + "\n", "keys.yaml:3:18: secret_file cannot be used: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(writeKeys(t, c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), planted[:len("PLANTED")]) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestModeIsChecked(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes")
	}
	path := writeKeys(t, twoKeys)
	for mode, ok := range map[fs.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o620: false, 0o660: false, 0o601: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Read(path)
		if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "run: chmod 600 "+path) {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if err := Add(path, &Key{AccessKey: fmt.Sprint(mode), Secret: NewSecret("a")}); ok != (err == nil) {
			t.Errorf("mode %04o: Add returns %v", mode, err)
		}
	}
}

func TestAddAndRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	id, secret := Generate()
	added := &Key{AccessKey: id, Secret: secret, Principal: "arn:aws:iam::000000000000:user/a", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Comment: `with "quotes": and # more`}
	if err := Add(path, added); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the mode of a new file is %04o", info.Mode().Perm())
	}
	s, err := Read(path)
	if err != nil || len(s.All()) != 1 || !sameKey(s.All()[0], added) {
		t.Fatalf("the file has %+v, %v", s, err)
	}
	if err := Remove(path, "none"); !errors.Is(err, ErrNoKey) {
		t.Errorf("removing no key: %v", err)
	}
	if err := Remove(path, id); err != nil {
		t.Fatal(err)
	}
	if s, err := Read(path); err != nil || len(s.All()) != 0 {
		t.Errorf("after Remove the file has %+v, %v", s, err)
	}
	if err := Add(path, added); err != nil {
		t.Errorf("adding to an empty list: %v", err)
	}
	if files, _ := filepath.Glob(path + "*"); len(files) != 1 {
		t.Errorf("the files are %q", files)
	}
}

// All lines but those of the key stay as they are, comments included.
func TestOtherLinesStay(t *testing.T) {
	path := writeKeys(t, twoKeys)
	if err := Add(path, &Key{AccessKey: "NEW", Secret: NewSecret("a")}); err != nil {
		t.Fatal(err)
	}
	if err := Remove(path, "AKIDEXAMPLE"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = `# Keys of the shop.
keys:
  # the application
  - access_key: ASIATEMP # temporary
    secret: other
    session_token: token
    expires: 2026-06-01T00:00:00Z
    principal: arn:aws:sts::000000000000:assumed-role/reader/tim
  - access_key: "NEW"
    secret: "a"
    principal: "arn:aws:iam::000000000000:user/NEW"
`
	if string(text) != want {
		t.Errorf("the file is\n%s\nwant\n%s", text, want)
	}
}

// A file in another form is changed without a loss, or not at all.
func TestEditOfOtherForms(t *testing.T) {
	for _, c := range []struct {
		name, text string
		added      bool
	}{
		{"an empty file", "", true},
		{"a comment only", "# none yet", true},
		{"an empty list in brackets", "keys: []\n", true},
		{"a name only", "keys:", true},
		{"no indent", "keys:\n- access_key: a\n  secret: b\n", true},
		{"no line break at the end", "keys:\n  - access_key: a\n    secret: b", true},
		{"a dash of its own", "keys:\n  -\n    access_key: a\n    secret: b\n", true},
		{"entries in braces", "keys:\n  - {access_key: a, secret: b}\n", true},
		{"a list in brackets", "keys: [{access_key: a, secret: b}]\n", false},
		{"JSON", `{"keys": [{"access_key": "a", "secret": "b"}]}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeKeys(t, c.text)
			err := Add(path, &Key{AccessKey: "NEW", Secret: NewSecret("x")})
			if c.added != (err == nil) {
				t.Fatalf("Add returns %v", err)
			}
			if !c.added {
				if text, _ := os.ReadFile(path); string(text) != c.text {
					t.Errorf("the file has become\n%s", text)
				}
				return
			}
			s, err := Read(path)
			if err != nil || s.Find([]byte("NEW")) == nil || strings.Contains(c.text, "access_key") != (s.Find([]byte("a")) != nil) {
				t.Errorf("the file has %+v, %v", s, err)
			}
			if s.Find([]byte("a")) == nil {
				return
			}
			if err := Remove(path, "a"); err != nil {
				t.Fatal(err)
			}
			if s, err := Read(path); err != nil || len(s.All()) != 1 {
				t.Errorf("after Remove the file has %+v, %v", s, err)
			}
		})
	}
}

func TestOneChangeAtATime(t *testing.T) {
	path := writeKeys(t, twoKeys)
	if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Add(path, &Key{AccessKey: "NEW", Secret: NewSecret("a")}); err == nil || !strings.Contains(err.Error(), "remove it if there is none") {
		t.Errorf("Add returns %v", err)
	}
}

func TestGenerate(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		id, secret := Generate()
		if len(id) != 20 || !strings.HasPrefix(id, "AKIA") || checkAccessKey(id) != "" || len(secret.Reveal()) != 40 || seen[id] || seen[secret.Reveal()] {
			t.Fatalf("the key is %s, with a secret of %d characters", id, len(secret.Reveal()))
		}
		seen[id], seen[secret.Reveal()] = true, true
	}
}

// A file whose last key is removed says that it has none, and is not taken for one that is being
// written; a key can be added again.
func TestRemoveLast(t *testing.T) {
	for text, want := range map[string]string{
		"keys:\n  - access_key: a\n    secret: b\n":            "keys: []\n",
		"# ours\nkeys: # none\n- {access_key: a, secret: b}\n": "# ours\nkeys: [] # none\n",
	} {
		path := writeKeys(t, text)
		if err := Remove(path, "a"); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("the file is\n%s\nwant\n%s", got, want)
		}
		if set, err := Read(path); err != nil || len(set.All()) != 0 {
			t.Errorf("it is read with %v", err)
		}
		if err := Add(path, &Key{AccessKey: "c", Secret: NewSecret("d")}); err != nil {
			t.Error(err)
		}
		if set, err := Read(path); err != nil || len(set.All()) != 1 || set.Find([]byte("c")) == nil {
			t.Errorf("after Add: %v", err)
		}
	}
}

// The keys of the first set take precedence.
func TestUnite(t *testing.T) {
	set := func(secret string, ids ...string) *Set {
		var list []*Key
		for _, id := range ids {
			list = append(list, &Key{AccessKey: id, Secret: NewSecret(secret)})
		}
		return NewSet(list...)
	}
	united, shadowed := Unite(set("first", "a", "b"), set("second", "b", "c"))
	if got := fmt.Sprintln(shadowed, len(united.All()), united.Find([]byte("b")).Secret.Reveal(), united.Find([]byte("c")).Secret.Reveal()); got != "[b] 3 first second\n" {
		t.Error(got)
	}
}
