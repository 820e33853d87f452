package cli

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator"
)

// The commands of an encrypted folder and its backups, from the first key to a second one and to
// none. No output has a part of a key.
func TestEncryptionCommands(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	one, two, data, to := path("one"), path("two"), path("data"), path("backup")
	var output strings.Builder
	expect := func(code int, text string, args ...string) {
		t.Helper()
		got, out := run(args...)
		output.WriteString(out)
		if got != code || !strings.Contains(out, text) {
			t.Errorf("%v exits with %d, want %d and %q:\n%s", args, got, code, text, out)
		}
	}
	expect(exitDone, "keep a copy", "encryption", "new-key", one)
	expect(exitDone, "keep a copy", "encryption", "new-key", two)
	expect(exitFailed, "exists", "encryption", "new-key", one)

	db, err := stator.Open(t.Context(), stator.Options{Dir: data, EncryptionKey: one})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(db.Handler())
	expect(exitDone, "encrypts its data with key "+db.EncryptionKeyID()+", but this backup is not encrypted", "backup", "--endpoint", web.URL, "--to", path("plain"))
	expect(exitDone, "TABLE", "backup", "--endpoint", web.URL, "--to", to, "--encryption-key", "command:cat '"+one+"'")
	if strings.Count(output.String(), "this backup is not encrypted") != 1 {
		t.Errorf("only the first backup is not encrypted:\n%s", &output)
	}
	expect(exitDone, db.EncryptionKeyID(), "encryption", "status", "--data", data)
	expect(exitFailed, "another stator", "encryption", "rotate", "--data", data, "--encryption-key", one)
	web.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	expect(exitFailed, "name the key with --encryption-key", "verify", "--data", data)
	expect(exitFailed, "another key", "verify", "--data", data, "--encryption-key", two)
	expect(exitDone, "(database)", "verify", "--data", data, "--encryption-key", one)
	expect(exitDone, "ok", "verify", "--backups", to, "--encryption-key", one)
	expect(exitFailed, "name the key with --encryption-key", "verify", "--backups", to)
	expect(exitFailed, "another key", "restore", "--from", to, "--data", path("restored"), "--encryption-key", two)
	expect(exitFailed, "name the key with --encryption-key", "restore", "--from", to, "--data", path("restored"))
	expect(exitFailed, "is encrypted", "encryption", "enable", "--data", data, "--encryption-key", two)

	expect(exitDone, `"mixed":false`, "encryption", "rotate", "--data", data, "--old-encryption-key", one, "--encryption-key", two, "--json")
	expect(exitDone, `"rotated":1`, "encryption", "rotate", "--backups", to, "--old-encryption-key", one, "--encryption-key", two, "--json")
	expect(exitFailed, "another key", "verify", "--data", data, "--encryption-key", one)
	expect(exitDone, "(database)", "verify", "--data", data, "--encryption-key", two)
	expect(exitDone, "TABLE", "restore", "--from", to, "--data", path("restored"), "--encryption-key", two)
	expect(exitDone, "ok", "verify", "--backups", to, "--encryption-key", one) // which has made them
	expect(exitDone, `"rewritten":`, "encryption", "rotate", "--backups", to, "--encryption-key", two, "--rewrite", "--json")
	expect(exitFailed, "could not be verified with this encryption key", "verify", "--backups", to, "--encryption-key", one)
	expect(exitFailed, `"needsKey":`, "verify", "--backups", to, "--json")
	expect(exitDone, "ok", "verify", "--backups", to, "--encryption-key", two, "--allow-plain-backups")
	expect(exitUsage, "applies to --encryption-key only", "restore", "--from", to, "--data", path("other"), "--allow-plain-backups")
	expect(exitUsage, "applies to --encryption-key only", "serve", "--data", data, "--allow-plain-backups")
	expect(exitUsage, "applies to --backups only", "verify", "--data", data, "--encryption-key", two, "--allow-plain-backups")
	expect(exitDone, "encrypted with key", "encryption", "rotate", "--data", data, "--encryption-key", two, "--rewrite")

	expect(exitDone, "not encrypted", "encryption", "disable", "--data", data, "--encryption-key", two)
	expect(exitFailed, "stator encryption enable", "verify", "--data", data, "--encryption-key", two)
	expect(exitFailed, "not encrypted", "encryption", "disable", "--data", data, "--encryption-key", two)
	expect(exitDone, "encrypted with key", "encryption", "enable", "--data", data, "--encryption-key", one)
	expect(exitDone, "encrypted with key", "encryption", "enable", "--data", data, "--encryption-key", one)
	expect(exitDone, "(database)", "verify", "--data", data, "--encryption-key", one)

	expect(exitUsage, "--encryption-key must name", "encryption", "enable", "--data", data)
	expect(exitUsage, "applies to --data only", "serve", "--in-memory", "--encryption-key", one)
	expect(exitUsage, "applies to --data only", "serve", "--engine", "tikv://127.0.0.1:1", "--backups", to, "--encryption-key", one)
	expect(exitFailed, "no such file", "serve", "--addr", "127.0.0.1:0", "--data", data, "--encryption-key", path("none"))
	expect(exitFailed, "there is no data", "encryption", "status", "--data", to)

	for _, name := range []string{one, two} {
		key, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(output.String(), string(key[:16])) {
			t.Errorf("the output has a part of a key:\n%s", output.String())
		}
	}
}
