package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	code, stdout, stderr := runStator(t, "key", "new", "--keys", file, "--json", "--principal", "arn:aws:iam::000000000000:user/shop", "--comment", "the shop")
	var first shownKey
	if err := json.Unmarshal([]byte(stdout), &first); err != nil || code != exitDone {
		t.Fatalf("key new exits with %d: %s%s %v", code, stdout, stderr, err)
	}
	if len(first.AccessKey) != 20 || len(first.Secret) != 40 || first.Principal != "arn:aws:iam::000000000000:user/shop" || first.Comment != "the shop" || first.Created == nil {
		t.Errorf("the key is %+v", first)
	}
	if !strings.Contains(stderr, "kill -HUP") || strings.Contains(stderr, first.Secret) {
		t.Errorf("stderr is %s", stderr)
	}
	code, stdout, _ = runStator(t, "key", "new", "--keys", file)
	if code != exitDone || !strings.Contains(stdout, "access key  AKIA") || !strings.Contains(stdout, "secret      ") {
		t.Errorf("key new exits with %d: %s", code, stdout)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "access_key") != 2 || !strings.Contains(string(text), first.Secret) {
		t.Errorf("the file is %s, %v", text, err)
	}

	code, stdout, stderr = runStator(t, "key", "list", "--keys", file)
	if code != exitDone || !strings.Contains(stdout, first.AccessKey+"  arn:aws:iam::000000000000:user/shop") || strings.Contains(stdout+stderr, first.Secret) {
		t.Errorf("key list exits with %d: %s", code, stdout)
	}
	code, stdout, _ = runStator(t, "key", "list", "--keys", file, "--json")
	var all []map[string]any
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != exitDone || len(all) != 2 || all[0]["accessKey"] != first.AccessKey || all[0]["secret"] != nil {
		t.Errorf("key list exits with %d: %s %v", code, stdout, err)
	}

	code, stdout, stderr = runStator(t, "key", "revoke", first.AccessKey, "--keys", file)
	if code != exitDone || !strings.Contains(stdout, "revoked "+first.AccessKey) || !strings.Contains(stderr, "kill -HUP") {
		t.Errorf("key revoke exits with %d: %s%s", code, stdout, stderr)
	}
	if code, out := run("key", "revoke", first.AccessKey, "--keys", file); code != exitFailed || !strings.Contains(out, "stator key list --keys") {
		t.Errorf("a second key revoke exits with %d: %s", code, out)
	}
	if _, stdout, _ = runStator(t, "key", "list", "--keys", file); strings.Contains(stdout, first.AccessKey) || strings.Count(stdout, "AKIA") != 2 {
		t.Errorf("the keys are\n%s", stdout)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"key", "new", "--keys", file, "--principal", "shop"}, exitUsage, "must be the ARN of a user"},
		{[]string{"key", "list", "--keys", file + "x"}, exitFailed, "cannot list keys"},
		{[]string{"key", "revoke", "--keys", file}, exitUsage, "an access key"},
		{[]string{"key", "revoke", "A", "--keys", file + "x"}, exitFailed, "cannot revoke A"},
	} {
		if code, out := run(c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v exits with %d: %s", c.args, code, out)
		}
	}
}
